"""Environments of Brax in shoal, compared with Brax's own steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from other_libraries import library
from shoal.core.checks import check_env
from shoal.core.errors import UnknownNameError
from shoal.core.keys import make_key
from tiny import OPTIONS, SILENT

pytestmark = [
    library("brax"),
    pytest.mark.filterwarnings("ignore:Brax System:UserWarning"),  # "not actively being maintained"
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.mark.parametrize(
    ("name", "push", "limit", "terminates"),
    [("fast", 0.9, 7, False), ("inverted_pendulum", 0.9, 40, True), ("inverted_pendulum", 0.0, 3, False)],
)
def test_every_step_is_braxs_until_the_end_of_the_episode(name, push, limit, terminates):
    from brax import envs

    theirs = envs.create(name, episode_length=limit, auto_reset=False)
    ours = shoal.make(f"brax/{name}", max_steps=limit)
    obs, state = ours.reset(make_key(3, "threefry2x32"))  # the generator of jax.random.key
    expected = jax.jit(theirs.reset)(jax.random.key(3))
    step, their_step = jax.jit(ours.step), jax.jit(theirs.step)
    for t in range(limit):
        np.testing.assert_allclose(obs, expected.obs, rtol=1e-4, atol=1e-5)
        action = jnp.array([push])
        obs, state, reward, terminated, truncated, _ = step(make_key(t), state, action)
        expected = their_step(expected, action)
        np.testing.assert_allclose(reward, expected.reward, rtol=1e-4, atol=1e-5)
        assert bool(terminated | truncated) == bool(expected.done)
        if terminated or truncated:
            break
    np.testing.assert_allclose(obs, expected.obs, rtol=1e-4, atol=1e-5)
    assert (bool(terminated), bool(truncated)) == (terminates, not terminates)
    assert bool(truncated) == bool(expected.info["truncation"])


def test_brax_keeps_the_rules():
    check_env(shoal.make("brax/fast", max_steps=20))


def test_numbers_of_the_constructor_are_traced_fields():
    """A step costs `ctrl_cost_weight` times the sum of the squares of the action, here 0.25 + 1."""
    env = shoal.make("brax/halfcheetah", ctrl_cost_weight=0.5, backend="spring")
    _, state = jax.jit(env.reset)(make_key(0))
    action = jnp.array([0.5, -1.0, 0.0, 0.0, 0.0, 0.0])

    def reward(weight):
        return env.replace(ctrl_cost_weight=weight).step(make_key(1), state, action)[2]

    rewards = jax.jit(jax.vmap(reward))(jnp.array([0.0, 0.5, 2.0]))
    np.testing.assert_allclose(rewards[0] - rewards[1:], [0.625, 2.5], rtol=1e-4)


@pytest.mark.parametrize(
    ("agent", "fields"),
    [
        ("ppo", {"num_envs": 4, "num_steps": 16, "hidden": (8,), "normalize_observation": True}),
        ("sac", {"learning_starts": 30, "num_steps": 8, "batch_size": 16, "hidden": (8,)}),
        ("td3", {"learning_starts": 30, "num_steps": 8, "batch_size": 16, "hidden": (8,)}),
    ],
)
def test_agents_train_and_resume(agent, fields, tmp_path):
    options = {**OPTIONS, "fields": fields, **SILENT}
    shoal.train(agent, "brax/fast", folder=tmp_path / "run", **options)
    shoal.train(resume=tmp_path / "run", steps=512, **SILENT)
    assert np.isfinite(shoal.evaluate(tmp_path / "run", episodes=3, max_steps=20).episode_return).all()


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"brax/antt.*Did you mean brax/ant"):
        shoal.make("brax/antt")
