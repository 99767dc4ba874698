"""Environments of MuJoCo Playground in shoal, compared with Playground's own steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from other_libraries import library
from shoal.core.checks import check_env
from shoal.core.errors import CheckError, UnknownNameError
from shoal.core.keys import make_key
from tiny import FIELDS, OPTIONS, SILENT

pytestmark = [
    library("mujoco_playground", "playground"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
NAME = "CartpoleBalance"


def test_every_step_is_playgrounds_and_the_time_limit_truncates():
    from mujoco_playground import registry

    theirs = registry.load(NAME, config_overrides={"impl": "jax"})
    ours = shoal.make(f"playground/{NAME}", max_steps=4)
    obs, state = jax.jit(ours.reset)(make_key(3, "threefry2x32"))  # the generator of jax.random.key
    expected = jax.jit(theirs.reset)(jax.random.key(3))
    step, their_step = jax.jit(ours.step), jax.jit(theirs.step)
    for t in range(4):
        np.testing.assert_allclose(obs, expected.obs, rtol=1e-4, atol=1e-5)
        action = jnp.array([0.5])
        obs, state, reward, terminated, truncated, _ = step(make_key(t), state, action)
        expected = their_step(expected, action)
        np.testing.assert_allclose(reward, expected.reward, rtol=1e-4, atol=1e-5)
        assert bool(terminated) == bool(expected.done) and bool(truncated) == (t == 3)
    np.testing.assert_allclose(obs, expected.obs, rtol=1e-4, atol=1e-5)


def test_the_configuration_becomes_fields():
    env = shoal.make(f"playground/{NAME}", ctrl_dt=0.02)
    assert env.max_steps == 1000 and env.impl == "jax" and env.library.env.dt == 0.02


def test_a_key_that_playground_uses_twice_is_reported():
    with pytest.raises(CheckError, match=r"playground/CartpoleBalance.*init uses a key twice"):
        check_env(shoal.make(f"playground/{NAME}"))


def test_ppo_trains_and_resumes(tmp_path):
    shoal.train("ppo", f"playground/{NAME}", folder=tmp_path / "run", fields=FIELDS, **OPTIONS, **SILENT)
    shoal.train(resume=tmp_path / "run", steps=512, **SILENT)
    assert shoal.evaluate(tmp_path / "run", episodes=2, max_steps=20).episode_return.shape == (1, 2)


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"Did you mean playground/CartpoleBalance"):
        shoal.make("playground/CartpoleBalnce")
