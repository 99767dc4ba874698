"""PPO with a recurrent network: the carry at episode ends, values at time limits, and minibatches."""

import functools
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.agents.ppo import PPO, Batch
from shoal.core.env import Env, State
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct, to_arrays
from shoal.nn.actor_critic import Carry
from shoal.nn.memory import MEMORIES
from shoal.rollouts.evaluate import evaluate
from shoal.training import checkpoint
from shoal.training.placement import is_key

DISCOUNT = 0.9
QUICK = {
    "learning_rate": 1e-2,
    "discount": DISCOUNT,
    "gae_lambda": 1.0,
    "max_grad_norm": 100.0,
    "horizon": 200 * 160,
    "num_envs": 8,
    "num_steps": 20,
    "hidden": (16,),
    "entropy_coef": 0.0,
    "value_loss": "squared",
}
CELLS = ["lstm", "gru"]  # of tests that train


def bound(env, **fields):
    env = make(env) if isinstance(env, str) else env
    size = {"memory_size": 16} if "memory" in fields else {}
    return to_arrays(PPO(**{**QUICK, **size, **fields}).bind(env)), to_arrays(env)


def learn(agent, env, updates=200):
    """The state after some updates, and the largest of each loss."""

    def update(i, loop):
        state, metrics = agent.update(loop[0], env, i)
        return state, jax.tree.map(jnp.maximum, loop[1], metrics.losses)

    @jax.jit
    def train(key):
        state = agent.init(key, env)
        losses = jax.eval_shape(agent.update, state, env, jnp.int32(0))[1].losses
        return jax.lax.fori_loop(0, updates, update, (state, jax.tree.map(lambda x: jnp.zeros(x.shape), losses)))

    return train(make_key(0))


def values_along(agent, state, observations):
    """The values of one episode, computed observation by observation."""
    is_first = np.arange(len(observations))[:, None] == 0
    carry = agent._nets.initial_carry((1,))
    values = jax.jit(lambda obs, is_first: agent._nets.values(state.weights, obs, is_first, carry)[0])
    return np.asarray(values(np.asarray(observations, np.float32)[:, None], is_first)[:, 0])


@struct
class TossState(State):
    """A fair coin."""

    sign: jax.Array


@struct
class Dividends(Env):
    """A coin toss, shown in the first observation only, is the reward of every step: values need the recurrent carry.

    With `debts_end` the time limit truncates episodes with reward +1, and terminates episodes with reward -1.
    """

    max_steps: Number | None = 3
    debts_end: bool = static(False)

    @property
    def observation_space(self):
        return Box(-1.0, 1.0, (1,))

    @property
    def action_space(self):
        return Discrete(2)

    def init(self, key):
        return TossState(jnp.int32(0), jnp.where(jax.random.bernoulli(key), 1.0, -1.0))

    def transition(self, state, action, noise):
        is_over = (state.sign < 0) & (state.time == 3) if self.debts_end else jnp.bool_(False)
        return state, state.sign, is_over, {}

    def observe(self, state):
        return jnp.where(state.time == 0, state.sign, 0.0)[None]


@pytest.mark.slow  # one like it is `trained` below
@pytest.mark.parametrize("memory", [*MEMORIES, "none"])
def test_only_a_recurrent_policy_solves_the_memory_probe(memory):
    agent, env = bound("Probe-Memory-v0", **({} if memory == "none" else {"memory": memory}))
    result = evaluate(agent, learn(agent, env)[0], env, make_key(1), episodes=64, horizon=5)
    assert abs(result.episode_return.mean()) < 0.5 if memory == "none" else (result.episode_return == 1).all()


@functools.cache
def trained_on_dividends(memory):
    """(agent, state, the largest of each loss) after many updates of one gradient step, so that ratios are those of
    the policy that acted. Episodes take 3 steps and a rollout 20, so most rollouts begin in mid-episode."""
    single = {"num_epochs": 1, "num_minibatches": 1, "horizon": 301 * 160}
    agent, env = bound(Dividends(debts_end=True), memory=memory, discount=0.7, **single)
    return agent, *learn(agent, env, 301)


@pytest.mark.sampled
@pytest.mark.parametrize("memory", CELLS)
def test_the_value_at_a_truncation_uses_the_carry_of_its_own_episode(memory):
    # Reward 1 in every step forever: 1 / (1 - 0.7) = 3.33. Without a carry, or with that of the next episode, the value
    # of a final observation would be 0 on average, and that of the start (1 - 0.7^3) / (1 - 0.7) = 2.19, as for debts.
    agent, state, _ = trained_on_dividends(memory)
    np.testing.assert_allclose(values_along(agent, state, [[1.0], [0.0], [0.0]]), 1 / 0.3, rtol=0.1)
    left = [-(1 - 0.7**n) / (1 - 0.7) for n in (3, 2, 1)]
    np.testing.assert_allclose(values_along(agent, state, [[-1.0], [0.0], [0.0]]), left, rtol=0.1)


