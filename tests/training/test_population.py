"""A member's results do not depend on other members, devices, memory or the frequency of evaluations."""

import dataclasses
import gc
import weakref
from pathlib import Path

import jax
import numpy as np
import pytest

from shoal.core.form import CPU, KEPT_FUNCTIONS, in_form
from shoal.core.keys import IMPLEMENTATIONS, make_keys
from shoal.specs.spec import RunSpec
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.loop import Run
from shoal.training.placement import SMALLEST_BLOCK, make_placement
from shoal.training.plan import make_plan
from shoal.training.population import Population, joined, kind_of
from shoal.training.program import begin

SIZES = {"steps": 6 * 32, "records": 3, "evaluations": 1, "eval_episodes": 2, "eval_max_steps": 10}
SPEC = {
    "agent": "ppo",
    "env": "CartPole-v1",
    "fields": {"num_envs": 2, "num_steps": 16, "hidden": (8,), "num_minibatches": 2, "num_epochs": 2},
    **SIZES,
}
# An agent whose members are trained side by side on a CPU too, from a certain number on.
TABLE = {"agent": "q-learning", "env": "CliffWalking-v1", "fields": {"num_steps": 32, "snapshots": 2}, **SIZES}


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Train a variant of SPEC and return (plan, final members as host arrays, curves)."""

    def run(devices=0, memory_limit=0, on_mesh=False, **changes):
        folder = RunFolder(tmp_path_factory.mktemp("run") / "run")
        folder.create()
        with jax.numpy_dtype_promotion("standard"):
            plan = make_plan(RunSpec(**{**SPEC, **changes}), devices=devices, memory_limit=memory_limit)
            if on_mesh:
                plan = dataclasses.replace(plan, placement=make_placement(plan.members, on_mesh=True))
            job = Run(plan, folder)
            job.train()
        with np.load(checkpoint.newest(folder.checkpoints) / "learners.npz") as file:
            return plan, {name: file[name] for name in file.files}, job.records.arrays()

    return run


@pytest.fixture(scope="module")
def alone(train):
    """Three members on one device."""
    return train(seeds=3, devices=1)


def assert_same(left, right, members):
    """Bitwise equal in the first `members` members."""
    assert left.keys() == right.keys() and len(left) > 8
    for name in left:
        np.testing.assert_array_equal(left[name][:members], right[name][:members], err_msg=name)


@pytest.mark.sampled
@pytest.mark.parametrize("seeds", [1, 2])
def test_a_member_does_not_depend_on_how_many_others_there_are(seeds, train, alone):
    _, members, _ = train(seeds=seeds, devices=1)
    assert_same(members, alone[1], seeds)


@pytest.mark.usefixtures("two_cores")
def test_a_member_does_not_depend_on_the_devices(train, alone):
    plan, members, _ = train(seeds=3, devices=2)
    assert plan.placement.workers == 2
    assert_same(members, alone[1], 3)


def test_a_population_that_does_not_fit_is_trained_in_waves_with_the_same_numbers(train, alone):
    plan, members, _ = train(seeds=3, devices=1, memory_limit=2 * alone[0].member_bytes)
    assert [w.stop - w.start for w in plan.waves] == [2, 1]
    assert_same(members, alone[1], 3)


def test_evaluating_more_often_does_not_change_training(train, alone):
    _, members, curves = train(seeds=3, devices=1, evaluations=3)
    assert np.isfinite(curves["eval_return"]).all()
    assert_same(members, alone[1], 3)


def test_recording_more_often_does_not_change_training(train, alone):
    _, members, curves = train(seeds=3, devices=1, records=6)
    assert len(curves["env_steps"]) == 6
    assert_same(members, alone[1], 3)


def test_settings_share_seeds(train, alone):
    plan, members, _ = train(seeds=2, devices=1, sweep={"learning_rate": [2.5e-4, 1e-2]})
    assert plan.member_names()[2:] == ["learning_rate=0.01 seed=0", "learning_rate=0.01 seed=1"]
    assert_same(members, alone[1], 2)  # the first setting is the default
    np.testing.assert_array_equal(members["state/key"][:2], members["state/key"][2:])
    weights = members["state/weights/policy/kernel"]
    assert not np.allclose(weights[0], weights[2], atol=1e-4)


@pytest.fixture(scope="module")
def in_blocks(train):
    """Three members in blocks of two."""
    return train(seeds=3, devices=1, block=2)


def test_members_in_blocks_agree_to_rounding(in_blocks, alone):
    plan, members, _ = in_blocks
    assert plan.placement.block == 2 and plan.placement.padded == 4
    np.testing.assert_array_equal(members["state/key"], alone[1]["state/key"])
    for name in members:
        if "weights" in name:
            np.testing.assert_allclose(members[name], alone[1][name], atol=1e-4)


def test_a_member_of_a_block_does_not_depend_on_how_many_members_fill_it(train, in_blocks):
    # A block has the size that was asked for, be it larger than the population: all run the same program.
    plan, few, _ = train(seeds=1, devices=1, block=2)
    assert (plan.placement.block, plan.placement.padded) == (2, 2)
    assert_same(in_blocks[1], few, 1)


@pytest.mark.parametrize(
    ("spec", "seeds"), [(TABLE, 5), pytest.param(SPEC, 17, marks=pytest.mark.slow)], ids=["table", "network"]
)
def test_accelerators_run_all_members_in_one_call_sharded_over_a_mesh(spec, seeds, train):
    _, alone, _ = train(**spec, seeds=3, devices=1)
    plan, members, _ = train(**spec, seeds=seeds, on_mesh=True)
    assert plan.placement.mesh.size == 4 and plan.placement.padded == -(-seeds // 4) * 4 > seeds
    np.testing.assert_array_equal(members["state/key"][:3], alone["state/key"])
    for name in members:
        assert len(members[name]) == seeds
        if "weights" in name or name == "state/q":
            assert np.any(members[name] != members[name][0])
            np.testing.assert_allclose(members[name][:3], alone[name], atol=1e-4)


@pytest.mark.optimized
@pytest.mark.sampled
@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(("agent", "seeds"), [("q-learning", 3), ("sarsa", 40), ("q-learning", 70), ("double-q", 40)])
def test_tabular_members_in_blocks_are_bitwise_equal_to_single_members(agent, seeds, train):
    table = {**TABLE, "agent": agent, "steps": 60 * 32}
    plan, members, curves = train(**table, seeds=seeds, devices=1)
    assert plan.placement.block == (seeds if seeds >= SMALLEST_BLOCK else 1)
    _, alone, curves_alone = train(**table, seeds=2, devices=1, block=1)
    assert_same(members, alone, 2)
    for name in curves.keys() - {"env_steps", "wall_seconds"}:
        np.testing.assert_array_equal(curves[name][:, :2], curves_alone[name], err_msg=name)
    _, in_waves, _ = train(**table, seeds=seeds, devices=2, memory_limit=(seeds - 1) * plan.member_bytes)
    assert_same(in_waves, members, seeds)


def test_another_seed_or_generator_gives_other_results(train):
    _, alone, _ = train(**TABLE, seeds=1, devices=1)
    for changes in ({"seed": 1}, {"prng": "threefry2x32"}):
        _, members, _ = train(**TABLE, seeds=1, devices=1, **changes)
        assert not np.allclose(members["state/q"], alone["state/q"])


def test_all_members_differ(alone):
    _, members, curves = alone
    assert len({tuple(key) for key in members["state/key"].tolist()}) == 3
    for name, array in members.items():
        if array.dtype == np.float32 and "kernel" in name:
            assert all(not np.allclose(array[i], array[j]) for i, j in ((0, 1), (0, 2), (1, 2))), name
    assert len(set(curves["train_length"][0].tolist())) == 3


def test_an_environment_without_traced_constants_can_be_trained(train):
    plan, _, curves = train(**{**TABLE, "env": "Blackjack-v1"}, seeds=3)
    assert jax.tree.leaves(plan.env) == []
    assert curves["episodes"].shape[1] == 3 and (curves["episodes"].sum(axis=0) > 0).all()


def kinds_alive(count):
    """How many of the functions of `count` kinds of trainings exist after all were compiled."""
    functions = []
    for kind in range(count):
        formed = in_form(jax.numpy.sin, CPU, ("a kind of this test", kind))
        jax.jit(formed).trace(np.float32(kind)).lower().compile()
        functions.append(weakref.ref(formed))
        del formed
    gc.collect()
    return sum(function() is not None for function in functions)


def test_programs_of_earlier_trainings_are_released():
    """A process may have 65,530 memory maps, and the programs of a training take 600."""
    assert kinds_alive(2) == 2 and kinds_alive(KEPT_FUNCTIONS + 4) == KEPT_FUNCTIONS
    plans = [make_plan(RunSpec(**{**TABLE, "fields": {"num_steps": steps}})) for steps in (32, 16)]
    same = make_plan(RunSpec(**{**TABLE, "fields": {"num_steps": 32}, "seeds": 2}))
    assert kind_of(plans[0]) == kind_of(same) != kind_of(plans[1])  # programs of equal shapes are compiled once
    functions = [Population(plan, jax.random.key(0))._over_members(begin, 3) for plan in (plans[0], same, plans[1])]
    assert functions[0] is functions[1] is not functions[2]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_waves_are_joined_without_compiling_a_program_for_their_number(implementation, monkeypatch):
    keys = make_keys(range(6), implementation)
    waves = [{"key": keys[2 * i : 2 * i + 2], "x": np.full(2, i)} for i in range(3)]
    monkeypatch.setattr(jax.numpy, "concatenate", None)
    found = joined(waves)
    assert (jax.random.key_data(found["key"]) == jax.random.key_data(keys)).all() and found["key"].dtype == keys.dtype
    np.testing.assert_array_equal(found["x"], [0, 0, 1, 1, 2, 2])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists its memory maps")
def test_trainings_of_unequal_shapes_have_no_more_memory_maps_than_a_few(train):
    counts = []
    for width in range(8, 28):
        train(fields={**SPEC["fields"], "hidden": (width,)}, seeds=1)
        counts.append(len(Path("/proc/self/maps").read_text().splitlines()))
    assert max(counts[8:]) - counts[8] < 1_000  # 600 for each training, if its programs stayed
