"""`evaluate` and `rollout` with policies, populations, functions and random actions, also in other environments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.training.policy import Policy, RandomPolicy


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


def test_evaluation_of_a_run_covers_every_member(result):
    done = shoal.evaluate(result.folder, episodes=3, max_steps=10)
    assert done.episode_return.shape == (4, 3)
    np.testing.assert_array_equal(done.episode_return, done.episode_length)  # CartPole pays 1 a step
    alone = shoal.evaluate(result.policy(2), episodes=3, max_steps=10)
    np.testing.assert_array_equal(done.episode_return[2], alone.episode_return)


def test_evaluation_in_another_environment_changes_the_return(result):
    heavy = shoal.evaluate(result.policy(0), episodes=3, env_fields={"force_mag": 0.0, "max_steps": 7})
    assert heavy.episode_length.max() <= 7
    with pytest.raises(ValueError, match="episodes=0 must be at least 1"):
        shoal.evaluate(result.policy(0), episodes=0)
    with pytest.raises(ValueError, match=r"was trained with observation_space .*; Pendulum-v1 has Box"):
        shoal.evaluate(result.policy(0), "Pendulum-v1")


def test_a_population_is_evaluated_with_another_shape_or_time_limit(result):
    for fields in ({"integrator": "semi-implicit", "force_mag": 30}, {"max_steps": 7}):
        many = shoal.evaluate(result.folder, episodes=3, env_fields=fields)
        alone = shoal.evaluate(result.policy(2), episodes=3, env_fields=fields)
        np.testing.assert_array_equal(many.episode_return[2], alone.episode_return)
    policies = result.policies
    endless = type(policies)(policies.actor, policies.weights, policies.env.replace(max_steps=None), policies.names)
    np.testing.assert_array_equal(
        shoal.evaluate(endless, episodes=3, env_fields={"max_steps": 7}).episode_return, many.episode_return
    )


def test_an_environment_with_other_observations_or_actions_is_refused():
    lake = shoal.make("FrozenLake-v1")
    policy = Policy(RandomPolicy(lake.action_space), None, lake)
    assert shoal.evaluate(policy, env_fields={"is_slippery": False}, episodes=2).episode_return.shape == (2,)
    for other, words in (
        ({"env": "FrozenLake8x8-v1"}, "FrozenLake8x8-v1 has"),
        ({"env_fields": {"desc": "SFFF/FFFF/FFFF/FFFF/FFFG"}}, "with these fields the environment has"),
    ):
        with pytest.raises(ValueError, match=rf"trained with observation_space Discrete\(16, uint8\); {words}"):
            shoal.evaluate(policy, episodes=2, **other)


@pytest.mark.parametrize(("num_envs", "lead"), [(None, (6,)), (3, (6, 3))])
def test_a_rollout_returns_the_requested_parts(num_envs, lead, result):
    out = shoal.rollout(result.policy(0), num_steps=6, num_envs=num_envs, keep=["obs", "reward"])
    assert set(out) == {"obs", "reward", "episodes"}
    assert out["obs"].shape == (*lead, 4) and out["reward"].shape == lead


def test_a_rollout_of_a_population_leads_with_members(result):
    out = shoal.rollout(result.policies, num_steps=6, num_envs=3, keep=["action"])
    assert out["action"].shape == (4, 6, 3)


def test_a_rollout_accepts_functions_and_random_actions():
    out = shoal.rollout(lambda obs, key: jnp.int32(1), "CartPole-v1", num_steps=30, keep=["action", "terminated"])
    assert (out["action"] == 1).all() and int(out["episodes"].count) == int(out["terminated"].sum()) > 0
    assert set(np.asarray(shoal.rollout("random", "CartPole-v1", num_steps=30, keep=["action"])["action"])) == {0, 1}
    with pytest.raises(ValueError, match="keep names 'rewards'"):
        shoal.rollout("random", "CartPole-v1", num_steps=3, keep=["rewards"])


def test_a_return_is_nan_and_said_where_a_state_turns_nan():
    env = shoal.make("CartPole-v1", mass_cart=0.0, mass_pole=0.0, max_steps=5)  # divides one mass by their sum
    policy = Policy(RandomPolicy(env.action_space), None, env, "random")
    with pytest.warns(UserWarning, match="3 of 3 returns are NaN: a reward, or a number in the state"):
        assert np.isnan(shoal.evaluate(policy, episodes=3).episode_return).all()


def test_no_constant_that_is_nan_enters_by_a_value_that_jax_made():
    env = shoal.make("Pendulum-v1", max_steps=5)
    made = jax.jit(lambda g: env.replace(g=g))(jnp.nan)
    policy = Policy(RandomPolicy(env.action_space), None, env, "random")
    doors = (
        lambda: shoal.evaluate(policy, made),
        lambda: shoal.evaluate(policy, env_fields={"g": np.nan}),
        lambda: shoal.rollout("random", made, num_steps=3),
        lambda: shoal.train("ppo", made, steps=100),
        lambda: shoal.train("ppo", "Pendulum-v1", env_fields={"g": np.float32("nan")}, steps=100),
        lambda: shoal.train("ppo", "Pendulum-v1", env_sweep={"g": [10.0, np.nan]}, steps=100),
        lambda: shoal.train("ppo", "Pendulum-v1", selector=shoal.PBT(vary={"env.g": (1.0, np.inf)}), seeds=4),
    )
    for door in doors:
        with pytest.raises(ValueError, match=r"Pendulum\.g=(nan|inf) is out of range|env\.g"):
            door()
