"""Generated levels of every BabyAI id have the reference's distribution, and so has the number of attempts.

The long run compares 3,000 levels of each side:

    pytest -m long tests/parity/babyai/test_layouts.py
"""

import gymnasium
import minigrid
import numpy as np
import pytest
from scipy.stats import binom, chi2_contingency

from parity.babyai.statistics import attempts_of_ours, layouts_of_reference, levels_of_ours, statistics
from parity.minigrid.layouts import SIGNIFICANCE, assert_same_distribution, mission
from shoal.core.registry import make
from shoal.grid.retry import LIMIT

assert minigrid  # which registers its environments
FIRST = ("BabyAI-GoToLocalS5N2-v0", "BabyAI-MiniBossLevel-v0")  # small rooms; the whole language
IDS = [*FIRST, *sorted(name for name in gymnasium.registry if name.startswith("BabyAI-") and name not in FIRST)]
FEW, MANY = 500, 3_000
REJECTING = [name for name in IDS if make(name).can_reject]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("env_id", IDS)
def test_levels_come_from_the_references_distribution(env_id):
    _assert_same(env_id, FEW)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("env_id", IDS)
def test_many_levels_come_from_the_references_distribution(env_id):
    _assert_same(env_id, MANY)


def _assert_same(env_id, n):
    ours, our_attempts = levels_of_ours(env_id, n)
    theirs, their_attempts = layouts_of_reference(env_id, n)
    level = make(env_id)
    wanted = statistics(level.rooms.pitch)
    if level.grammar.clauses == 1 and not level.grammar.places:
        wanted["mission"] = mission
    for name, statistic in wanted.items():
        try:
            assert_same_distribution(ours, theirs, statistic, tests=len(wanted) + 1)
        except AssertionError as error:
            error.add_note(f"{env_id}: {name}")
            raise
    counts = [[a.accepted, a.made - a.accepted] for a in (our_attempts, their_attempts)]
    if np.sum(counts, axis=0)[1] == 0:
        return  # neither side ever rejects an attempt
    p = chi2_contingency(counts).pvalue
    assert p > SIGNIFICANCE / (len(wanted) + 1), f"{env_id}: p = {p:.2e}; attempts {our_attempts} {their_attempts}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("env_id", REJECTING)
def test_no_level_is_given_up(env_id):
    # A lower bound of the probability that an attempt is accepted, wrong once in 10^6; then LIMIT rejections in a row.
    attempts = attempts_of_ours(env_id, 1000)
    accepted = next(p for p in np.linspace(1, 0, 1001) if binom.sf(attempts.accepted - 1, attempts.made, p) < 1e-6)
    assert LIMIT * np.log10(1 - accepted) < -300
