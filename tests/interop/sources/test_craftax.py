"""Environments of Craftax in shoal, compared with Craftax's own steps."""

import jax
import numpy as np
import pytest

import shoal
from other_libraries import library
from shoal.core.checks import check_env
from shoal.core.errors import CheckError, UnknownNameError
from shoal.core.keys import make_key
from tiny import FIELDS, OPTIONS, SILENT

pytestmark = [library("craftax"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]
NAME = "Craftax-Classic-Symbolic-v1"


def test_every_step_is_craftaxs_but_its_time_limit_truncates():
    from craftax.craftax_env import make_craftax_env_from_name

    theirs = make_craftax_env_from_name(NAME, auto_reset=False)
    params = theirs.default_params.replace(max_timesteps=6, zombie_health=3)
    ours = shoal.make(f"craftax/{NAME}", max_steps=6, zombie_health=3)
    obs, state = jax.jit(ours.reset)(make_key(3, "threefry2x32"))  # the generator of jax.random.key
    expected, their_state = jax.jit(theirs.reset_env)(jax.random.key(3), params)
    step, their_step = jax.jit(ours.step), jax.jit(theirs.step_env)
    for t in range(6):
        np.testing.assert_allclose(obs, expected, rtol=1e-5)
        obs, state, reward, terminated, truncated, _ = step(jax.random.key(t), state, 1 + t % 5)
        expected, their_state, their_reward, done, _ = their_step(jax.random.key(t), their_state, 1 + t % 5, params)
        np.testing.assert_allclose(reward, their_reward, rtol=1e-5)
        assert bool(done) == bool(truncated) == (t == 5) and not terminated
    np.testing.assert_allclose(obs, expected, rtol=1e-5)


def test_death_terminates():
    env = shoal.make(f"craftax/{NAME}")
    _, state = jax.jit(env.reset)(make_key(0))
    dying = state.replace(inner=state.inner.replace(player_health=state.inner.player_health * 0))
    *_, terminated, truncated, _ = jax.jit(env.step)(make_key(1), dying, 0)
    assert terminated and not truncated


def test_a_key_that_craftax_uses_twice_is_reported():
    with pytest.raises(CheckError, match=r"craftax/.*init uses a key twice"):
        check_env(shoal.make(f"craftax/{NAME}"))


def test_ppo_trains_and_resumes(tmp_path):
    shoal.train("ppo", f"craftax/{NAME}", folder=tmp_path / "run", fields=FIELDS, **OPTIONS, **SILENT)
    shoal.train(resume=tmp_path / "run", steps=512, **SILENT)
    assert shoal.evaluate(tmp_path / "run", episodes=2, max_steps=20).episode_return.shape == (1, 2)


def test_unknown_ids_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"Did you mean craftax/Craftax-Symbolic-v1"):
        shoal.make("craftax/Craftax-Symbolik-v1")
