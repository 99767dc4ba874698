"""The scores between which returns are normalized."""

import functools
import itertools
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from shoal.core.registry import ENVS
from shoal.specs.describe import describe_fields
from shoal.specs.spec import RunSpec
from shoal.training.references import known_references, read_references, reference_for, target_of
from value_iteration import value_iteration

MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "random-play.json"


def test_random_play_is_what_was_measured():
    measured = json.loads(MEASURED.read_text())
    known = {name: table["random"] for name, table in known_references().items() if "random" in table}
    assert len(known) >= 14 and known == {name: measured[name]["mean"] for name in known}
    assert all(name.partition(":")[0] in ENVS and target_of(table) for name, table in known_references().items())


def test_shoals_references_are_above_random_play_and_for_default_fields():
    for name, table in known_references().items():
        if "random" in table:
            reference = reference_for(name, RunSpec("ppo", name), {})
            assert reference.low == table["random"] < reference.high == target_of(table)[1]
    fields = describe_fields(ENVS["CartPole-v1"].build())
    assert reference_for("CartPole-v1", RunSpec("ppo", "CartPole-v1", env_fields=fields), {}).high == 500
    for spec in (RunSpec("ppo", "CartPole-v1", env_fields={"gravity": 5.0}), RunSpec("ppo", "my.py:Mine")):
        assert reference_for(spec.env_name, spec, {}) is None
    assert reference_for("GridWorld-v0", RunSpec("ppo", "GridWorld-v0"), {}) is None  # random play reaches its target


def test_a_file_of_ones_own_comes_first(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('["CartPole-v1"]\nrandom = 10\ntarget = 210\n["Mine"]\nrandom = -1.5\nsolved = 3\n')
    own = read_references(path)
    assert reference_for("CartPole-v1", RunSpec("ppo", "CartPole-v1"), own).normalized(110) == 0.5
    found = reference_for("Mine", RunSpec("ppo", "my.py:Mine"), own)
    assert found == (-1.5, 3.0, "random play -1.5, the return at which it is solved 3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1", "a stands outside of a table"),
        ('["A"]\nrandom = "x"', "random = 'x' of \"A\" is not known"),
        ('["A"]\nrandom = nan', "random = nan"),
        ('["A"]\nbest = 3', "best = 3"),
        ("[[", "is no TOML"),
    ],
)
def test_files_of_another_form_are_refused(text, message, tmp_path):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_references(tmp_path / "bad.toml")
    with pytest.raises(FileNotFoundError, match="A file of references has"):
        read_references(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    "table", [{"random": 0}, {"target": 3}, {"random": 3, "target": 3}, {"random": 4, "target": 3}]
)
def test_a_reference_needs_random_play_below_its_target(table):
    with pytest.raises(ValueError, match='the reference of "Mine" needs random and a target that is larger'):
        reference_for("Mine", RunSpec("ppo", "my.py:Mine"), {"Mine": table})


CARDS = [(card, (4 if card == 10 else 1) / 13) for card in range(1, 11)]  # of an infinite deck, with probabilities


@functools.cache
def dealer(total, has_ace):
    """The probabilities of the dealer's final sums from 17 on, 0 for a bust."""
    shown = total + 10 if has_ace and total <= 11 else total
    if shown >= 17:
        return {shown if shown <= 21 else 0: 1.0}
    found = defaultdict(float)
    for card, probability in CARDS:
        for end, of_end in dealer(total + card, has_ace or card == 1).items():
            found[end] += probability * of_end
    return dict(found)


@functools.cache
def best_value(total, has_ace, up):
    """The expected return of the best play with a hand against the dealer's visible card."""
    shown = total + 10 if has_ace and total <= 11 else total
    if shown > 21:
        return -1.0
    ends = [(p * q, end) for card, p in CARDS for end, q in dealer(up + card, 1 in (up, card)).items()]
    stick = sum(p * np.sign(shown - end) for p, end in ends)
    return max(stick, sum(p * best_value(total + card, has_ace or card == 1, up) for card, p in CARDS))


def value_of_deal(first, second, up):
    """That of two cards; a natural wins against everything except another one."""
    if {first, second} == {1, 10}:
        return 1 - {1: 4 / 13, 10: 1 / 13}.get(up, 0)
    return best_value(first + second, 1 in (first, second), up)


def test_the_largest_returns_of_toy_text_follow_from_the_rules():
    deals = itertools.product(CARDS, repeat=3)
    blackjack = sum(p * q * r * value_of_deal(a, b, up) for (a, p), (b, q), (up, r) in deals)
    assert known_references()["Blackjack-v1"]["largest"] == pytest.approx(blackjack, abs=5e-5)
    model = ENVS["CliffWalkingSlippery-v1"].build().model()
    start = value_iteration(model, 1.0, tolerance=1e-7)[36].max()  # the cell at the lower left
    assert known_references()["CliffWalkingSlippery-v1"]["largest"] == pytest.approx(start, abs=5e-4)
