"""Shoal's environments as Gymnasium's FuncEnv, used by Gymnasium's own classes."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.functional_jax_env import FunctionalJaxEnv, FunctionalJaxVectorEnv
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TimeLimit, TransformObservation

import shoal
from shoal.gym import ShoalFuncEnv


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


def compiled(name, **fields):
    func_env = ShoalFuncEnv(name, **fields)
    func_env.transform(jax.jit)
    return func_env


@pytest.mark.filterwarnings("ignore::UserWarning")  # advice of check_env
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "MiniGrid-DoorKey-5x5-v0"])
def test_gymnasium_makes_an_environment_of_it(name):
    env = FunctionalJaxEnv(compiled(name), metadata={"render_modes": []})
    env = TransformObservation(env, lambda obs: jax.tree.map(np.asarray, obs), env.observation_space)
    check_env(env, skip_render_check=True)
    assert env.reset(seed=1)[1].keys() == env.reset(seed=2)[1].keys()


def test_an_episode_is_that_of_gymnasiums_cartpole():
    """FunctionalJaxEnv steps ours; the states begin equal."""
    ours = TimeLimit(FunctionalJaxEnv(compiled("CartPole-v1")), ShoalFuncEnv("CartPole-v1").max_episode_steps)
    theirs = gymnasium.make("CartPole-v1")
    theirs.reset()
    obs, _ = ours.reset(seed=0)
    theirs.unwrapped.state = np.asarray(obs, np.float64)
    for t in range(200):
        found, expected = ours.step(t % 3 % 2), theirs.step(t % 3 % 2)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
        assert found[1:4] == expected[1:4]
        if found[2]:
            break
    assert found[2]


def test_gymnasium_makes_many_of_it():
    """States are structs, of which Gymnasium replaces the rows of the environments that begin again."""
    envs = FunctionalJaxVectorEnv(compiled("MountainCarContinuous-v0"), 3, max_episode_steps=2)
    obs, _ = envs.reset(seed=0)
    assert obs.shape == (3, 2) and len(np.unique(obs[:, 0])) == 3
    ends = []
    for _ in range(5):
        obs, rewards, terminated, truncated, info = envs.step(jnp.array([[0.0], [0.5], [1.0]]))
        ends.append((bool(truncated.all()), envs.state.state.time.tolist()))
    np.testing.assert_allclose(rewards, [0.0, -0.025, -0.1], atol=1e-6)
    assert not terminated.any() and info["truncated"].shape == (3,)
    assert ends == [(False, [1] * 3), (True, [2] * 3), (False, [0] * 3), (False, [1] * 3), (True, [2] * 3)]


def test_gymnasium_stops_all_when_one_begins_again():
    """A fault of Gymnasium 1.4.0 that docs/gymnasium.md mentions: it takes the rows of the others from before."""
    func_env = compiled("MountainCarContinuous-v0")
    envs = FunctionalJaxVectorEnv(func_env, 2, max_episode_steps=10)
    envs.reset(seed=0)
    envs.steps = jnp.array([8, 0])
    actions = jnp.zeros((2, 1))
    times = []
    for _ in range(3):
        envs.step(actions)
        times.append(envs.state.state.time.tolist())
    assert times == [[1, 1], [2, 2], [0, 2]]


def test_constants_may_be_traced_and_the_mask_is_reported():
    func_env = ShoalFuncEnv("CartPole-v1")
    assert float(func_env.get_default_params(gravity=5.0).gravity) == 5.0
    state = func_env.initial(jax.random.PRNGKey(0))
    state = state.replace(state=state.state.replace(theta=jnp.float32(0.1)))

    def speed(gravity):
        params = func_env.default_params.replace(gravity=gravity)
        return func_env.transition(state, 1, jax.random.key(1), params).state.theta_dot

    slow, fast = jax.vmap(speed)(jnp.array([1.0, 20.0]))
    assert slow < fast  # a pole that leans to the right is pulled down
    taxi = ShoalFuncEnv("Taxi-v4")
    first = taxi.initial(jax.random.key(0))
    np.testing.assert_array_equal(taxi.state_info(first)["action_mask"], taxi.env.action_mask(first.state))
    after = taxi.transition(first, 0, jax.random.key(1))
    np.testing.assert_array_equal(
        taxi.transition_info(first, 0, after)["action_mask"], taxi.env.action_mask(after.state)
    )


def test_pictures_of_one_and_of_many():
    env = FunctionalJaxEnv(ShoalFuncEnv("CartPole-v1"), render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture.dtype == np.uint8 and picture.shape[2] == 3
    env.close()
    env.close()
    envs = FunctionalJaxVectorEnv(ShoalFuncEnv("CartPole-v1"), 2, render_mode="rgb_array")
    envs.reset(seed=0)
    assert [each.shape for each in envs.render()] == [picture.shape] * 2


def test_wrong_calls_are_explained():
    with pytest.raises(ValueError, match="Did you mean CartPole-v1"):
        ShoalFuncEnv("CartPole-v2")
    with pytest.raises(TypeError, match="are not those of CartPole"):
        ShoalFuncEnv("CartPole-v1").initial(jax.random.key(0), shoal.make("Pendulum-v1"))
