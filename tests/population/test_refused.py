"""Selectors that cannot work are refused before anything compiles, in words that say what would work."""

import numpy as np
import pytest

import shoal
from shoal.agents.learned_losses import LearnedValueLoss
from shoal.cli.main import main
from shoal.core.keys import make_key
from shoal.core.registry import SELECTORS
from shoal.training.jobs import make_job
from tiny import FIELDS

SMALL = {"steps": 2560, "seeds": 8, "records": 10, "evaluations": 10}


def plan(selector, agent="ppo", env="CartPole-v1", **changes):
    options = {"fields": FIELDS, "preset": None, **SMALL, **changes}
    return make_job(agent, env, selector=selector, **options).plan()


REFUSED = {
    "a field that does not exist": (
        lambda: shoal.PBT(vary=["learning_rat"]),
        "PPO has no field 'learning_rat'. Did you mean learning_rate?",
    ),
    "a field of the environment": (
        lambda: shoal.PBT(vary={"env.gravty": (1, 2)}),
        "CartPole has no field 'gravty'. Did you mean gravity?",
    ),
    "a static field": (
        lambda: shoal.PBT(vary={"num_envs": (1, 8)}),
        "num_envs shapes the program, so it cannot vary during a run. These can: learning_rate, discount,",
    ),
    "a range outside of valid": (
        lambda: shoal.PBT(vary={"discount": (0.5, 1.5)}),
        r"discount cannot vary from 0.5 to 1.5: PPO.discount=1.5 is out of range: it must lie in \[0, 1\]",
    ),
    "no range": (
        lambda: shoal.PBT(vary=["env.gravity"]),
        "env.gravity declares no search range: write one, as in --selector.vary env.gravity=LOW..HIGH",
    ),
    "an empty range": (
        lambda: shoal.PBT(vary={"discount": (0.9, 0.5)}),
        r"discount cannot be sampled from \(0.9, 0.5\): write two finite numbers, the lower one first",
    ),
    "a field that is None": (
        lambda: shoal.PBT(vary={"target_kl": (0.01, 0.1)}),
        "target_kl is None, which needs another compiled program than a number: give it a number",
    ),
    "nothing": (lambda: shoal.PBT(vary=[]), "vary is empty: name at least one hyperparameter"),
    "no list": (lambda: shoal.PBT(vary=3), "vary=3 is not a list of paths and not a dict of ranges"),
    "a small population": (
        lambda: shoal.PBT(quantile=0.1),
        "pbt with quantile=0.1 replaces nobody among 8 members: train at least 10, as with --seeds 10",
    ),
    "no quantile": (
        lambda: shoal.PBT(quantile=0.0),
        "pbt with quantile=0 replaces nobody among 8 members: use a larger one, such as 0.25",
    ),
    "too large a quantile": (lambda: shoal.PBT(quantile=0.6), r"PBT.quantile=0.6 is out of range: .* \[0, 0.5\]"),
    "an unknown rule": (
        lambda: shoal.PBT(exploit="best"),
        "exploit='best' is unknown. Choose one of truncation, tourn",
    ),
    "replacements after the end": (
        lambda: shoal.PBT(every=10),
        "pbt with every=10 never acts in a run of 10 records: use a smaller --selector.every",
    ),
    "eta below 2": (
        lambda: shoal.Halving(eta=1.5),
        r"Halving.eta=1.5 is out of range: it must lie in \[2, 1000000.0\]",
    ),
    "a rung after the end": (
        lambda: shoal.Halving(first=10),
        "halving has its first rung after record 10, and the run has 10: use a smaller --selector.first or more --rec",
    ),
    "a late bracket": (
        lambda: shoal.Halving(eta=2, first=5, brackets=2),
        "bracket 1 of 2 has its first rung after record 10, and the run has 10: .* fewer brackets",
    ),
    "few members": (lambda: shoal.Halving(eta=9), "halving has 8 members, of which 1/9 is less than one: .* --seeds 9"),
    "small brackets": (lambda: shoal.Halving(eta=4, brackets=2), "bracket 1 of 2 has 2 members, of which 1/4 is less"),
    "no records": (lambda: shoal.Halving(first=0), "first=0 must be at least 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_selector_that_cannot_work_is_refused(case):
    make, message = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=message):
        plan(make())


def test_members_without_a_score_are_refused():
    late = {"evaluations": 0, "fields": {**FIELDS, "num_envs": 64, "num_steps": 4}}
    with pytest.raises(
        ValueError, match=r"the first replacement comes after record 1 \(256 steps .*no score yet: no episode"
    ):
        plan(shoal.PBT(), **late)
    assert plan(shoal.PBT(every=6), **late).members == 8


def test_members_that_have_not_learned_are_refused():
    dqn = {"agent": "dqn", "fields": {"learning_starts": 600.0}, "steps": 2000}
    with pytest.raises(ValueError, match="the first rung comes after record 1 .* first gradient step comes after 600"):
        plan(shoal.Halving(eta=2), **dqn)
    assert plan(shoal.Halving(eta=2, first=4), **dqn).members == 8


def test_a_run_without_anything_to_vary_is_refused():
    with pytest.raises(ValueError, match="nothing is left to vary"):
        plan(
            "pbt",
            agent="q-learning",
            env="CliffWalking-v1",
            fields={n: 0.5 for n in ("learning_rate", "anneal", "discount", "epsilon_end", "exploration")},
        )


def test_what_varies_by_default_is_what_was_not_set():
    fields = {**FIELDS, "learning_rate": 1e-3}
    made = plan("pbt", fields=fields, sweep={"discount": [0.8, 0.99]}, seeds=4)
    assert "learning_rate" not in made.selector.vary and "entropy_coef" in made.selector.vary
    assert made.selector.vary["discount"] == (0.8, 0.9999, "linear")  # declared from 0.9; the sweep begins at 0.8
    assert made.selector.first_given == ("discount",)
    assert not [path for path in made.selector.vary if path.startswith("env.")]


def test_losses_that_a_run_gives_its_members_do_not_vary():
    losses = [LearnedValueLoss.init(make_key(seed), hidden=(3,)) for seed in (0, 1)]
    made = plan("pbt", sweep={"value_loss": losses}, seeds=4)
    assert "value_loss" not in made.selector.vary and "clip" in made.selector.vary


def test_a_number_inside_of_a_struct_that_is_swept_may_vary():
    losses = [LearnedValueLoss.init(make_key(seed), hidden=(3,)) for seed in (0, 1)]
    made = plan(shoal.PBT(vary={"value_loss.scale": (1.0, 20.0)}), sweep={"value_loss": losses}, seeds=4)
    scales = made.roster.hyperparameters["value_loss.scale"]
    agents, _ = made.batched(made.roster.changed({"value_loss.scale": scales + np.arange(8)}))
    np.testing.assert_array_equal(agents.value_loss.scale, scales + np.arange(8))  # the selector sets it in the struct
    np.testing.assert_array_equal(agents.value_loss.layers[0]["kernel"][4], losses[1].layers[0]["kernel"])


def test_first_values_outside_of_a_range_are_refused():
    with pytest.raises(ValueError, match="learning_rate begins with 0.5, outside of its range from 0.001 to 0.01"):
        plan(shoal.PBT(vary={"learning_rate": (1e-3, 1e-2)}), fields={**FIELDS, "learning_rate": 0.5})


def test_ranges_of_a_search_are_those_of_the_selector():
    made = plan("pbt", random=8, search={"learning_rate": (1e-4, 1e-3, "log"), "env.gravity": (5, 15)}, seeds=1)
    assert made.selector.vary["env.gravity"] == (5, 15, "linear")
    assert made.selector.vary["learning_rate"] == (1e-4, 1e-3, "log")
    assert set(made.selector.first_given) == {"learning_rate", "env.gravity"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--selector pbtt", "selector 'pbtt' is not registered. Did you mean pbt? `shoal selectors` lists every name."),
        ("--selector ppo", "ppo is an agent, not a selector."),
        ("--selector.quantile 0.2", "--selector.quantile is for a selector: name one first, as in --selector pbt"),
        ("--selector pbt --selector.quantil 0.2", "unknown flag --selector.quantil. Did you mean --selector.quantile?"),
        ("--selector pbt --selector.quantile 0.1,0.2", "a run has one selector, so its fields take one value each."),
        ("--selector pbt --selector.quantile x", "--selector.quantile x is not a number. The default is 0.25."),
        (
            "--selector pbt --selector.vary discount=5",
            "--selector.vary discount=5 is not a range: write PATH=LOW..HIGH",
        ),
        ("--selector pbt --resume RUN", "--selector is for a new run"),
    ],
)
def test_a_command_line_with_a_mistake_is_refused(words, message, result, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = "" if "--resume" in words else "ppo CartPole-v1 --seeds 8 "
    assert main(f"train {names}{words} --dry-run".replace("RUN", str(result.folder)).split()) == 2
    assert message in capsys.readouterr().err


def test_flags_of_a_selector_are_its_fields(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    vary = "learning_rate=log(1e-5,1e-2),entropy_coef,env.gravity=5..15,clip=0.1|0.2|0.3"
    words = [
        "--selector",
        "pbt",
        "--selector.vary",
        vary,
        "--selector.exploit",
        "tournament",
        "--seeds",
        "8",
        "--dry-run",
    ]
    assert main(["train", "ppo", "CartPole-v1", *words]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  selector"))
    for part in (
        "vary.learning_rate=(1e-05, 0.01, log)",
        "vary.entropy_coef=(1e-05, 0.1, log)",
        "vary.env.gravity=(5, 15, linear)",
        "vary.clip=(0.1, 0.2, 0.3, choice)",
        "exploit=tournament",
    ):
        assert part in line


MINE = """
import numpy as np
from shoal import REST, Selector, Turnover, static, struct

@struct
class Mine(Selector):
    keep: int = static(2)

    def select(self, state, standing, key):
        source = np.arange(len(standing.score))
        source[np.argsort(-standing.score, kind="stable")[self.keep:]] = REST
        return state, Turnover.none(standing)._replace(source=source)
"""


def test_a_selector_of_the_users_own_works_by_file_and_class(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    words = "--selector mine.py:Mine --selector.keep 3 --seeds 4 --steps 96 --num-steps 16 --records 3 --evaluations 3"
    more = "--eval-episodes 1 --eval-max-steps 5 --no-figures --no-progress --name a"
    assert main(["train", "q-learning", "CliffWalking-v1", *words.split(), *more.split()]) == 0
    result = shoal.load_result("runs/a")
    assert (result.curves["occupant"][-1] >= 0).sum() == 3
    assert result.spec.selector.fields == {"keep": 3} and result.spec.selector.name.endswith("mine.py:Mine")


def test_every_selector_is_listed(capsys):
    assert main(["selectors"]) == 0
    listing = capsys.readouterr().out
    assert all(name in listing for name in ("pbt", "halving", "random")) and [*SELECTORS] == [
        "halving",
        "pb2",
        "pbt",
        "random",
    ]
    assert main(["selectors", "halving"]) == 0
    assert "--selector.eta X" in capsys.readouterr().out
