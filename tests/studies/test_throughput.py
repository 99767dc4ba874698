"""Throughput measurements: the checksum includes every observation, and every policy can be used."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.agents.ppo import PPO
from shoal.core.registry import ENVS
from shoal.studies.throughput import HORIZON, make_fleet, make_stepper, report, throughput, total


def test_the_checksum_is_the_sum_of_all_observations():
    env = ENVS["CartPole-v1"].build()
    folded, written = (make_stepper(env, 3, rounds=2, trajectory=flag) for flag in (False, True))
    carry, nothing = jax.jit(folded.run)(*folded.carry)
    _, (obs, *_) = jax.jit(written.run)(*written.carry)
    assert nothing is None
    assert folded.steps == 2 * HORIZON * 3
    assert obs.shape == (2, HORIZON, 3, 4)
    np.testing.assert_allclose(carry[1], np.asarray(obs, np.float64).sum((0, 1)), rtol=1e-4, atol=1e-4)


def test_more_than_2_to_the_32_reused_resets_are_counted():
    fleet = make_fleet(ENVS["Probe-ConstantReward-v0"].build(), 8, bank_size=1)  # every step ends an episode
    fleet.advance()
    once = fleet.resets_reused
    assert 0 < once < HORIZON * 8
    fleet._carries = [(*carry[:3], jnp.uint32([2**32 - 1, 0])) for carry in fleet._carries]
    fleet.advance()
    assert fleet.resets_reused == 2**32 - 1 + once


def test_random_actions_reach_every_action():
    env = ENVS["MountainCar-v0"].build()
    stepper = make_stepper(env, 4, trajectory=True)
    _, (_, action, *_) = jax.jit(stepper.run)(*stepper.carry)
    assert np.unique(action).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("policy", "sizes"), [("random", [1, 4]), ("mlp", [4])])
def test_the_measurement_uses_the_given_arguments(policy, sizes, tmp_path, monkeypatch):
    monkeypatch.setattr(PPO, "init", jax.jit(PPO.init))  # otherwise each of its operations is a program
    rows = list(throughput(["Pendulum-v1"], policy=policy, sizes=sizes, seconds=0.0))
    assert [(r.env, r.num_envs, r.policy) for r in rows] == [("Pendulum-v1", size, policy) for size in sizes]
    assert all(r.steps_per_second > 0 and r.resets_reused == 0 and np.isfinite(r.checksum) for r in rows)
    report(rows, tmp_path / "new" / "bench.json")
    read = json.loads((tmp_path / "new" / "bench.json").read_text())
    assert read["rows"][-1]["num_envs"] == 4
    assert read["machine"]["jax"] == jax.__version__


def test_an_unknown_policy_is_refused_before_anything_runs():
    with pytest.raises(ValueError, match="policy='lstm' is unknown. Choose one of: random, mlp"):
        next(throughput(policy="lstm"))


def test_the_total_adds_every_leaf():
    assert total({"a": jnp.ones((2, 3)), "b": jnp.full(2, 5, jnp.int32)}) == 16.0
