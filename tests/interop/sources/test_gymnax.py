"""Environments of gymnax in shoal, compared with gymnax's own steps."""

import jax
import numpy as np
import pytest

import shoal
from other_libraries import library
from shoal.core.checks import check_env
from shoal.core.errors import CheckError, UnknownNameError
from shoal.core.keys import make_key
from tiny import FIELDS, OPTIONS, SILENT

pytestmark = library("gymnax")


@pytest.mark.parametrize(
    ("name", "limit"), [("CartPole-v1", 500), ("CartPole-v1", 7), ("Pendulum-v1", 20), ("Breakout-MinAtar", 30)]
)
def test_every_step_is_gymnaxs_until_the_end_of_the_episode(name, limit):
    """The same keys give the same observations, rewards and ends; the last observation is its final one."""
    import gymnax

    theirs, params = gymnax.make(name)
    params = params.replace(max_steps_in_episode=limit)
    ours = shoal.make(f"gymnax/{name}", max_steps=limit)
    key = make_key(3, "threefry2x32")  # the generator of jax.random.key
    obs, state = ours.reset(key)
    expected, their_state = theirs.reset(jax.random.key(3), params)
    step, their_step = jax.jit(ours.step), jax.jit(theirs.step)
    for t in range(limit):
        np.testing.assert_allclose(obs, expected, rtol=1e-5, atol=1e-6)
        action = ours.action_space.sample(jax.random.key(t))
        k_step = jax.random.key(1000 + t)
        inner_key, _ = jax.random.split(k_step)  # as gymnax's step splits it
        obs, state, reward, terminated, truncated, _ = step(inner_key, state, action)
        expected, their_state, *outcome, info = their_step(k_step, their_state, action, params)
        np.testing.assert_allclose(reward, outcome[0], rtol=1e-5)
        assert [terminated.item(), truncated.item()] == [x.item() for x in outcome[1:]]
        if terminated or truncated:
            break
    np.testing.assert_allclose(obs, info["final_observation"], rtol=1e-5, atol=1e-6)
    assert terminated or truncated


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", ["CartPole-v1", "Catch-bsuite", "Seaquest-MinAtar", "UmbrellaChain-bsuite", "FourRooms-misc", "Pong-misc"]
)
def test_environments_keep_the_rules(name):
    """Among them spaces of the wrong dtype (Catch, FourRooms) and whole numbers as rewards (UmbrellaChain)."""
    check_env(shoal.make(f"gymnax/{name}"))


@pytest.mark.parametrize("name", ["MemoryChain-bsuite", "GaussianBandit-misc"])
def test_a_rule_that_gymnax_breaks_is_reported(name):
    with pytest.raises(CheckError, match=r"leaves observation_space"):
        check_env(shoal.make(f"gymnax/{name}"))


def test_parameters_and_arguments_become_fields():
    env = shoal.make("gymnax/DeepSea-bsuite", size=10)
    assert env.observation_space.shape == (10, 10) and env.max_steps == 10
    env = shoal.make("gymnax/CartPole-v1", gravity=5, max_steps=20)
    assert (env.gravity, env.max_steps) == (5.0, 20)


def test_unknown_ids_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"gymnax/CartPol-v1.*Did you mean gymnax/CartPole-v1"):
        shoal.make("gymnax/CartPol-v1")


def test_ppo_learns_cartpole_for_two_values_of_gravity(tmp_path):
    options = {"env_sweep": {"gravity": [9.8, 5.0]}, "seeds": 2, **SILENT}
    result = shoal.train("ppo", "gymnax/CartPole-v1", steps=30_000, folder=tmp_path / "run", **options)
    assert len(result.members) == 4
    assert shoal.evaluate(tmp_path / "run", episodes=20).episode_return.mean() > 200  # a random policy gets about 20


def test_a_stopped_run_ends_like_a_straight_one(tmp_path):
    """Bit for bit, also where a library keeps no random key in its state and resets with integers of Python."""
    options = {"fields": FIELDS, **OPTIONS, **SILENT}
    shoal.train("ppo", "gymnax/Breakout-MinAtar", folder=tmp_path / "half", **options)
    shoal.train(resume=tmp_path / "half", steps=512, **SILENT)
    shoal.train("ppo", "gymnax/Breakout-MinAtar", folder=tmp_path / "whole", **{**options, "steps": 512, "records": 8})
    half, whole = (shoal.evaluate(tmp_path / name, episodes=10).episode_return for name in ("half", "whole"))
    np.testing.assert_array_equal(half, whole)