@pytest.mark.sampled
@pytest.mark.parametrize("memory", CELLS)
def test_first_epoch_ratios_are_one_also_in_mid_episode(memory):
    agent, state, losses = trained_on_dividends(memory)
    assert losses["approx_kl"] < 1e-6 and losses["clip_fraction"] == 0
    assert not (state.env_states.state.time == 0).all() and np.abs(jax.tree.leaves(state.carry.actor)[0]).max() > 0.1


@pytest.mark.slow
def test_the_value_after_a_termination_is_zero():
    agent, env = bound("Probe-Termination-v0", memory="gru")
    values = values_along(agent, learn(agent, env)[0], [[t / 5] for t in range(5)])
    np.testing.assert_allclose(values, [(1 - DISCOUNT ** (5 - t)) / (1 - DISCOUNT) for t in range(5)], atol=0.2)


@functools.cache
def walker(memory, shared):
    """(agent, a first state, the function that rolls out): 4 environments, 8 steps of episodes of 3.

    The function gives the state after the rollout, with the weights of before, its trajectory, and the values of its
    observations and of what followed each.
    """
    agent, env = bound(Dividends(), memory=memory, shared=shared, num_envs=4, num_steps=8)

    @jax.jit
    def begin(key):
        state = agent.init(key, env)
        weights = jax.tree.map(lambda x: x + 0.5 * jax.random.normal(make_key(1), x.shape), state.weights)
        return state.replace(weights=weights)

    @jax.jit
    def walk(state):
        noise, behavior = agent.policy_noise(state, make_key(1)), agent.behavior(state)
        first = agent._nets.initial_carry((agent.num_envs,)).actor
        env_states, trajectory, actor = agent.rollout.collect(
            env, state.env_states, behavior, noise, make_key(2), state.carry.actor, first
        )
        value, next_value, critic = agent._values(state, trajectory)
        return state.replace(env_states=env_states, carry=Carry(actor, critic)), trajectory, value, next_value

    return agent, begin(make_key(0)), walk


@pytest.mark.parametrize(("memory", "shared"), [("gru", False), ("lstm", True), ("lru", False), ("gtrxl", True)])
def test_successor_values_equal_those_of_a_critic_stepped_in_time(memory, shared):
    agent, state, walk = walker(memory, shared)
    before = walk(state)[0]  # in mid-episode, with a nonzero carry
    after, trajectory, value, next_value = jax.tree.map(to_host, walk(before))
    nets, cell, weights = agent._nets, agent._nets.memory, before.weights
    name = "actor" if shared else "critic"
    assert trajectory.truncated.any(axis=0).all() and not trajectory.is_first[0].any()

    @jax.jit
    def seen(obs, carry):
        hidden = nets.torso.apply(weights[name], obs)
        output, carry = cell.step(weights["memory"][name], hidden, carry)
        return nets._value_head(weights, output), carry

    for e in range(4):
        carry = jax.tree.map(lambda x, e=e: np.asarray(x)[e], getattr(before.carry, name))
        cuts = 0
        for t in range(8):
            here, carry = seen(trajectory.obs[t, e], carry)
            np.testing.assert_allclose(value[t, e], here, atol=1e-5)
            if trajectory.truncated[t, e]:
                expected, _ = seen(trajectory.final_obs[cuts, e], carry)
                cuts, carry = cuts + 1, cell.initial_carry()
            else:
                following = trajectory.obs[t + 1, e] if t < 7 else trajectory.last_obs[e]
                expected, _ = seen(following, carry)
            np.testing.assert_allclose(next_value[t, e], expected, atol=1e-5)
        if not shared and not trajectory.truncated[7, e]:
            for ours, theirs in zip(jax.tree.leaves(after.carry.critic), jax.tree.leaves(carry), strict=True):
                np.testing.assert_allclose(ours[e], theirs, atol=1e-5)


def to_host(x):
    return x if is_key(x) else np.asarray(x)


