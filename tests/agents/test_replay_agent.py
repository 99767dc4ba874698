"""The base class of agents with a replay buffer: step counts, batches and stored rollouts, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import Tally
from shoal.agents.replay_agent import Observed, ReplayAgent, critic_loss, sample_weights, steps_of
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.struct import struct, to_arrays
from shoal.ops.replay import Steps
from shoal.rollouts.rollout import Rollout


@struct
class Sizes(ReplayAgent):
    """A replay agent that has sizes and does nothing."""

    def bind(self, env):
        return self.fitted(env)

    def init(self, key, env):
        raise NotImplementedError

    def policy_noise(self, state, key):
        raise NotImplementedError

    def behavior(self, state):
        raise NotImplementedError

    def learn_from(self, state, trajectory, carry, key, clock):
        raise NotImplementedError

    def act(self, state, obs, carry, key, greedy, mask=None):
        raise NotImplementedError

    def policy_state(self, state):
        raise NotImplementedError


def learner(num_envs, num_steps, starts, frequency, iterations, **fields):
    return Sizes(
        num_envs=num_envs,
        num_steps=num_steps,
        learning_starts=starts,
        train_frequency=frequency,
        train_iterations=iterations,
        **fields,
    )


@pytest.mark.parametrize(
    ("starts", "frequency", "iterations", "expected"),
    [
        # After 10, 20, ..., 80 steps: multiples of 25 are passed at 30, 50 and 80; those up to 50 do not count.
        (50, 25, 2, [0, 0, 0, 0, 0, 0, 0, 2]),
        (25, 5, 1, [0, 0, 2, 2, 2, 2, 2, 2]),
        (0, 10, 1.0, [1, 1, 1, 1, 1, 1, 1, 1]),
        (0, 1, 1, [10, 10, 10, 10, 10, 10, 10, 10]),
    ],
)
def test_gradient_steps_are_due_every_so_many_steps_once_learning_has_started(starts, frequency, iterations, expected):
    agent = learner(2, 5, *map(jnp.asarray, (starts, frequency, iterations)))
    assert [int(agent.gradient_steps_due(jnp.int32(age))) for age in range(8)] == expected


def test_no_gradient_step_is_due_before_the_first_complete_transition():
    agent = learner(4, 1, starts=0, frequency=1, iterations=1)
    assert [int(agent.gradient_steps_due(jnp.int32(age))) for age in range(3)] == [0, 4, 4]
    assert [int(agent.replace(n_step=2).gradient_steps_due(jnp.int32(age))) for age in range(4)] == [0, 0, 4, 4]


def test_samples_beyond_the_effective_batch_have_weight_zero():
    np.testing.assert_allclose(sample_weights(jnp.float32(4), 6), [0.25] * 4 + [0, 0])
    np.testing.assert_allclose(sample_weights(jnp.float32(9), 3), [1 / 3] * 3)
    np.testing.assert_allclose(sample_weights(jnp.float32(2.4), 3), [0.5, 0.5, 0])


def test_gradient_steps_continue_when_the_step_count_exceeds_32_bits():
    agent = learner(4096, 64, starts=1e4, frequency=64.0, iterations=2.6)
    assert int(agent.gradient_steps_due(jnp.int32(2**20))) == 4096 * 3


def test_a_rollout_is_stored_with_its_masks_and_final_observations():
    env = Tally(max_steps=3)
    rollout = Rollout.for_env(env, 2, 8)
    env_states = rollout.init(env, make_key(0))

    def behave(obs, mask, noise, carry):
        del obs, mask, noise
        return jnp.full(2, 2, jnp.int32), None, carry

    _, seen, _ = rollout.collect(env, env_states, behave, jnp.zeros(8), make_key(1))
    steps = steps_of(seen)
    pairs = [
        (steps.observed.obs, seen.obs),
        (steps.observed.mask, seen.mask),
        (steps.final_observed.obs, seen.final_obs),
        (steps.final_observed.mask, seen.final_mask),
        (steps.final_slot, seen.final_slot),
        ((steps.action, steps.reward), (seen.action, seen.reward)),
        ((steps.terminated, steps.truncated), (seen.terminated, seen.truncated)),
    ]
    jax.tree.map(np.testing.assert_array_equal, *zip(*pairs, strict=True))
    assert steps.truncated.any()


def test_batches_are_sampled_from_the_effective_buffer_only():
    # Ten rows of two environments fit, six of the newest rows count, and of them the newest has no successor yet.
    sizes = {"max_buffer_size": 20, "buffer_size": 12, "max_batch_size": 64, "batch_size": 64, "final_rows": 0}
    agent = learner(2, 2, starts=0, frequency=1, iterations=1, **sizes)

    def note(drawn, batch, share, key):
        del share, key
        return drawn.at[batch.observed.obs.astype(jnp.int32)].set(True), {}, jnp.zeros(64)

    replay, drawn, due = agent.empty_replay(Observed(jnp.zeros(2), None), jnp.int32(0)), jnp.zeros(20, bool), 0
    for clock in range(7):  # numbered by row; at clock 6 rows 10 to 13 have taken the place of the first
        row = jnp.broadcast_to(jnp.arange(2 * clock, 2 * clock + 2, dtype=jnp.float32)[:, None], (2, 2))
        nothing = jnp.zeros((2, 2))
        steps = Steps(
            Observed(row, None),
            nothing.astype(jnp.int32),
            nothing,
            *[nothing.astype(bool)] * 2,
            Observed(row[:0], None),
            nothing.astype(jnp.int32),
        )
        replay = replay.add(steps, jnp.int32(clock))
        drawn = jnp.zeros(20, bool)
        time = jnp.int32(clock)
        drawn, _, due, _ = agent.train_on_replay(note, drawn, replay, time, time, make_key(clock))
    assert int(due) == 4
    assert np.flatnonzero(drawn).tolist() == [8, 9, 10, 11, 12]


def test_the_loss_of_critics_is_summed_over_them_and_averaged_over_samples():
    q_values, target, share = np.asarray([[1.0, 2.0], [3.0, 5.0]]), np.asarray([1.5, 4.0]), np.asarray([0.75, 0.25])
    arrays = (jnp.asarray(x, jnp.float32) for x in (q_values, target, share / 2, share))
    loss, (logged, errors) = critic_loss(*arrays)
    np.testing.assert_allclose(loss, (0.75 * (0.25 + 2.25) + 0.25 * (4 + 1)) / 2)
    np.testing.assert_allclose(logged["td_error"], 0.75 * 1.0 + 0.25 * 1.5)
    np.testing.assert_allclose(errors, [1.0, 1.5])
    np.testing.assert_allclose(logged["q_value"], 0.75 * 2.0 + 0.25 * 3.5)


ACTOR_CRITICS = [
    pytest.param(name, marks=[] if name == "sac" else pytest.mark.slow) for name in ("sac", "td3", "crossq", "tqc")
]


@pytest.mark.parametrize("name", ACTOR_CRITICS)
def test_actor_critics_sample_by_priority_over_several_steps(name):
    sizes = {"num_envs": 2, "num_steps": 4, "buffer_size": 64, "batch_size": 16, "hidden": (8,), "learning_starts": 8}
    options = {"prioritized": True, "n_step": 3, "priority_exponent": 0.5, "train_frequency": 2}
    env = make("Pendulum-v1")
    agent, env = to_arrays(AGENTS[name].build(**sizes, **options).bind(env)), to_arrays(env)

    @jax.jit
    def three_updates(agent, env):
        state = agent.init(make_key(0), env)
        for clock in range(3):
            state, metrics = agent.update(state, env, jnp.int32(clock))
        return state, metrics

    def learn(seen, batch, share, key):
        del key
        first = jnp.where(jnp.any(seen[1] > 0), seen[1], share)  # afterwards samples may all have the same priority
        return (batch.bootstrap, first), {}, jnp.full(share.shape, 4.0)

    state, metrics = three_updates(agent, env)
    assert metrics.weight == 4 and np.isfinite(metrics.losses["loss"])
    leaf = np.asarray(state.priorities.leaf).ravel()
    has_priority = leaf[: 16 * 2].reshape(16, 2) > 0
    assert has_priority[:9].all() and not has_priority[9:].any()  # of 12 rows, the last 3 have no successor yet
    assert np.unique(leaf[leaf > 0]).size > 3
    # From here by hand: errors of 4 give priorities of 2, and the weights of the loss are powers of the probabilities.
    two, nothing = jnp.int32(2), (jnp.zeros(16), jnp.zeros(16))
    (bootstrap, share), _, _, priorities = agent.train_on_replay(
        learn, nothing, state.replay, two, two, make_key(1), None, state.priorities
    )
    np.testing.assert_allclose(bootstrap, 0.99**3, rtol=1e-5)
    assert np.ptp(share) > 0 and np.count_nonzero(np.isclose(np.asarray(priorities.leaf), 2.0, rtol=1e-4)) > 4


@pytest.mark.parametrize("name", ["sac", "td3", "crossq", "tqc", "dqn"])
def test_priorities_without_effect_are_refused(name):
    env = make("CartPole-v1" if name == "dqn" else "Pendulum-v1")
    with pytest.raises(ValueError, match="priority_exponent=0.3 changes nothing without prioritized=True"):
        AGENTS[name].build(priority_exponent=0.3).bind(env)
    AGENTS[name].build(priority_exponent=0.3, prioritized=True).bind(env)
    with pytest.raises(ValueError, match="n_step=0 must be at least 1"):
        AGENTS[name].build(n_step=0).bind(env)


@pytest.mark.parametrize(
    ("name", "env", "fields"),
    [
        ("dqn", "CartPole-v1", {"num_steps": 2, "n_step": 3, "train_frequency": 4}),
        ("sac", "Pendulum-v1", {"num_steps": 1, "train_frequency": 2}),
        ("dqn", "CartPole-v1", {"num_steps": 4, "memory": "gru", "memory_size": 4, "sequence_length": 4, "burn_in": 2}),
    ],
    ids=["dqn", "sac", "sequences"],
)
def test_prioritized_samples_do_not_depend_on_when_a_member_began(name, env, fields):
    """Members share the place in their rings. One that begins later has its steps at other places, also at the turn."""
    sizes = {"num_envs": 2, "buffer_size": 48, "batch_size": 8, "hidden": (8,), "learning_starts": 8, **fields}
    env = to_arrays(make(env))
    agent = to_arrays(AGENTS[name].build(prioritized=True, **sizes).bind(env))
    update = jax.jit(agent.update)

    def train(clock):
        state = jax.jit(lambda key: agent.init(key, env))(make_key(0))
        for i in range(20):
            state, _ = update(state, env, jnp.int32(clock + i))
        return jax.tree.leaves((agent.policy_state(state), state.priorities))

    for late in (3, 10):
        for there, here in zip(train(late), train(0), strict=True):
            np.testing.assert_array_equal(there, here)
