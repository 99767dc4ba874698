"""Advantages and returns against sums computed by hand and a slow NumPy version."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.ops.returns import discounted_sum, gae, lambda_return


def slow_gae(reward, value, next_value, terminated, done, discount, gae_lambda):
    """The definition, as a double sum: discounted TD errors up to the end of the episode."""
    steps = len(reward)
    delta = [reward[t] + discount * (1 - terminated[t]) * next_value[t] - value[t] for t in range(steps)]
    advantage = np.zeros(steps)
    for t in range(steps):
        weight = 1.0
        for k in range(t, steps):
            advantage[t] += weight * delta[k]
            if done[k]:
                break
            weight *= discount * gae_lambda
    return advantage


def test_advantages_equal_the_double_sum():
    random = np.random.default_rng(0)
    reward, value, next_value = random.normal(size=(3, 50))
    terminated = random.random(50) < 0.1
    done = terminated | (random.random(50) < 0.1)
    expected = slow_gae(reward, value, next_value, terminated, done, 0.9, 0.8)
    arrays = [jnp.asarray(x, jnp.float32) for x in (reward, value, next_value)]
    got = gae(*arrays, jnp.asarray(terminated), jnp.asarray(done), discount=0.9, gae_lambda=0.8)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("terminated", "expected"),
    # discount 0.5, lambda 1, values 0 but the successor's 4: delta_1 = 1 + 0.5 * 4 = 3 when cut, 1 when terminated;
    # A_0 = 1 + 0.5 * 0 + 0.5 * A_1 = 2.5 or 1.5.
    [(False, [2.5, 3.0]), (True, [1.5, 1.0])],
)
def test_time_limit_bootstraps_and_termination_does_not(terminated, expected):
    got = gae(
        jnp.ones(2),
        jnp.zeros(2),
        jnp.asarray([0.0, 4.0]),
        jnp.asarray([False, terminated]),
        jnp.asarray([False, True]),
        discount=0.5,
        gae_lambda=1.0,
    )
    np.testing.assert_allclose(got, expected)


def test_nothing_leaks_from_the_next_episode():
    reward = jnp.asarray([1.0, 100.0])
    done = jnp.asarray([True, True])
    got = gae(reward, jnp.zeros(2), jnp.zeros(2), done, done, discount=0.9, gae_lambda=0.9)
    np.testing.assert_allclose(got, [1.0, 100.0])


def test_discounted_sum_by_hand():
    # 1 + 0.5 * (2 + 0 * 3) = 2, 2, 3
    got = discounted_sum(jnp.asarray([1.0, 2.0, 3.0]), jnp.asarray([0.5, 0.0, 0.9]))
    np.testing.assert_allclose(got, [2.0, 2.0, 3.0])


def test_vmapped_equals_looped():
    reward = jax.random.normal(jax.random.key(0), (20, 3))
    decay = jnp.full((20, 3), 0.7)
    together = jax.vmap(discounted_sum, 1, 1)(reward, decay)
    one_by_one = jnp.stack([discounted_sum(reward[:, i], decay[:, i]) for i in range(3)], axis=1)
    np.testing.assert_allclose(together, one_by_one, rtol=1e-6)


def test_lambda_return_equals_its_definition_written_as_a_loop():
    random = np.random.default_rng(5)
    reward, next_value = random.normal(size=(2, 9)).astype(np.float32)
    terminated = np.array([0, 0, 1, 0, 0, 0, 0, 0, 0], bool)
    done = terminated | np.array([0, 0, 0, 0, 0, 1, 0, 0, 0], bool)
    columns = map(jnp.asarray, (reward, next_value, terminated, done))
    target = lambda_return(*columns, discount=0.9, trace_decay=0.65)
    expected, following = np.zeros(9), None
    for t in reversed(range(9)):
        after = next_value[t] if done[t] or t == 8 else 0.35 * next_value[t] + 0.65 * following
        expected[t] = following = reward[t] + 0.9 * (not terminated[t]) * after
    np.testing.assert_allclose(target, expected, rtol=1e-5)


def test_lambda_return_is_value_plus_generalised_advantage():
    random = np.random.default_rng(6)
    reward, value = jnp.asarray(random.normal(size=(2, 7)), jnp.float32)
    next_value = jnp.append(value[1:], 0.3)
    no = jnp.zeros(7, bool)
    advantage = gae(reward, value, next_value, no, no, discount=0.9, gae_lambda=0.8)
    target = lambda_return(reward, next_value, no, no, discount=0.9, trace_decay=0.8)
    np.testing.assert_allclose(target, advantage + value, rtol=1e-5)
