"""The vectorized rollout against a plain Python loop, and special cases of episode ends and resets."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from environments import Drip, OwnLimit, names_of_each_class, smallest
from shoal.agents.ppo import PPO
from shoal.core.env import Env, State
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, struct, to_arrays
from shoal.rollouts.episodes import EpisodeStats
from shoal.rollouts.rollout import Rollout, final_slots, successor_value


@struct
class CounterState(State):
    """The first count of the episode, and the number of earlier episodes."""

    origin: Any
    lives: Any


@struct
class Counter(Env):
    """Counts up from a random origin. Action 1 ends the episode; the time limit cuts it. The reward is the count."""

    max_steps: Number | None = 4

    @property
    def observation_space(self):
        """The count."""
        return Box(0, 2000, (), np.float32)

    @property
    def action_space(self):
        """Go on, end."""
        return Discrete(2)

    def init(self, key):
        """A random origin."""
        return CounterState(jnp.int32(0), jax.random.randint(key, (), 0, 1000, jnp.int32), jnp.int32(0))

    def transition(self, state, action, noise):
        """Count; terminate if the action is 1."""
        return state, (state.origin + state.time).astype(jnp.float32), action == 1, {}

    def observe(self, state):
        """Origin plus time."""
        return (state.origin + state.time).astype(jnp.float32)

    def carry_over(self, ended, fresh):
        """Keep counting episodes."""
        return fresh.replace(lives=ended.lives + 1)


def play(env, actions, num_envs=2, reset="bank", bank_size=0):
    """A rollout with given actions [T, E]."""
    rollout = Rollout.for_env(env, num_envs, len(actions), reset, bank_size)
    env_states = jax.jit(rollout.init)(env, make_key(0))
    policy = lambda obs, mask, action, carry: (action, None, carry)  # noqa: E731
    run = jax.jit(
        lambda env_states: rollout.collect(env, env_states, policy, jnp.asarray(actions, jnp.int32), make_key(1))
    )
    return env_states, *run(env_states)


def test_a_step_equals_the_environment_s_own():
    env = make("CartPole-v1")
    actions = jax.random.randint(make_key(5), (60, 3), 0, 2)
    env_states, _, trajectory, _ = play(env, actions, num_envs=3)
    state, step = jax.tree.map(lambda x: x[1], env_states.state), jax.jit(env.step)
    obs = env.observe(state)
    for t in range(60):
        np.testing.assert_allclose(trajectory.obs[t, 1], obs, atol=1e-5)
        obs, state, reward, terminated, truncated, _ = step(make_key(0), state, actions[t, 1])
        assert (trajectory.reward[t, 1], trajectory.terminated[t, 1]) == (reward, terminated)
        assert trajectory.truncated[t, 1] == truncated
        if terminated:
            break
    assert terminated and trajectory.is_first[t + 1, 1]


def test_truncated_episodes_keep_their_true_final_observation():
    env_states, _, trajectory, _ = play(Counter(), np.zeros((10, 2)))
    origin = np.asarray(env_states.state.origin)
    assert trajectory.truncated[:, 0].tolist() == [False, False, False, True] * 2 + [False] * 2
    np.testing.assert_array_equal(trajectory.final_obs[0], origin + 4)
    # The second episode began where observation 4 says it did.
    np.testing.assert_array_equal(trajectory.final_obs[1], np.asarray(trajectory.obs[4]) + 4)
    values = successor_value(trajectory, trajectory.obs, trajectory.last_obs.astype(jnp.float32), trajectory.final_obs)
    for t in range(9):
        expected = trajectory.obs[t] + 1  # the true successor counts on, whatever came after a reset
        np.testing.assert_array_equal(values[t], expected)


def test_termination_at_the_time_limit_is_termination():
    actions = np.zeros((6, 2))
    actions[3] = 1
    _, _, trajectory, _ = play(Counter(), actions)
    assert trajectory.terminated[3].all() and trajectory.truncated[3].all()
    assert trajectory.final_slot[4:].max() == 0  # nothing was kept for it


def test_the_number_of_final_observation_slots_is_exact():
    assert final_slots(Counter(max_steps=None), 128) == 0
    assert [final_slots(Counter(max_steps=m), 128) for m in (1, 4, 127, 128, 500)] == [128, 32, 2, 1, 1]
    assert final_slots(Counter(max_steps=np.array([500, 64])), 128) == 2
    assert final_slots(OwnLimit(), 10) == 4  # its limits are 3 to 5 steps


def test_the_reset_bank_is_sized_by_the_shortest_time_limit():
    def bank(env):
        return Rollout.for_env(env, 4, 128).bank_size

    assert bank(make("bsuite/mountain_car/0")) == 2 and bank(make("bsuite/mountain_car/0", episode_steps=10)) == 14
    assert bank(make("MinAtar/Freeway-v1", time_limit=10)) == 13 and bank(make("CartPole-v1", max_steps=1)) == 128


def test_episode_statistics_equal_a_loop_over_the_records():
    random = np.random.default_rng(0)
    _, _, trajectory, _ = play(Counter(max_steps=7), random.random((50, 2)) < 0.2)
    returns, lengths = [], []
    for e in range(2):
        total = length = 0
        for t in range(50):
            total, length = total + float(trajectory.reward[t, e]), length + 1
            if trajectory.done[t, e]:
                returns.append(total)
                lengths.append(length)
                total = length = 0
    episodes = trajectory.episodes()
    assert episodes.count == len(returns) and episodes.length_sum == sum(lengths)
    np.testing.assert_allclose(episodes.return_sum, sum(returns))
    np.testing.assert_allclose(episodes.return_square_sum, np.square(returns).sum(), rtol=1e-6)
    assert (episodes.return_min, episodes.return_max) == (min(returns), max(returns))


def test_episodes_continue_in_the_next_rollout():
    env = Counter(max_steps=6)
    rollout = Rollout.for_env(env, 2, 4)
    policy = lambda obs, mask, action, carry: (action, None, carry)  # noqa: E731
    collect = jax.jit(
        lambda env_states, key: rollout.collect(env, env_states, policy, jnp.zeros((4, 2), jnp.int32), key)
    )
    env_states, first, _ = collect(jax.jit(rollout.init)(env, make_key(0)), make_key(1))
    _, second, _ = collect(env_states, make_key(2))
    assert first.episodes().count == 0 and second.episodes().count == 2
    np.testing.assert_array_equal(second.obs[0], first.last_obs)
    np.testing.assert_allclose(
        second.episodes().return_sum, first.reward.sum() + np.asarray(second.reward)[:2].sum(), rtol=1e-6
    )


def test_the_bank_counts_states_used_twice():
    _, _, fresh, _ = play(Counter(), np.ones((12, 2)), bank_size=12)
    _, _, reused, _ = play(Counter(), np.ones((12, 2)), bank_size=4)
    _, _, exact, _ = play(Counter(), np.ones((12, 2)), reset="exact")
    assert (fresh.num_first_states, reused.num_first_states, exact.num_first_states) == (12, 4, 12)
    assert (
        exact.episodes().resets_reused == fresh.episodes().resets_reused == 0
        and reused.episodes().resets_reused == 2 * 8
    )
    assert len(set(np.asarray(fresh.obs[1:, 0]).tolist())) == 11
    assert len(set(np.asarray(reused.obs[1:, 0]).tolist())) == 4


def test_carry_over_keeps_state_across_the_reset():
    _, after, _, _ = play(Counter(), np.ones((5, 2)))
    assert after.state.lives.tolist() == [5, 5] and after.state.time.tolist() == [0, 0]


def test_bank_and_exact_resets_give_the_same_distribution():
    env = make("CartPole-v1")
    actions = jax.random.randint(make_key(5), (64, 512), 0, 2)
    lengths = {}
    for reset in ("bank", "exact"):
        _, _, trajectory, _ = play(env, actions, num_envs=512, reset=reset)
        ended = np.asarray(trajectory.done)
        lengths[reset] = np.asarray(trajectory.episode_length)[ended]
        assert trajectory.episodes().resets_reused == 0
    assert stats.ks_2samp(lengths["bank"], lengths["exact"]).pvalue > 0.01
    starts = {}
    for reset in ("bank", "exact"):
        bank_size = 20 if reset == "bank" else 0
        _, _, trajectory, _ = play(Counter(), np.ones((20, 500)), num_envs=500, reset=reset, bank_size=bank_size)
        starts[reset] = np.asarray(trajectory.obs[1:]).ravel()
        assert stats.kstest(starts[reset], "uniform", (0, 1000)).pvalue > 1e-3


def test_environments_do_not_share_their_randomness():
    env_states, _, trajectory, _ = play(Counter(), np.ones((20, 100)), num_envs=100)
    assert len(set(np.asarray(env_states.state.origin).tolist())) > 80
    rows = np.asarray(trajectory.obs)
    assert abs(np.corrcoef(rows[1, :], rows[2, :])[0, 1]) < 0.3


@pytest.mark.parametrize("sizes", [(0, 8), (8, 0)])
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="must both be at least 1"):
        Rollout.for_env(Counter(), *sizes)


def test_an_unknown_reset_mode_is_refused():
    with pytest.raises(ValueError, match="Choose 'bank' or 'exact'"):
        Rollout.for_env(Counter(), 2, 2, "always")


@pytest.mark.sampled
@pytest.mark.parametrize("prng", ["mix32", "threefry2x32"])
def test_a_larger_bank_begins_with_the_states_of_a_smaller_one(prng):
    # So a size that is never used up does not change a bit.
    small, large = (
        Rollout.for_env(Counter(), 3, 32, bank_size=size).sample(Counter(), make_key(0, prng)) for size in (4, 9)
    )
    assert jax.tree.all(jax.tree.map(lambda a, b: jnp.array_equal(a, b[:4]), small.first_states, large.first_states))


@pytest.mark.parametrize(
    ("reset", "bank_size", "says"),
    [("bank", -1, "must not be negative"), ("exact", 4, "reset='exact', which has no bank")],
)
def test_invalid_bank_sizes_are_refused(reset, bank_size, says):
    with pytest.raises(ValueError, match=says):
        Rollout.for_env(Counter(), 2, 8, reset, bank_size)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("names", names_of_each_class("Probe-"))
def test_a_random_policy_hardly_ever_empties_the_bank(names):
    env = smallest(names)
    rollout = Rollout.for_env(env, 64, 128)
    rounds = max(30, 3 * env.reset_every // 128)  # so that every environment has a few resets

    def act(obs, mask, key, carry):
        return jax.vmap(env.action_space.sample)(key), None, carry

    @jax.jit
    def run(key):
        def collect(env_states, key):
            k_act, k_envs = jax.random.split(key)
            keys = jax.random.split(k_act, (128, 64))
            env_states, trajectory, _ = rollout.collect(env, env_states, act, keys, k_envs)
            return env_states, trajectory.episodes()

        k_init, k_run = jax.random.split(key)
        return jax.lax.scan(collect, rollout.init(env, k_init), jax.random.split(k_run, rounds))[1]

    episodes = run(make_key(0))
    assert episodes.count.sum() >= 64
    assert episodes.resets_reused.sum() < 0.01 * episodes.count.sum()


def test_agents_that_differ_only_in_hyperparameters_share_a_program():
    env = make("CartPole-v1")
    one, other = (PPO(learning_rate=rate).bind(env) for rate in (1e-3, 1e-2))  # which hold a rollout each
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert jax.tree.structure(one) != jax.tree.structure(PPO(num_steps=64).bind(env))


def test_the_return_of_an_episode_over_many_rollouts_is_exact():
    env, rollout = (
        to_arrays(Drip(max_steps=1_000_000)),
        Rollout(num_envs=2, num_steps=1_000, bank_size=1, final_slots=1),
    )

    def still(obs, mask, noise, carry):
        return jnp.zeros(2, jnp.int32), None, carry

    @jax.jit
    def play(env):
        def one(i, loop):
            env_states, stats = loop
            env_states, trajectory, _ = rollout.collect(env, env_states, still, jnp.zeros((1_000, 2)), make_key(0))
            return env_states, stats.merge(trajectory.episodes())

        return jax.lax.fori_loop(0, 1_000, one, (rollout.init(env, make_key(1)), EpisodeStats.zero()))

    env_states, stats = play(env)
    np.testing.assert_allclose(stats.return_min, 1e6 * float(np.float32(0.1)), atol=0.004)
    assert stats.count == 2 and not env_states.rounding.any()  # a new episode begins without


def test_only_long_episodes_carry_the_rounding_of_their_return():
    for max_steps, is_short in ((1_000, True), (1_001, False), (None, False), (np.asarray([5, 2_000]), False)):
        rollout = Rollout.for_env(Drip(max_steps=max_steps), 2, 8)
        assert rollout.short_episodes == is_short
        assert (rollout.init(Drip(), make_key(0)).rounding is None) == is_short


def test_returns_of_very_many_episodes_add_up_exactly():
    @jax.jit
    def merged():
        one = EpisodeStats.of(jnp.ones(1, bool), jnp.full(1, 0.1, jnp.float32), jnp.ones(1, jnp.int32))
        return jax.lax.fori_loop(0, 1_000_000, lambda i, stats: stats.merge(one), EpisodeStats.zero())

    stats = merged()
    np.testing.assert_allclose(stats.return_mean, 0.1, rtol=1e-6)
    np.testing.assert_allclose(stats.return_square_sum, 1e4, rtol=1e-6)
