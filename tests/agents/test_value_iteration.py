"""Value iteration against sums by hand, and sampled dynamics against the declared model of an environment."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.envs.probes import ChainState
from shoal.envs.toy_text.tabular import TabularState
from value_iteration import Dynamics, tabulate, value_iteration


def chain():
    states = jax.vmap(lambda cell: ChainState(jnp.int32(0), cell))(jnp.arange(5, dtype=jnp.int32))
    return tabulate(make("Probe-Chain-v0"), states, lambda state: state.cell)


def test_the_chain_has_the_values_that_its_page_states():
    q = value_iteration(chain(), 0.9)[:4]
    value = 0.9 ** np.array([3, 2, 1, 0])
    np.testing.assert_allclose(q[:, 1], value, atol=1e-8)
    np.testing.assert_allclose(q[:, 0], 0.9 * value[[0, 0, 1, 2]], atol=1e-8)


def test_transition_probabilities_weight_the_outcomes():
    # One state: with odds 1/4 it ends with 8, else it stays with 0. Q = 1/4 * 8 + 3/4 * 0.5 * Q = 2 / (1 - 3/8) = 3.2.
    model = Dynamics(
        *(np.array([[x]]) for x in ([0.25, 0.75], [0, 0], [8.0, 0.0], [True, False])),
    )
    np.testing.assert_allclose(value_iteration(model, 0.5), [[3.2]], atol=1e-8)


def test_exploration_is_valued_by_the_mean_over_actions():
    # One state, ends at once: action 0 pays 1, action 1 nothing. Next to a state before it that pays nothing itself:
    # V = (1 - 0.2) * 1 + 0.2 * 0.5 = 0.9, so Q = 0.9 * discount there.
    model = Dynamics(
        np.ones((2, 2, 1)),
        np.array([[[1], [1]], [[0], [0]]]),
        np.array([[[0.0], [0.0]], [[1.0], [0.0]]]),
        np.array([[[False], [False]], [[True], [True]]]),
    )
    np.testing.assert_allclose(value_iteration(model, 0.5, epsilon=0.2), [[0.45, 0.45], [1, 0]], atol=1e-8)


def test_value_iteration_that_does_not_converge_is_refused():
    model = Dynamics(*(np.array([[[x]]]) for x in (1.0, 0, 1.0, False)))
    with pytest.raises(ValueError, match="still change after 100 sweeps with discount=1: take a smaller one"):
        value_iteration(model, 1, most_sweeps=100)


@pytest.mark.parametrize("name", ["CliffWalking-v1", "CliffWalkingSlippery-v1"])
def test_sampled_transitions_equal_the_declared_model(name):
    env = make(name)
    size = env.observation_space.n
    states = jax.vmap(lambda index: TabularState(jnp.int32(0), index))(jnp.arange(size).astype(env.outcomes.dtype))
    # Numbers that fall into each of the outcomes.
    probabilities, noise = ((1 / 3,) * 3, jnp.asarray([0.1, 0.5, 0.9])) if env.is_slippery else ((1.0,), None)
    sampled, declared = (
        tabulate(env, states, lambda state: state.index.astype(jnp.int32), noise, probabilities),
        env.model(),
    )
    for part in Dynamics._fields:
        np.testing.assert_allclose(getattr(sampled, part), getattr(declared, part), rtol=1e-6, err_msg=part)


def test_simulated_returns_of_frozen_lake_equal_the_value_of_its_model():
    # A greedy policy's success by simulation equals its value without discount (none needed: every walk ends).
    env = make("FrozenLake-v1", is_slippery=False)
    q = value_iteration(env.model(), 0.5)
    obs, state = env.reset(make_key(0))
    rewards = []
    for _ in range(6):  # the shortest way
        obs, state, reward, terminated, _, _ = jax.jit(env.step)(make_key(0), state, jnp.int32(q[int(obs)].argmax()))
        rewards.append(float(reward))
    assert rewards == [0, 0, 0, 0, 0, 1] and terminated
    np.testing.assert_allclose(q[0].max(), 0.5**5, atol=1e-8)
