"""Runs with selectors: wherever members are placed, alone or together, stopped or not, their bits are the same."""

import dataclasses
import functools
import shutil

import jax
import numpy as np
import pytest

import shoal
from shoal.core.registry import SELECTORS
from shoal.core.struct import static, struct
from shoal.population import halving, replacing
from shoal.population.evolve import Evolve
from shoal.population.halving import Halving
from shoal.population.pb2 import PB2
from shoal.population.pbt import PBT
from shoal.specs.selector import Selector, Turnover
from shoal.specs.spec import RunSpec
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.loop import Run
from shoal.training.placement import make_placement
from shoal.training.plan import make_plan, schedule_of

STEPS = 32  # of an update
SPEC = {
    "agent": "q-learning",
    "env": "CliffWalking-v1",
    "fields": {"num_steps": STEPS, "snapshots": 2},
    "steps": 6 * STEPS,
    "seeds": 5,
    "records": 6,
    "evaluations": 6,
    "eval_episodes": 2,
    "eval_max_steps": 10,
}
VARY = {"learning_rate": (0.01, 1.0, "log"), "env.step_reward": (-2.0, -0.5)}
CASES = {
    "pbt": PBT(vary=VARY, quantile=0.4),
    "pb2": PB2(vary=VARY, quantile=0.4),
    "tournament": PBT(vary=VARY, exploit="tournament", explore="resample"),
    "halving": Halving(vary=VARY, eta=2),
    "refilled": Halving(vary=VARY, eta=2, refill="fresh"),
    "random": SELECTORS["random"].build(vary=VARY, every=2),
}
SELECTED = pytest.mark.parametrize("name", CASES)
# An evolution makes other runs: each generation begins again, and ends after 2 records.
EVOLUTION = {"seeds": 6, "steps": 2 * STEPS, "records": 2, "evaluations": 0, "fields": {"num_steps": STEPS}}
EVOLUTION["env_fields"] = {"max_steps": 8.0}  # so that episodes end
EVOLVED = [(path, *span) for path, span in VARY.items()]
STRATEGIES = {
    "whole": Evolve(vary=tuple(EVOLVED), generations=3, seeds=1, every=2, sigma=0.2),
    "segments": Evolve(
        vary=tuple(EVOLVED), generations=4, seeds=1, every=1, sigma=0.2, segments=2, strategy="PersistentES"
    ),
}


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Train five members, or those of the changes: (the run, its learners by name)."""

    def run(selector, on_mesh=False, memory_limit=0, **changes):
        folder = RunFolder(tmp_path_factory.mktemp("run") / "run")
        folder.create()
        with jax.numpy_dtype_promotion("standard"):
            spec, limits = (
                RunSpec(**{**SPEC, **changes}),
                {"memory_limit": memory_limit, "devices": int(memory_limit > 0)},
            )
            plan = make_plan(spec, selector=selector, **limits)
            if on_mesh:
                plan = dataclasses.replace(plan, placement=make_placement(plan.members, on_mesh=True))
            made = Run(plan, folder)
            made.train()
        return made, learners(folder.path)

    return run


@pytest.fixture(scope="module")
def alone(train):
    """A function that returns the run of a selector with one member in each call."""
    return functools.cache(lambda name: train(CASES[name]))


def learners(path):
    with np.load(checkpoint.newest(path / "checkpoints") / "learners.npz") as file:
        return dict(file)


def assert_same(found, expected):
    assert found.keys() == expected.keys() and len(found) > 4
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def curves_of(run):
    return {name: column for name, column in run.records.arrays().items() if name != "wall_seconds"}


@SELECTED
def test_something_was_replaced_and_all_values_stay_in_their_ranges(name, alone):
    run, _ = alone(name)
    curves = curves_of(run)
    assert (curves["occupant"] != np.arange(5)).any()
    assert (curves["parent"] >= 0).any() == (name in ("pbt", "pb2", "tournament"))
    for path, (low, high, *_) in VARY.items():
        values = curves[path].astype(np.float64)
        assert (values >= np.float32(low)).all() and (values <= np.float32(high)).all()
        assert len(set(values[0].tolist())) == 5  # the first members have samples of their own


@SELECTED
@pytest.mark.parametrize("where", [{"block": 2}, {"on_mesh": True}], ids=["blocks", "mesh"])
@pytest.mark.sampled(3)
def test_members_are_the_same_in_blocks_and_on_a_mesh(name, where, alone, train):
    run, expected = alone(name)
    placed, found = train(CASES[name], **where)
    for column, curve in curves_of(run).items():  # which members are replaced, and by what, does not depend on it
        np.testing.assert_allclose(curves_of(placed)[column], curve, rtol=1e-5, err_msg=column)
    for leaf in expected:
        np.testing.assert_allclose(found[leaf], expected[leaf], rtol=1e-4, atol=1e-5, err_msg=leaf)


@SELECTED
@pytest.mark.sampled(2)
def test_members_have_the_same_bits_in_waves(name, alone, train):
    run, expected = alone(name)
    limited, found = train(CASES[name], memory_limit=2 * run.plan.member_bytes)
    assert len(limited.plan.waves) == 3
    assert_same(found, expected)


@pytest.mark.parametrize("evaluations", [0, 2, 6])
@SELECTED
@pytest.mark.sampled(7)
def test_scores_are_of_one_kind_and_kept_until_the_next_episode_ends(name, evaluations, train, monkeypatch):
    seen, select = {}, type(CASES[name]).select

    def spied(self, state, standing, key):
        seen[standing.record] = standing.score
        return select(self, state, standing, key)

    monkeypatch.setattr(type(CASES[name]), "select", spied)
    for module in (replacing, halving):  # the first decision comes before all members have a score
        monkeypatch.setattr(module, "check_scored", lambda *_: None)
    run, _ = train(CASES[name], evaluations=evaluations, env_fields={"max_steps": 40.0})
    curves, kept = curves_of(run), {}
    scores = curves["eval_return"] if evaluations == 6 else curves["train_return"]
    assert np.isnan(curves["train_return"]).any()  # an update has 32 steps and an episode up to 40
    for record, (occupants, parents) in enumerate(zip(curves["occupant"], curves["parent"], strict=True)):
        before = dict(kept)
        for occupant, parent, score in zip(occupants, parents, scores[record], strict=True):
            old = before.get(occupant, before.get(parent, np.nan))  # a copy begins with the score of its original
            kept[occupant] = old if np.isnan(score) else score
        if record in seen:
            expected = [np.nan if occupant < 0 else kept[occupant] for occupant in occupants]
            np.testing.assert_array_equal(seen[record], expected)
    assert len(seen) == (2 if name == "random" else 5)


@pytest.mark.parametrize("name", SELECTORS)
def test_selectors_work_at_the_default_sizes(name):
    spec = RunSpec(agent="ppo", env="CartPole-v1", fields={}, steps=500_000, seeds=27)
    assert (spec.records, spec.evaluations) == (20, 5)
    fields = {"refill": "fresh"} if name == "halving" else {}
    plan = make_plan(spec, selector=SELECTORS[name].build(vary=["learning_rate"], **fields))
    assert not schedule_of(plan).is_scored_by_evaluations and "last score" not in plan.warning
    evaluated = make_plan(dataclasses.replace(spec, evaluations=20), selector=plan.selector)
    assert schedule_of(evaluated).is_scored_by_evaluations


def test_records_that_are_shorter_than_episodes_are_told_before_training():
    spec = RunSpec(agent="ppo", env="CartPole-v1", fields={"num_envs": 4, "num_steps": 32}, steps=4_000, seeds=4)
    selector = PBT(vary=["learning_rate"])
    warning = make_plan(spec, selector=selector).warning
    assert "a record has 32 steps of each environment, and an episode up to 500" in warning
    assert not make_plan(spec).warning
    assert not make_plan(dataclasses.replace(spec, evaluations=20), selector=selector).warning
    assert not make_plan(dataclasses.replace(spec, steps=44_000), selector=selector).warning  # over 500 steps a record


@SELECTED
def test_a_run_resumes_from_any_checkpoint_with_the_same_bits(name, alone, tmp_path):
    whole, expected = alone(name)
    folder = RunFolder(shutil.copytree(whole.folder.path, tmp_path / "cut"))
    shutil.rmtree(checkpoint.newest(folder.checkpoints))
    with jax.numpy_dtype_promotion("standard"):
        resumed = Run(whole.plan, folder)
        resumed.train(resume=True)
    assert_same(learners(folder.path), expected)
    for column, curve in curves_of(whole).items():
        np.testing.assert_array_equal(curves_of(resumed)[column], curve, err_msg=column)
    for part, value in whole.state.selector.items():
        np.testing.assert_array_equal(resumed.state.selector[part], value, err_msg=part)


@pytest.mark.parametrize("name", [pytest.param("whole", marks=pytest.mark.slow), "segments"])
def test_an_evolution_has_the_same_bits_in_waves_in_blocks_on_a_mesh_and_resumed(name, train, tmp_path):
    strategy = STRATEGIES[name]
    run, expected = train(strategy, **EVOLUTION)
    found = run.folder.read_json("found.json")
    assert {*found} == {*VARY} and len(set(curves_of(run)["learning_rate"].ravel())) > 10
    limited, in_waves = train(strategy, memory_limit=2 * run.plan.member_bytes, **EVOLUTION)
    assert len(limited.plan.waves) == 3 and limited.folder.read_json("found.json") == found
    assert_same(in_waves, expected)
    folder = RunFolder(shutil.copytree(run.folder.path, tmp_path / "cut"))
    shutil.rmtree(checkpoint.newest(folder.checkpoints))
    with jax.numpy_dtype_promotion("standard"):
        Run(limited.plan, folder).train(resume=True)  # in waves, from the checkpoint of a run without them
    assert_same(learners(folder.path), expected)
    assert folder.read_json("found.json") == found
    for where in ({"block": 4}, {"on_mesh": True}):  # sums of a batch may differ in the last bits
        placed, together = train(strategy, **where, **EVOLUTION)
        for leaf in expected:
            np.testing.assert_allclose(together[leaf], expected[leaf], rtol=1e-4, atol=1e-5, err_msg=leaf)
        for path, value in placed.folder.read_json("found.json").items():
            assert value == pytest.approx(found[path], rel=1e-4)


@pytest.mark.parametrize("name", ["pbt", "refilled"])
def test_an_extended_run_makes_the_turnover_after_its_former_last_record(name, train):
    # In a run of 4 records the last rung (4) is not reached, and nobody is replaced after the last record.
    fields = {**SPEC["fields"], "horizon": 1000.0}
    whole, expected = train(CASES[name], fields=fields)
    short, _ = train(CASES[name], fields=fields, steps=4 * STEPS, records=4, evaluations=4)
    with jax.numpy_dtype_promotion("standard"):
        for _ in range(2):  # the first process is killed before its first chunk, when the new length is written already
            plan = make_plan(short.plan.spec.longer(6 * STEPS), selector=CASES[name])
            longer = Run(plan, short.folder)
            longer.open(resume=True)
        while longer.step():
            pass
    assert_same(learners(short.folder.path), expected)
    for column, curve in curves_of(whole).items():
        np.testing.assert_array_equal(curves_of(longer)[column], curve, err_msg=column)


def test_more_steps_do_not_extend_a_run_that_its_selector_has_ended(train):
    ended, found = train(CopyFirst(), seeds=3)
    with jax.numpy_dtype_promotion("standard"):
        longer = Run(make_plan(ended.plan.spec.longer(12 * STEPS), selector=CopyFirst()), ended.folder)
        longer.open(resume=True)
    assert not longer.step() and ended.folder.read_spec().steps == 6 * STEPS
    assert_same(learners(ended.folder.path), found)


@struct
class CopyFirst(Selector):
    """Slot 1 becomes a copy of slot 0, and the run ends."""

    new_episodes: bool = static(True)

    def select(self, state, standing, key):
        turnover = Turnover.none(standing)._replace(source=np.asarray([0, 0, 2]), new_episodes=self.new_episodes)
        return state, turnover._replace(finished=True)


@pytest.mark.parametrize("new_episodes", [True, False])
def test_a_copy_keeps_what_was_learned_and_begins_new_episodes(new_episodes, train):
    run, found = train(CopyFirst(new_episodes=new_episodes), seeds=3)
    names = {leaf for leaf, rows in found.items() if not np.array_equal(rows[1], rows[0])}
    of_episode = {leaf for leaf in found if leaf.startswith("state/env_states")} | {"state/action"}
    assert "state/key" in names and names <= {"state/key", *of_episode}
    time = found["state/env_states/state/time"]
    assert (time[1] == 0) == new_episodes and time[0] > 0 and run.state.roster.parent.tolist() == [-1, 0, -1]


def test_a_result_follows_the_lives_of_members(alone):
    run, _ = alone("pbt")
    result = shoal.load_result(run.folder.path)
    curves = result.curves
    copies = [life for life in result.lives.values() if life.parent >= 0]
    assert [*result.lives] == sorted(set(curves["occupant"].ravel().tolist())) and copies
    for life in copies:
        record = life.records[0]
        (slot_of_parent,) = np.flatnonzero(curves["occupant"][record - 1] == life.parent)
        assert life.parent in result.lives and curves["occupant"][record - 1, life.slot] != life.occupant
        rate, before = life.hyperparameters["learning_rate"], curves["learning_rate"][record - 1, slot_of_parent]
        assert np.isclose(rate / before, 1.25).all() or np.isclose(rate * 1.25, before).all() or rate[0] in (0.01, 1)
        np.testing.assert_array_equal(life.score, curves["eval_return"][life.records, life.slot])
    line = result.lineage(copies[-1].occupant)
    assert line[0].occupant == copies[-1].occupant and line[-1].parent == -1
    assert [life.parent for life in line[:-1]] == [life.occupant for life in line[1:]]
    best = result.summary["best_members"][0]
    assert best["score"] == np.nanmax(curves["eval_return"][-1]) and result.lineage()[0].occupant == best["occupant"]
    assert best["hyperparameters"]["learning_rate"] == curves["learning_rate"][-1, best["member"]]
    with pytest.raises(ValueError, match="has no occupant 999: its occupants are 0 to"):
        result.lineage(999)


def test_an_idle_slot_counts_with_its_last_member(alone):
    run, _ = alone("halving")
    best = run.summary()["best_members"]
    assert len(best) == 5 and sorted(each["occupant"] for each in best) == [0, 1, 2, 3, 4]
