"""Studies of several objectives: what may be asked for, how it is measured, and the Pareto front at the end."""

import csv
import json
import math
import tomllib
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import jax
import numpy as np
import pytest

import shoal
from commands import refused, say
from shoal.core.registry import AGENTS, make
from shoal.population.slots import Slots
from shoal.specs.settings import AgentEnv
from shoal.studies.objectives import Measures, check_spaces, computed_members, median_speed, read_objectives
from shoal.studies.results import trial_preset
from shoal.studies.samplers import check_names, make_sampler
from shoal.studies.search import read_space
from shoal.studies.storage import open_study
from shoal.studies.study import StudyResult
from shoal.studies.trial_states import PRUNED
from shoal.studies.trials import TrialStore
from shoal.studies.tune import tune
from shoal.tracking.events import Searched, Sink
from shoal.tracking.study_display import parts_of
from shoal.training.loop import Run
from shoal.training.policy import Policies
from shoal.training.population import Population

ELSEWHERE = "return:CliffWalkingSlippery-v1"
OPTIONS = {
    "parallel": 3,
    "seeds": 2,
    "steps": 2 * 64,
    "records": 2,
    "sampler": "grid",
    "score": "min",
    "search": {"learning_rate": [0.1, 0.4, 0.8], "num_steps": [8, 16]},
    "env_fields": {"max_steps": 8},
    "eval_episodes": 4,
    "eval_max_steps": 20,
    "progress": False,
    "figures": False,
}


class Kept(Sink):
    """Keeps the events of a study."""

    def __init__(self):
        self.searched = []

    def receive(self, event):
        if isinstance(event, Searched):
            self.searched.append(event)


def test_what_cannot_be_asked_for_is_refused():
    assert read_objectives(None) == ("return",) == read_objectives("return")
    assert read_objectives(["steps_per_second", "return"]) == ("steps_per_second", "return")
    for given, message in (
        (["return", "steps_per_secon"], "Did you mean steps_per_second"),
        (["return", "return:CartPole-v7"], "CartPole-v1"),
        (["return", "return"], "the objective return was given twice"),
        (["steps_per_second"], "the objectives lack return"),
    ):
        with pytest.raises(ValueError, match=message):
            read_objectives(given)
    check_spaces(["return", "return:Acrobot-v1"], make("Acrobot-v1"), "Acrobot-v1")
    with pytest.raises(ValueError, match="Acrobot-v1 needs an environment with the spaces of CartPole-v1: its obs"):
        check_spaces(["return", "return:Acrobot-v1"], make("CartPole-v1"), "CartPole-v1")


def test_samplers_and_pruners_that_compare_one_score_are_refused():
    space = read_space(AgentEnv(AGENTS["ppo"].cls(), make("CartPole-v1")), ["learning_rate", "clip"])
    assert check_names("tpe", "", 1, space, objectives=2) == ("tpe", "none")
    for sampler in ("cmaes", "bohb"):
        with pytest.raises(ValueError, match=f"the sampler {sampler} has one objective, not 2: choose one of tpe, ran"):
            check_names(sampler, "", 9, space, objectives=2)
    with pytest.raises(ValueError, match="the pruner median compares one score, and there are 2 objectives"):
        check_names("tpe", "median", 9, space, objectives=2)


def test_optuna_refuses_these_samplers_too_and_takes_the_others():
    """Each sampler that is offered suggests after complete trials of two objectives, and after a diverged one."""
    pytest.importorskip("cmaes")
    space = read_space(AgentEnv(AGENTS["ppo"].cls(), make("CartPole-v1")), ["learning_rate", "clip"])

    def ask_again(name):
        study = open_study("memory", "two", {}, ["maximize"] * 2, make_sampler(name, 0))
        with TrialStore(study, space.distributions, trials=40) as store:
            for i, trial in enumerate(store.ask(20)):
                if i == 3:
                    store.report(trial.number, 1, 5.0)
                    store.tell(trial.number, None, PRUNED)
                else:
                    store.tell(trial.number, (float(i), -float(i)))
            return len(store.ask(1)), study.trials[3].intermediate_values

    for name in ("tpe", "random", "qmc", "nsga2"):
        asked, reports = ask_again(name)
        assert asked == 1 and reports[1] == 5.0 and math.isnan(reports[2])
    with pytest.raises(ValueError, match="multi-objective"):
        ask_again("cmaes")


