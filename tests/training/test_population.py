"""A member's numbers belong to it: not to its neighbors, the devices, the memory or how often it is evaluated."""

import dataclasses
import os

import jax
import numpy as np
import pytest

from shoal.core.registry import make
from shoal.core.spaces import Box
from shoal.core.struct import Number, struct
from shoal.envs.bounds import highest
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.loop import Run
from shoal.training.placement import SMALLEST_BLOCK, place
from shoal.training.plan import available_bytes, make_plan
from shoal.training.spec import RunSpec
from worlds import DialedHorizon

SIZES = {"steps": 6 * 32, "records": 3, "evaluations": 1, "eval_episodes": 4, "eval_max_steps": 20}
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
                plan = dataclasses.replace(plan, placement=place(plan.members, on_mesh=True))
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


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_member_does_not_depend_on_how_many_others_there_are(seeds, train, alone):
    _, members, _ = train(seeds=seeds, devices=1)
    assert_same(members, alone[1], seeds)


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


def test_members_in_blocks_agree_to_rounding(train, alone):
    plan, members, _ = train(seeds=3, devices=1, block=2)
    assert plan.placement.block == 2 and plan.placement.padded == 4
    np.testing.assert_array_equal(members["state/key"], alone[1]["state/key"])
    for name in members:
        if "weights" in name:
            np.testing.assert_allclose(members[name], alone[1][name], atol=1e-4)


def test_a_member_of_a_block_does_not_depend_on_how_many_members_fill_it(train):
    # A block has the size that was asked for, be it larger than the population: all run the same program.
    plan, few, _ = train(seeds=2, devices=1, block=3)
    assert (plan.placement.block, plan.placement.padded) == (3, 3)
    _, many, _ = train(seeds=4, devices=1, block=3)
    assert_same(many, few, 2)


def test_accelerators_run_everyone_in_one_call_sharded_over_a_mesh(train, alone):
    plan, members, _ = train(seeds=3, on_mesh=True)
    assert plan.placement.mesh.size == 2 and plan.placement.padded == 4
    np.testing.assert_array_equal(members["state/key"], alone[1]["state/key"])
    for name in members:
        if "weights" in name:
            np.testing.assert_allclose(members[name], alone[1][name], atol=1e-4)


@pytest.mark.parametrize(("agent", "seeds"), [("q-learning", 3), ("q-learning", 70), ("double-q", 40), ("sarsa", 40)])
def test_tables_in_blocks_have_the_bits_of_tables_alone(agent, seeds, train):
    table = {**TABLE, "agent": agent, "steps": 60 * 32}
    plan, members, curves = train(**table, seeds=seeds, devices=1)
    assert plan.placement.block == (seeds if seeds >= SMALLEST_BLOCK else 1)
    _, alone, curves_alone = train(**table, seeds=2, devices=1, block=1)
    assert_same(members, alone, 2)
    for name in curves.keys() - {"env_steps", "wall_seconds"}:
        np.testing.assert_array_equal(curves[name][:, :2], curves_alone[name], err_msg=name)
    _, in_waves, _ = train(**table, seeds=seeds, devices=2, memory_limit=(seeds - 1) * plan.member_bytes)
    assert_same(in_waves, members, seeds)


def test_members_per_call_are_of_large_populations_and_on_a_cpu_only():
    def block(members, **options):
        return place(members, devices=2, members_per_call=100, **options).block

    assert [block(m) for m in (1, 30, 2 * SMALLEST_BLOCK - 2)] == [1, 1, 1]
    assert [block(m) for m in (2 * SMALLEST_BLOCK, 199, 200, 5000)] == [SMALLEST_BLOCK, 100, 100, 100]
    assert block(5000, block=3) == 3 and block(5000, on_mesh=True) == 5000


def test_seeds_and_generators_change_everything(train, alone):
    for changes in ({"seed": 1}, {"prng": "threefry2x32"}):
        _, members, _ = train(seeds=1, devices=1, **changes)
        assert not np.allclose(members["state/weights/policy/kernel"], alone[1]["state/weights/policy/kernel"][:1])


def test_no_two_members_are_alike(alone):
    _, members, curves = alone
    assert len({tuple(key) for key in members["state/key"].tolist()}) == 3
    for name, array in members.items():
        if array.dtype == np.float32 and "kernel" in name:
            assert all(not np.allclose(array[i], array[j]) for i, j in ((0, 1), (0, 2), (1, 2))), name
    assert len(set(curves["train_length"][0].tolist())) == 3


