"""Schedules of hyperparameters in every registered agent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learners import all_agents, playable, unbound
from shoal.core.agent import both_ends
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.struct import hyper_fields, info_of, to_arrays

REASONS = (
    "length of schedules",
    "says how learning_rate falls",
    "only a member that begins reads it",
    "choice of one of",
    "changes nothing",  # with the other fields of this agent, as a number would
    "is unknown",
    "leaves none of quantiles",
    "0 means the default of the strategy",
)


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


def inside(field):
    """Two valid numbers of a field, from its search range or around its default."""
    info = info_of(field)
    if info.names:
        return 0, 1
    if info.search:
        return info.search.low, info.search.high
    default = 0.1 if field.default is None else float(field.default)
    low, high = (default * 0.5, default) if default else (0.0, 1e-3)
    return max(low, info.valid.low), min(high, info.valid.high)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", all_agents())
def test_every_hyperparameter_takes_a_schedule_or_says_why_not(name):
    env = make(playable(name))
    taken, refused = {}, {}
    for field in hyper_fields(AGENTS[name].cls).values():
        low, high = inside(field)
        try:
            agent = unbound(name, env, **{field.name: f"linear({low}, {high}, horizon=1e6)"})
            agent.bind(env)
        except ValueError as error:
            assert any(reason in str(error) for reason in REASONS), f"{field.name}: {error}"
            refused[field.name] = str(error)
        else:
            taken[field.name] = getattr(agent, field.name)
    assert {"learning_rate"} < {*taken}, refused
    # One update with all of them at once: the program takes the schedules, and its losses are finite.
    agent = to_arrays(unbound(name, env, **{n: s for n, s in taken.items() if _goes_with_others(n)}).bind(env))
    state = jax.jit(type(agent).init)(agent, make_key(0), env)
    state, metrics = jax.jit(type(agent).update)(agent, state, env, jnp.int32(0))
    assert all(np.isfinite(np.asarray(loss)).all() for loss in jax.tree.leaves(metrics.losses))
    policy = agent.policy_state(state)
    obs, mask = env.observe(env.init(make_key(1))), env.action_mask(env.init(make_key(1)))
    for greedy in (True, False):
        agent.act(policy, obs, agent.initial_carry(), make_key(2), greedy, mask)
    assert int(state.age) == 1


def _goes_with_others(name):
    return name not in ("learning_starts", "buffer_size", "v_min", "v_max")  # whose sizes would make the test slow


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["ppo", "dqn", "q-learning", "sac", "td3", "pqn", "bc", "es"])
def test_an_update_with_a_schedule_is_that_with_its_number(name):
    env = make(playable(name))
    plain = unbound(name, env)
    number = 0.0625  # exact in 32 bits
    without = {"anneal": 0.0} if hasattr(plain, "anneal") else {}
    fixed = to_arrays(unbound(name, env, learning_rate=number, **without).bind(env))
    # After one update it is in the middle of its schedule, from 0.125 to 0.
    steps = fixed.steps_per_update
    moving = to_arrays(
        unbound(name, env, learning_rate=f"linear(0.125, 0.0001220703125, horizon={2 * steps})").bind(env)
    )
    state = jax.jit(type(fixed).init)(fixed, make_key(0), env).replace(age=jnp.int32(1))
    now = moving.at(state.age)
    half = (0.125 + 0.0001220703125) / 2
    np.testing.assert_allclose(now.learning_rate, half, rtol=1e-6)
    fixed = fixed.replace(learning_rate=jnp.float32(now.learning_rate))
    update = jax.jit(type(fixed).update)
    left, right = (update(agent, state, env, jnp.int32(1))[0] for agent in (fixed, moving))
    for a, b in zip(jax.tree.leaves(_numbers(left)), jax.tree.leaves(_numbers(right)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def _numbers(tree):
    return jax.tree.map(lambda x: None if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x, tree)


def test_sizes_hold_for_the_highest_number_of_a_schedule():
    env = make(playable("dqn"))
    agent = unbound("dqn", env, batch_size="linear(8, 24)").bind(env)
    assert agent.max_batch_size == 24
    low, high = both_ends(agent)
    assert (float(low.batch_size), float(high.batch_size)) == (8, 24)


def test_a_schedule_that_reaches_the_number_with_another_meaning_is_refused():
    env = make(playable("es"))
    with pytest.raises(ValueError, match="0 means the default of the strategy"):
        unbound("es", env, learning_rate="linear(0.1, 0)")


def test_anneal_counts_only_where_the_learning_rate_is_a_number():
    env = make(playable("ppo"))
    agent = unbound("ppo", env, learning_rate="constant(0.5)", anneal=1.0, horizon=1000.0).bind(env)
    now = agent.at(jnp.int32(5))
    assert (float(now.learning_rate), float(now.anneal)) == (0.5, 0.0)