def test_the_speed_counts_the_slots_of_calls_that_ran():
    """Blocks of 2 in waves of 3: calls (0, 1), (2,), (3, 4), (5,); slots 1, 3 and 4 are busy."""
    busy = np.asarray([False, True, False, True, True, False])
    waves = [slice(0, 3), slice(3, 6)]
    assert computed_members(busy, waves, 2) == 4
    assert computed_members(busy, [slice(0, 6)], 1) == 3
    assert computed_members(busy, [slice(0, 6)], None) == 6
    assert median_speed([1234.0, 9999.0, 1111.0]) == 1200.0 and median_speed([5.0, 8.14]) == 6.6


def test_the_speed_of_a_trial_is_the_median_over_its_own_records(monkeypatch):
    """Three trials in slots after record 4: they began with records 1, 3 and 4."""
    state = {"trial": np.asarray([7, 9, 8]), "age": np.asarray([3, 1, 0])}
    plan = SimpleNamespace(selector=Slots(vary={"learning_rate": (0.1, 0.2)}))
    run = Mock(spec=Run, records=[None] * 4, plan=plan, selector_state=state, train_seconds=0.0, updates=0)
    measures = Measures(["return", "steps_per_second"], "mean")
    measures.begin_chunk(run)
    monkeypatch.setattr(measures, "end_chunk", lambda: None)
    measures._speeds = {1: 100.0, 2: 200.0, 3: 400.0, 4: 800.0}
    assert [measures.values(number, 5.0) for number in (7, 8, 9)] == [(5.0, 300.0), (5.0, 800.0), (5.0, 600.0)]