@pytest.mark.parametrize(("start", "at_the_end"), [(1, True), (0, False)])  # 8 steps of episodes of 3 steps
def test_the_carry_is_reset_only_where_an_episode_begins(start, at_the_end):
    _, state, walk = walker("gru", shared=False)
    first = state.env_states.state.replace(time=jnp.full(4, start, jnp.int32))
    after, trajectory, _, _ = walk(state.replace(env_states=state.env_states.replace(state=first)))
    assert (after.env_states.state.time == 0).all() == trajectory.done[-1].all() == at_the_end
    np.testing.assert_array_equal((np.asarray(after.carry.actor) == 0).all(axis=1), at_the_end)


def test_minibatches_hold_whole_environments_with_their_first_carry():
    agent, _ = bound("Probe-Memory-v0", memory="gru", num_envs=6, num_steps=4, num_minibatches=3)
    time, env = np.meshgrid(np.arange(4), np.arange(6), indexing="ij")
    columns = {name: jnp.asarray(time.ravel(), jnp.float32) for name in ("log_prob", "value", "advantage", "target")}
    samples = Batch(obs=env.ravel(), mask=None, action=env.ravel(), **columns)
    carry = Carry(actor=np.arange(6))
    choose = jax.jit(agent._minibatch)
    seen = []
    for index in np.asarray(jax.jit(agent._minibatch_indices)(make_key(0))):
        rows, held = choose(samples, carry, index)
        np.testing.assert_array_equal(rows.value, np.arange(4.0)[:, None].repeat(2, 1))
        np.testing.assert_array_equal(rows.obs, np.tile(held.actor, (4, 1)))
        seen += held.actor.tolist()
    assert sorted(seen) == sorted([*range(6)] * agent.num_epochs)


def test_without_memory_there_is_no_recurrent_carry():
    agent, env = bound("CartPole-v1")
    state = jax.eval_shape(agent.init, make_key(0), env)
    assert jax.tree.leaves(state.carry) == [] and "memory" not in state.weights and agent.initial_carry() is None


@pytest.mark.parametrize("shuffle", ["arithmetic", "exact"])
def test_shuffling_steps_is_refused(shuffle):
    with pytest.raises(ValueError, match=f"shuffle='{shuffle}' mixes the steps of episodes, .* use shuffle='envs'"):
        bound("Probe-Memory-v0", memory="gru", shuffle=shuffle)
    assert bound("Probe-Memory-v0", memory="gru")[0].shuffle == "envs"


def test_environments_must_divide_into_minibatches():
    with pytest.raises(ValueError, match="8 environments to shuffle, .*num_minibatches=3 does not divide. Try 2 or 4"):
        bound("Probe-Memory-v0", memory="gru", num_minibatches=3)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two recurrent members with normalized observations, trained on the memory probe."""
    with jax.numpy_dtype_promotion("standard"):
        return shoal.train(
            PPO(**QUICK, memory="gru", memory_size=16, shared=True, normalize_observation=True),
            "Probe-Memory-v0",
            steps=16_000,
            seeds=2,
            folder=tmp_path_factory.mktemp("runs") / "run",
            figures=False,
            progress=False,
            evaluations=0,
        )


def test_a_loaded_policy_keeps_its_carry_until_it_is_reset(trained):
    policy = shoal.load(trained.folder, member=0)
    for toss in (1.0, -1.0, -1.0, 1.0):
        policy.reset()
        for obs in ([toss, 0.0], [0.0, 0.0], [0.0, 1.0]):
            action = policy(np.asarray(obs, np.float32))
        assert action == (toss > 0)


def test_a_loaded_policy_keeps_one_carry_for_each_observation_of_a_batch(trained):
    policy, toss = shoal.load(trained.folder, member=0), np.asarray([1.0, -1.0, -1.0], np.float32)
    for obs in ((toss, 0 * toss), (0 * toss, 0 * toss), (0 * toss, 0 * toss + 1)):
        action = policy(np.stack(obs, axis=1))
    np.testing.assert_array_equal(action, toss > 0)


def test_shoal_rollout_resets_the_carry_at_the_end_of_each_episode(trained):
    played = shoal.rollout(trained.policies, num_steps=60, num_envs=8, greedy=True)
    assert played["episodes"].return_min.min() == 1.0


def test_a_resumed_run_ends_with_the_same_bits(trained, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(trained.folder, again)
    shutil.rmtree(checkpoint.newest(again / "checkpoints"))
    shoal.train(resume=again, figures=False, progress=False)
    ended, expected = (np.load(checkpoint.newest(f / "checkpoints") / "learners.npz") for f in (again, trained.folder))
    assert all(any(part in name for name in expected.files) for part in ("carry", "obs_stats"))
    for name in expected.files:
        np.testing.assert_array_equal(ended[name], expected[name], err_msg=name)
