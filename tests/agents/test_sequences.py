"""Replay of sequences: the loss of a recurrent DQN against NumPy, its carries, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import Tally
from sequences_by_hand import NumpyGRU, dense, filled, index_of, joined
from shoal.agents.dqn import DQN
from shoal.agents.replay_agent import normalized_batch
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.struct import to_arrays
from shoal.envs.classic.cartpole import CartPole
from shoal.ops.running import RunningStats
from shoal.rollouts.checks import check_agent
from shoal.rollouts.evaluate import evaluate

ENVS, AT_ONCE, DISCOUNT = 2, 4, 0.9
SMALL = {
    "hidden": (6,), "memory": "gru", "memory_size": 5, "num_envs": ENVS, "num_steps": AT_ONCE, "discount": DISCOUNT,
    "buffer_size": 48, "batch_size": 3, "sequence_length": 4, "burn_in": 3,
}  # fmt: skip


def bound(env="CartPole-v1", **fields):
    env = make(env) if isinstance(env, str) else env
    return to_arrays(DQN(**{**SMALL, **fields}).bind(env)), to_arrays(env)


@jax.jit
def two_networks(agent):
    """Weights and target weights that differ."""
    weights = agent._net.init(make_key(0), jnp.zeros((1, 4)))
    return weights, jax.tree.map(lambda x: x + 0.3 * jax.random.normal(make_key(1), x.shape), weights)


def stored(agent):
    return filled(agent, agent.initial_carry())


def numpy_errors(agent, weights, target, replay, start, env):
    """The errors of the steps of one sequence, by a loop over them."""
    networks = [NumpyGRU(weights), NumpyGRU(target)]
    rows = agent.burn_in + agent.sequence_length + agent.n_step - 1
    replay = jax.tree.map(np.asarray, replay)
    by_online, by_target = (network.read(replay, replay.carry, start, env, rows) for network in networks)
    value, later = (lambda h, network=network: dense(network.weights["advantage"], h) for network in networks)
    errors = []
    for i in range(agent.burn_in, agent.burn_in + agent.sequence_length):
        total, factor, k, after = joined(replay, start + i, env, agent.n_step, DISCOUNT)
        q_values = later(networks[1].step(after, by_target[i + k]))
        judge = value(networks[0].step(after, by_online[i + k])) if agent.double else q_values
        chosen = value(by_online[i])[replay.action[(start + i) % replay.rows, env]]
        errors.append(chosen - total - factor * q_values[judge.argmax()])
    return np.array(errors)


@pytest.mark.parametrize(("n_step", "double", "burn_in"), [(1, False, 3), (3, True, 3), (1, True, 0)])
def test_the_loss_equals_a_numpy_version(n_step, double, burn_in):
    agent, _ = bound(CartPole(max_steps=6), n_step=n_step, double=double, burn_in=burn_in)
    (weights, target), replay = two_networks(agent), stored(agent)
    sequences = [(0, 0), (4, 1), (12, 0), (20, 1)]  # first row and environment; the last one goes round the ring
    index = index_of(agent, sequences)
    weight = jnp.asarray([0.4, 0.3, 0.2, 0.1])

    @jax.jit
    def loss_of(replay, index, weight):
        batch = agent._take(replay, index)
        loss, (error, losses) = agent._loss(weights, target, batch, agent._weight_of_steps(weight), make_key(2))
        return loss, error, agent._error_of_samples(error), losses, batch.history.is_first

    loss, error, of_samples, losses, is_first = loss_of(replay, index, weight)
    assert np.asarray(is_first)[burn_in + 1 :].any()  # an episode begins within the steps to learn from
    expected = np.stack([numpy_errors(agent, weights, target, replay, *sequence) for sequence in sequences])  # [B, L]
    np.testing.assert_allclose(np.asarray(error).reshape(4, -1).T, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(loss, (np.asarray(weight) * (expected**2).mean(axis=1)).sum(), rtol=1e-3)
    np.testing.assert_allclose(losses["td_error"], (np.asarray(weight) * abs(expected).mean(axis=1)).sum(), rtol=1e-3)
    priority_error = 0.9 * abs(expected).max(axis=1) + 0.1 * abs(expected).mean(axis=1)
    np.testing.assert_allclose(of_samples, priority_error, rtol=1e-3, atol=1e-4)


def test_no_gradient_flows_through_the_burn_in():
    agent, _ = bound(CartPole(max_steps=6))
    without, _ = bound(CartPole(max_steps=6), burn_in=0)
    weights, _ = two_networks(agent)
    index, weight = jnp.asarray([0, 3, 6], jnp.int32), jnp.full(12, 1 / 12)
    batch = agent._take(stored(agent), index)
    history = batch.history

    def loss(agent, weights, carry, history):
        now = batch.replace(history=history.replace(carry=carry))
        return agent._loss(weights, jax.lax.stop_gradient(weights), now, weight, make_key(2))[0]

    gradient = jax.jit(jax.grad(loss, argnums=(1, 2)))
    of_weights, of_carry = gradient(agent, weights, history.carry, history)
    np.testing.assert_array_equal(of_carry, 0)
    # The same as beginning after the burn-in with the carry that it gives.
    _, carries = agent._net.unroll(weights, history.observed.obs[:3], history.is_first[:3], history.carry)
    rest = history.replace(
        observed=jax.tree.map(lambda x: x[3:], history.observed), is_first=history.is_first[3:], last=history.last - 3
    )
    expected, of_carry = gradient(without, weights, carries[-1], rest)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), of_weights, expected)
    assert np.abs(of_carry).max() > 1e-4


@pytest.mark.parametrize("memory", ["gru", pytest.param("lstm", marks=pytest.mark.slow), "gtrxl"])
def test_acting_step_by_step_equals_reading_the_stored_sequence(memory):
    sizes = {"memory": memory, "memory_size": 8, "learning_starts": 1e6, "burn_in": 0, "sequence_length": 8}
    agent, env = bound(CartPole(max_steps=7), **sizes)

    @jax.jit
    def played(key):
        state = jax.lax.fori_loop(0, 5, lambda i, s: agent.update(s, env, i)[0], agent.init(key, env))
        newest, usable = state.replay.newest(jnp.int32(4)), state.replay.usable(jnp.int32(4), agent.incomplete)
        index = state.replay.index(newest, agent.incomplete + usable - 1, jnp.arange(ENVS))  # from the first row on
        read = agent._take(state.replay, index).history
        q_values, carries = agent._net.unroll(state.weights, read.observed.obs, read.is_first, read.carry)
        return state, read, q_values[..., 0], carries

    state, read, q_values, carries = played(make_key(0))
    act = jax.jit(lambda obs, carry: agent.act(state, obs, carry, make_key(0), True))
    assert np.asarray(read.is_first)[1:].any()
    for env in range(ENVS):
        carry = agent.initial_carry()
        for t in range(8):
            if read.is_first[t, env]:
                carry = agent.initial_carry()
            if t == AT_ONCE:  # the second rollout: its stored carry is that of the acting network
                stored = jax.tree.map(lambda x, env=env: x[1, env], state.replay.carry)
                jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), stored, carry)
            action, carry = act(read.observed.obs[t, env], carry)
            assert action == np.argmax(q_values[t, env])
            after = jax.tree.map(lambda x, t=t, env=env: x[t, env], carries)
            jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), after, carry)


def test_the_history_is_normalized_like_the_samples():
    agent, _ = bound(CartPole(max_steps=6))
    batch = agent._take(stored(agent), jnp.asarray([0, 3], jnp.int32))
    stats = RunningStats.zero(jnp.zeros(4)).update(3 + 2 * batch.observed.obs)
    seen = normalized_batch(stats, batch)
    np.testing.assert_array_equal(seen.history.observed.obs[3:].reshape(-1, 4), seen.observed.obs)
    assert np.abs(seen.observed.obs - batch.observed.obs).max() > 0.1


MANY = {
    "plain": {},
    "lstm, all of rainbow": {
        "memory": "lstm", "head": "categorical", "double": True, "dueling": True, "n_step": 3, "prioritized": True,
        "noisy": True, "burn_in": 0, "atoms": 5, "buffer_size": 96,
    },
    "implicit, munchausen": {"head": "implicit", "munchausen": True, "atoms": 4},
    "mingru, normalized": {"memory": "mingru", "normalize_observation": True, "loss": "huber"},
}  # fmt: skip


@pytest.mark.parametrize("name", MANY)
@pytest.mark.sampled(2)
def test_a_recurrent_agent_keeps_the_contract(name):
    # Observations of Tally are a Dict with a category, which is not normalized, and some actions are forbidden.
    env = CartPole(max_steps=6) if "normalize_observation" in MANY[name] else Tally()
    check_agent(DQN(**{**SMALL, "learning_starts": 8, "train_frequency": 8, **MANY[name]}), env)


PROBE = {
    "learning_rate": 3e-3, "discount": 0.9, "batch_size": 16, "buffer_size": 2000, "learning_starts": 100,
    "train_frequency": 10, "target_period": 40, "epsilon_end": 0.3, "horizon": 8000, "num_envs": 4, "num_steps": 10,
    "hidden": (16,), "memory_size": 16, "sequence_length": 10, "burn_in": 5,
}  # fmt: skip


@pytest.mark.parametrize("memory", ["none", "gru", pytest.param("lru", marks=pytest.mark.slow)])
def test_only_a_recurrent_network_solves_the_memory_probe(memory):
    unused = () if memory != "none" else ("memory_size", "sequence_length", "burn_in")
    fields = {name: value for name, value in PROBE.items() if name not in unused}
    env = make("Probe-Memory-v0")
    agent, env = to_arrays(DQN(**fields, memory=memory).bind(env)), to_arrays(env)
    train = jax.jit(
        lambda key: jax.lax.fori_loop(0, 200, lambda i, s: agent.update(s, env, i)[0], agent.init(key, env))
    )
    result = evaluate(agent, train(make_key(0)), env, make_key(1), episodes=64, horizon=5)
    assert abs(result.episode_return.mean()) < 0.5 if memory == "none" else (result.episode_return == 1).all()


def test_gradient_steps_wait_for_the_first_whole_sequence():
    # 3 burn-in steps, 4 to learn from and the successor of the last are 8 rows: two rollouts of 4.
    agent, _ = bound(learning_starts=0, train_frequency=8)
    assert [int(agent.gradient_steps_due(jnp.int32(age))) for age in range(4)] == [0, 1, 1, 1]
    agent, _ = bound(learning_starts=0, train_frequency=8, burn_in=4)  # 9 rows
    assert [int(agent.gradient_steps_due(jnp.int32(age))) for age in range(4)] == [0, 0, 1, 1]


@pytest.mark.parametrize("n_step", [1, 5])
def test_a_sequence_gets_a_priority_when_its_last_row_is_stored(n_step):
    agent, env = bound(prioritized=True, n_step=n_step, learning_starts=1e6)
    update = jax.jit(lambda state, clock: agent.update(state, env, clock)[0])
    state = jax.jit(agent.init)(make_key(0), env)
    for clock in range(8):  # 6 rollouts fit; a sequence needs 2 (8 rows), or 3 (12 rows) with 5 steps
        state = update(state, jnp.int32(clock))
        incomplete = 1 if n_step == 1 else 2
        newest, usable = state.replay.newest(jnp.int32(clock)), max(min(clock + 1, 6) - incomplete, 0)
        behind, envs = np.meshgrid(np.arange(incomplete, incomplete + usable), np.arange(ENVS))
        index = np.asarray(state.replay.index(newest, jnp.asarray(behind), jnp.asarray(envs))).ravel()
        assert (np.asarray(state.priorities.leaf).ravel()[index] == 1).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"memory": "none", "memory_size": 64}, "sequence_length=4 changes nothing with memory='none'"),
        (
            {"memory": "none", "memory_size": 64, "sequence_length": 20},
            "burn_in=3 changes nothing with memory='none'",
        ),
        ({"burn_in": -1}, "burn_in=-1 must not be negative; 0 means no burn-in"),
        ({"sequence_length": 0}, "sequence_length=0 must be at least 1"),
        ({"sequence_length": 6}, "sequence_length=6 must be a multiple of num_steps=4: .* Try 8"),
        ({"sequence_length": 2}, "Try 4"),
        ({"buffer_size": 14}, "buffer_size=14 holds 7 steps of each of 2 environments: .* burn_in=3 and"),
        ({"buffer_size": 16, "burn_in": 4}, "for a sequence of burn_in=4 and sequence_length=4 .* at least 24"),
        ({"memory": "gru", "memory_window": 8}, "memory_window=8 changes nothing with memory='gru', which has no wind"),
        ({"memory": "rnn"}, "memory='rnn' is unknown. Choose one of none, gru"),
    ],
)
@pytest.mark.parametrize("name", ["dqn", "sac", "td3", "tqc", "crossq"])
def test_sequences_that_cannot_be_are_refused(name, fields, message):
    env = make("CartPole-v1" if name == "dqn" else "Pendulum-v1")
    with pytest.raises(ValueError, match=message):
        AGENTS[name].build(**{**SMALL, **fields}).bind(env)


def test_munchausen_takes_no_sums_of_rewards():
    with pytest.raises(ValueError, match="n_step=3 adds rewards up"):
        bound(munchausen=True, n_step=3)


def test_the_smallest_buffer_holds_one_sequence():
    bound(buffer_size=15)
    bound(buffer_size=24, burn_in=4)
