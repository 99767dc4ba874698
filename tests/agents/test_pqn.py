"""PQN: its targets against a NumPy loop (two published versions compute them wrongly), and its options."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.agents.pqn import PQN
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import struct, to_arrays
from shoal.envs.classic.cartpole import CartPole
from shoal.rollouts.evaluate import evaluate

# How PQN learns the probes of the contract within seconds.
CONTRACT = {
    "pqn": {
        "learning_rate": 3e-3,
        "discount": 0.9,
        "q_lambda": 0.9,
        "epsilon_end": 0.2,
        "exploration": 0.3,
        "horizon": 200 * 160,
        "num_envs": 8,
        "num_steps": 20,
        "hidden": (32,),
    }
}


def bound(env="CartPole-v1", **fields):
    env = make(env) if isinstance(env, str) else env
    return to_arrays(PQN(**{"hidden": (8,), "num_steps": 16, **fields}).bind(env)), to_arrays(env)


# Agents are arguments, so that agents which differ only in hyperparameters share a program.
worth_of = jax.jit(lambda agent, weights, obs: agent._net(weights, obs)[..., 0])


@jax.jit
def collected(agent, env):
    """A state, its first trajectory (with epsilon 1), and the targets computed from it."""
    state = agent.init(make_key(0), env)
    dice = jax.random.uniform(make_key(1), (agent.num_steps, agent.num_envs, 1 + agent.action_space.n))
    noise = dice, jnp.ones(agent.num_steps)
    story = agent.rollout.collect(env, state.env_states, agent.behavior(state), noise, make_key(2))[1]
    return state, story, agent._batch(state, story, None)


@struct
class RuledPole(CartPole):
    """Pushing to the right is forbidden while the pole leans to the right."""

    def action_mask(self, state):
        return jnp.stack([jnp.bool_(True), state.theta <= 0])


@pytest.mark.parametrize("q_lambda", [0.0, 0.65, 1.0])
@pytest.mark.parametrize("env_class", [CartPole, RuledPole])
def test_targets_are_lambda_returns_of_the_best_actions(env_class, q_lambda):
    env = env_class(max_steps=12)
    agent = to_arrays(PQN(hidden=(8,), num_steps=40, q_lambda=q_lambda).bind(env))
    state, story, rows = collected(agent, to_arrays(env))
    story, target = jax.tree.map(np.asarray, story), np.asarray(rows.target).reshape(40, 4)

    def q(obs):
        q_values = np.asarray(worth_of(agent, state.weights, obs))
        is_ruled = (env_class is RuledPole) & (obs[..., 2] > 0)
        return np.where(is_ruled, q_values[..., 0], q_values.max(axis=-1))

    best, last, final = q(story.obs), q(story.last_obs), q(story.final_obs)
    assert (story.truncated & ~story.terminated).any() and story.terminated.any()
    for e in range(4):
        following = None
        for t in reversed(range(40)):
            end, cut = bool(story.terminated[t, e]), bool(story.truncated[t, e])
            # The value of the true successor, not that of the observation before it or after it.
            if cut and not end:
                after = final[int(story.final_slot[t, e]), e]
            else:
                after = last[e] if t == 39 else best[t + 1, e]
            mixed = after if (end or cut or t == 39) else (1 - q_lambda) * after + q_lambda * following
            following = float(story.reward[t, e]) + (0 if end else 0.99 * mixed)
            np.testing.assert_allclose(target[t, e], following, rtol=2e-4, atol=1e-4)


def test_the_loss_is_the_squared_error_of_the_chosen_actions():
    agent, env = bound(num_minibatches=1)
    state, _, rows = collected(agent, env)
    loss, _ = jax.jit(agent._loss)(state.weights, rows)
    q_values = np.asarray(worth_of(agent, state.weights, rows.obs), np.float64)
    chosen = q_values[np.arange(len(q_values)), rows.action]
    np.testing.assert_allclose(loss, ((chosen - rows.target) ** 2).mean(), rtol=1e-4)


def test_torsos_have_layer_normalisation():
    agent, env = bound()
    weights = jax.eval_shape(agent.init, make_key(0), env).weights
    assert "LayerNorm_0" in weights["torso"]["params"]
    image, _ = bound("Probe-Image-v0")
    assert image.network.layer_norm


def test_the_learning_rate_and_exploration_follow_the_horizon():
    agent, _ = bound(learning_rate=1e-2, horizon=640, num_envs=4, num_steps=16, exploration=0.5, epsilon_end=0.2)
    rates = [float(agent._learning_rate(jnp.int32(age))) for age in (0, 5, 10, 20)]
    np.testing.assert_allclose(rates, [1e-2, 5e-3, 0, 0], atol=1e-8)
    np.testing.assert_allclose(agent._epsilon(jnp.int32(0), jnp.asarray([0, 8], jnp.int32)), [1.0, 0.92], rtol=1e-5)
    np.testing.assert_allclose(agent._epsilon(jnp.int32(5), 0), 0.2, rtol=1e-5)


def test_continuous_actions_are_refused():
    with pytest.raises(Unsuited, match="needs Discrete actions, not Box"):
        bound("Pendulum-v1")


@pytest.mark.parametrize("memory", ["gru", "gtrxl"])
def test_targets_of_a_recurrent_network_equal_those_stepped_in_time(memory):
    fields = {"memory": memory, "memory_size": 8, "num_minibatches": 2, "q_lambda": 0.0}
    agent, env = bound(CartPole(max_steps=5), **fields)

    @jax.jit
    def two_rollouts(key):
        state = agent.init(key, env)
        state, _ = agent.update(state, env, jnp.int32(0))  # 16 steps of episodes of 5: the next begins in the middle
        noise = agent.policy_noise(state, make_key(1))
        first = agent.actor_carries(state)
        _, story, carry = agent.rollout.collect(
            env, state.env_states, agent.behavior(state), noise, make_key(2), *first
        )
        return state, story, carry, agent._batch(state, story, carry)

    state, story, after, rows = two_rollouts(make_key(0))
    step = jax.jit(lambda obs, carry: agent._net.step(state.weights, obs, carry))
    story, target = jax.tree.map(np.asarray, story), np.asarray(rows.target).reshape(16, 4)
    assert (story.truncated & ~story.terminated).any() and not story.is_first[0].all()
    for e in range(4):
        carry = jax.tree.map(lambda x, e=e: np.asarray(x)[e], state.carry)
        for t in range(16):
            _, carry = step(story.obs[t, e], carry)
            if story.truncated[t, e]:
                following = story.final_obs[int(story.final_slot[t, e]), e]
            else:
                following = story.obs[t + 1, e] if t < 15 else story.last_obs[e]
            value = 0 if story.terminated[t, e] else np.asarray(step(following, carry)[0]).max()
            np.testing.assert_allclose(target[t, e], story.reward[t, e] + agent.discount * value, rtol=1e-4)
            if story.terminated[t, e] or story.truncated[t, e]:
                carry = jax.tree.map(np.asarray, agent.initial_carry())
        for ours, theirs in zip(jax.tree.leaves(after), jax.tree.leaves(carry), strict=True):
            np.testing.assert_allclose(ours[e], theirs, atol=1e-5)


@pytest.mark.parametrize("memory", ["none", pytest.param("mingru", marks=pytest.mark.slow), "gru"])
def test_only_a_recurrent_network_solves_the_memory_probe(memory):
    size = {} if memory == "none" else {"memory": memory, "memory_size": 16}
    agent, env = bound("Probe-Memory-v0", **{**CONTRACT["pqn"], **size})
    train = jax.jit(
        lambda key: jax.lax.fori_loop(0, 200, lambda i, s: agent.update(s, env, i)[0], agent.init(key, env))
    )
    result = evaluate(agent, train(make_key(0)), env, make_key(1), episodes=64, horizon=5)
    assert abs(result.episode_return.mean()) < 0.5 if memory == "none" else (result.episode_return == 1).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"memory_size": 32}, "memory_size=32 changes nothing with memory='none'"),
        ({"memory": "lru", "memory_window": 8}, "memory_window=8 changes nothing with memory='lru', which has no wind"),
        ({"memory": "gtrxl", "memory_size": 30}, "memory_size=30 cannot be divided by the 4 heads of gtrxl: use 32"),
        ({"memory": "gtrxl", "memory_window": 1}, "memory_window=1 sees only the present observation: use at least 2"),
        ({"memory": "gru", "shuffle": "exact"}, "shuffle='exact' mixes the steps of episodes"),
        ({"memory": "gru", "num_minibatches": 3}, "environments to shuffle, .*num_minibatches=3 does not divide"),
    ],
)
def test_memories_that_cannot_be_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        bound(**fields)