def test_a_world_of_no_numbers_is_trained_like_any_other(train):
    plan, _, curves = train(env="Blackjack-v1", seeds=3)
    assert jax.tree.leaves(plan.env) == []
    assert curves["episodes"].shape[1] == 3 and (curves["episodes"].sum(axis=0) > 0).all()


def test_a_system_that_does_not_say_its_memory_is_planned_for_all_the_same(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    assert available_bytes() == int(0.8 * 8 * 2**30)


def test_one_member_too_large_for_memory_is_refused():
    with pytest.raises(ValueError, match="one member needs about .* MiB, more than the .* MiB at hand"):
        make_plan(RunSpec(**SPEC), memory_limit=1000)


def test_a_population_too_large_for_the_host_is_refused(monkeypatch):
    from shoal.training import plan as plans

    plan = make_plan(RunSpec(**SPEC, seeds=8))
    state = (plan.member_bytes - plans.rollout_bytes(plan.agent, plan.env)) // 2
    monkeypatch.setattr(plans, "host_bytes", lambda: 2 * 6 * state)
    make_plan(RunSpec(**{**SPEC, "seeds": 6}), memory_limit=2**30)
    with pytest.raises(ValueError, match="8 members of .* MiB each and a copy .* 6 members fit"):
        make_plan(RunSpec(**{**SPEC, "seeds": 8}), memory_limit=2**30)


def test_more_devices_than_there_are_is_refused():
    with pytest.raises(ValueError, match="devices=64 were asked for, but JAX sees"):
        make_plan(RunSpec(**SPEC), devices=64)


def test_steps_are_rounded_up_to_whole_updates_and_horizons_follow():
    plan = make_plan(RunSpec(**{**SPEC, "steps": 33}))
    assert (plan.updates, plan.steps) == (2, 64) and plan.agent.horizon == 64.0
    assert make_plan(RunSpec(**{**SPEC, "steps": 10**10})).steps == 10**10


@struct
class Dial(DialedHorizon):
    """A dial with a field that its action space follows from."""

    reach: Number = 1.0

    @property
    def action_space(self):
        return Box(-highest(self.reach), highest(self.reach), (1,))


def test_a_sweep_over_what_an_action_space_follows_from_is_refused():
    # Seeds of one setting share its space, and so do settings that only bounds of observations tell apart.
    def members(env, **env_sweep):
        return make_plan(RunSpec(**{**SPEC, "env": "", "seeds": 2}, env_sweep=env_sweep), env=env).members

    said = r"env.reach=1.0 and env.reach=2.0 have different action spaces, Box\(-1.0, 1.0, .* and Box\(-2.0, 2.0, "
    with pytest.raises(ValueError, match=said):
        members(Dial(), reach=[1.0, 1.0, 2.0])
    assert members(Dial(), reach=[2.0], max_steps=[3, 4]) == 4
    assert members(make("CartPole-v1"), x_threshold=[2.4, 5.0]) == 4


def test_time_limits_of_a_sweep_are_all_respected():
    plan = make_plan(RunSpec(**SPEC, env_sweep={"max_steps": [500, 8]}))
    assert plan.agent.rollout.final_slots == 2 and plan.batched().env.max_steps.tolist() == [500, 8]


def test_a_record_holds_no_more_steps_than_32_bits_count():
    # Sizes alone: nothing of this is compiled.
    plan = make_plan(RunSpec(**{**SPEC, "steps": 2**36, "fields": {"num_envs": 256, "num_steps": 256}}))
    ends = [plan.boundary(record) for record in range(plan.records)]
    assert plan.updates == ends[-1] == 2**20
    assert np.diff([0, *ends]).max() * 2**16 < 2**31


def test_more_updates_than_32_bits_count_are_refused():
    with pytest.raises(ValueError, match="2,147,483,647 at most: take more steps in an update"):
        make_plan(RunSpec(**{**SPEC, "steps": 2**36, "fields": {"num_envs": 4, "num_steps": 8}}))


def test_what_changes_nothing_is_refused_wherever_it_stands_in_a_sweep():
    with pytest.raises(ValueError, match="noise_correlation=.* changes nothing where actions are choices"):
        make_plan(RunSpec(**SPEC, sweep={"noise_correlation": [0.0, 0.5]}))