def test_policies_are_fetched_once_for_all_trials_that_end_with_a_record():
    fetched, records = [], [None]
    everyone = Policies(None, None, make("CliffWalking-v1"), ["a"])
    run = Mock(spec=Run, records=records, train_seconds=0.0, updates=0)
    run.member_policies = lambda: fetched.append(len(records)) or everyone
    measures = Measures(["return", ELSEWHERE], "mean")
    measures.begin_chunk(run)
    for _ in range(2):
        measures._all_policies()
        measures._all_policies()
        records.append(None)
    assert fetched == [1, 2]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A grid of 6 trials in two programs. Updates of 16 steps take four times as long as those of 8."""
    root, sink, patch = tmp_path_factory.mktemp("whole"), Kept(), pytest.MonkeyPatch()
    clock, advance = [0.0], Population.advance

    def timed(population, first, updates):
        seconds = 0.04 if population.plan.agent.num_steps == 16 else 0.01  # for an update of one member
        clock[0] += updates * seconds * (~population.roster.is_idle).sum()
        return advance(population, first, updates)

    patch.setattr(Population, "advance", timed)
    patch.setattr("shoal.training.loop.time", type("Clock", (), {"perf_counter": staticmethod(lambda: clock[0])}))
    objectives = ["return", "steps_per_second", ELSEWHERE]
    with jax.numpy_dtype_promotion("standard"):
        result = tune(
            "q-learning", "CliffWalking-v1", root=root, name="two", objectives=objectives, sinks=[sink], **OPTIONS
        )
    patch.undo()
    return result, sink.searched


def test_every_trial_has_a_value_for_each_objective(whole):
    """Members are trained one after another: 8 steps in 0.01 s are 800 a second, and 16 steps in 0.04 s are 400."""
    result, _ = whole
    trials = result.study.get_trials()
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 6
    assert {int(trial.params["num_steps"]): trial.values[1] for trial in trials} == {8: 800.0, 16: 400.0}
    assert all(trial.values[0] == trial.intermediate_values[2] for trial in trials)
    assert result.study.metric_names == ["return", "steps_per_second", ELSEWHERE]


def test_the_return_elsewhere_is_that_of_the_trained_policies(whole, tmp_path):
    """Train a late trial that was not in the first slot alone, and evaluate its policies in the other environment."""
    result, _ = whole
    in_slots = [
        shoal.load_result(path).curves["trial"] for path in sorted((result.folder / "workers" / "w0").glob("group-*"))
    ]
    others = {number for group in in_slots for number in group[:, 2:].ravel().tolist()} - {-1}  # 2 members each
    trials = result.study.get_trials()
    trial = next(trials[n] for n in sorted(others, reverse=True) if trials[n].values[2] != trials[n - 1].values[2])
    preset = tmp_path / "chosen.toml"
    preset.write_text(trial_preset(result.study, result.folder, trial.number))
    with jax.numpy_dtype_promotion("standard"):
        alone = shoal.train(preset=preset, folder=tmp_path / "alone", progress=False, figures=False)
        played = shoal.evaluate(alone.policies, ELSEWHERE.removeprefix("return:"), episodes=4, max_steps=20)
    assert trial.values[2] == played.episode_return.mean(axis=1).min()
    assert trial.values[0] == alone.curves["train_return"][-1].min()


def test_the_end_has_a_front_and_no_best_trial(whole):
    result, searched = whole
    front = result.summary["pareto_front"]
    best = [trial.number for trial in result.study.best_trials]
    assert [each["trial"] for each in front] == best and 1 <= len(best) < 6
    trial = result.study.get_trials()[best[0]]
    assert [*front[0]["scores"].values()] == trial.values and front[0]["params"] == trial.params
    assert result.summary["best"] is None and result.summary["trials"] == {"complete": 6}
    assert not (result.folder / "best.toml").exists() and not (result.folder / "fresh").exists()
    assert "no single best trial, so there is no best.toml" in result.summary["notes"][-1]
    with open(result.folder / "trials.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    scores = [[float(row[f"score_{name}"]) for name in result.spec.objectives] for row in rows]
    assert scores == [trial.values for trial in result.study.get_trials()]
    assert searched[-1].front == len(best) and searched[-1].best is None
    assert f"{len(best)} trial{'s' * (len(best) > 1)} on the Pareto front" in parts_of(searched[-1])


def test_a_study_of_several_objectives_goes_on_with_them(whole):
    result, _ = whole
    spec = json.loads((result.folder / "study.json").read_text())
    assert spec["objectives"] == ["return", "steps_per_second", ELSEWHERE] and spec["pruner"] == "none"
    assert StudyResult(result.folder).spec == result.spec
    with pytest.raises(ValueError, match="objectives=.* is for a new study; resume continues"):
        tune(resume=result.folder, objectives=["return"])
    with pytest.raises(ValueError, match="searches something else: objectives: "):
        open_study(
            f"journal:{result.folder / 'study.log'}", "two", {**result.spec.identity, "objectives": 3}, ["maximize"] * 3
        )


def test_a_study_of_one_objective_is_described_as_before(whole):
    """The storages of older studies hold a description without objectives; with them, such a study could not resume."""
    result, _ = whole
    single = replace(result.spec, objectives=("return",))
    assert "objectives" in result.spec.identity and [*single.identity] == ["run", "search", "score", "pruner"]
    old = {name: value for name, value in single.to_json().items() if name != "objectives"}
    assert type(single).from_json(old) == single and single.directions == ["maximize"]


def test_trials_and_the_report_show_the_objectives(whole, capsys):
    result, _ = whole
    status, out, _ = say(capsys, "trials", result.folder)
    lines = out.splitlines()
    assert status == 0 and lines[0].split()[2:5] == [f"score_{name}" for name in result.spec.objectives]
    front = len(result.study.best_trials)
    assert {int(line.split()[0]) for line in lines[2 : 2 + front]} == {each.number for each in result.study.best_trials}
    rows = say(capsys, "trials", result.folder, "--sort", f"score_{ELSEWHERE}")[1].splitlines()[2:-1]
    assert [int(row.split()[0]) for row in rows] == [
        trial.number for trial in sorted(result.study.get_trials(), key=lambda each: each.values[2])
    ]
    status, out, _ = say(capsys, "trials", result.folder, "--preset", "0")
    chosen = tomllib.loads(out)["CliffWalking-v1"]
    assert status == 0 and str(chosen["num_steps"]) == str(result.study.get_trials()[0].params["num_steps"])
    assert "trial 9 does not exist" in refused(capsys, "trials", result.folder, "--preset", "9")
    page = shoal.report(result.folder).read_text()
    assert "on the Pareto front: no other trial beats" in page and "score_steps_per_second" in page
    assert f"--preset {result.study.best_trials[0].number}" in page
