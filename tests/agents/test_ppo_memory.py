"""PPO with memory: what is remembered, what is forgotten and when, and what time limits are worth."""

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
from shoal.core.struct import Number, struct, to_arrays
from shoal.rollouts.evaluate import evaluate
from shoal.training import checkpoint

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
CELLS = ["lstm", "gru"]


def bound(env, **fields):
    env = make(env) if isinstance(env, str) else env
    size = {"memory_size": 16} if "memory" in fields else {}
    return to_arrays(PPO(**{**QUICK, **size, **fields}).bind(env)), to_arrays(env)


def learn(agent, env, updates=200):
    @jax.jit
    def train(key):
        state = agent.init(key, env)
        return jax.lax.fori_loop(0, updates, lambda i, s: agent.update(s, env, i)[0], state)

    return train(make_key(0))


def values_along(agent, state, observations):
    """What the critic says of one episode, observation by observation."""
    obs = jnp.asarray(observations, jnp.float32)[:, None]
    is_first = jnp.arange(len(observations))[:, None] == 0
    return np.asarray(agent._nets.values(state.weights, obs, is_first, agent._nets.initial_carry((1,)))[0][:, 0])


@struct
class TossState(State):
    """A fair coin."""

    sign: jax.Array


@struct
class Dividends(Env):
    """A toss shown at the start only, paid in every step: what the future is worth is known from memory alone."""

    max_steps: Number | None = 3

    @property
    def observation_space(self):
        return Box(-1.0, 1.0, (1,))

    @property
    def action_space(self):
        return Discrete(2)

    def init(self, key):
        return TossState(jnp.int32(0), jnp.where(jax.random.bernoulli(key), 1.0, -1.0))

    def transition(self, state, action, noise):
        return state, state.sign, jnp.bool_(False), {}

    def observe(self, state):
        return jnp.where(state.time == 0, state.sign, 0.0)[None]


@pytest.mark.sampled
@pytest.mark.parametrize("memory", CELLS)
def test_memory_answers_what_was_shown_before(memory):
    agent, env = bound("Probe-Memory-v0", memory=memory)
    result = evaluate(agent, learn(agent, env), env, make_key(1), episodes=64, horizon=5)
    np.testing.assert_array_equal(result.episode_return, 1.0)


def test_without_memory_the_answer_is_a_guess():
    agent, env = bound("Probe-Memory-v0")
    result = evaluate(agent, learn(agent, env), env, make_key(1), episodes=64, horizon=5)
    assert abs(result.episode_return.mean()) < 0.5


@pytest.mark.sampled
@pytest.mark.parametrize("memory", CELLS)
def test_a_time_limit_is_valued_with_the_memory_of_its_own_episode(memory):
    # 1 in every step for ever: 1 / (1 - 0.9) = 10. A final observation valued without its memory, or with that of the
    # next episode, would be worth 0 on average, and the start (1 - 0.9^3) / (1 - 0.9) = 2.71.
    agent, env = bound(Dividends(), memory=memory)
    state = learn(agent, env)
    for sign in (1.0, -1.0):
        np.testing.assert_allclose(values_along(agent, state, [[sign], [0.0], [0.0]]), 10.0 * sign, rtol=0.1)


def test_a_termination_is_worth_nothing_more():
    agent, env = bound("Probe-Termination-v0", memory="gru")
    values = values_along(agent, learn(agent, env), [[t / 5] for t in range(5)])
    np.testing.assert_allclose(values, [(1 - DISCOUNT ** (5 - t)) / (1 - DISCOUNT) for t in range(5)], atol=0.2)


@pytest.mark.parametrize(("memory", "shared"), [("gru", False), ("lstm", True)])
def test_successors_are_valued_as_by_one_critic_that_walks_along(memory, shared):
    agent, env = bound(Dividends(), memory=memory, shared=shared, num_envs=4, num_steps=8)
    state = learn(agent, env, updates=2)  # 16 steps: the next rollout begins in mid-episode, with something to remember
    weights = jax.tree.map(lambda x: x + 0.5 * jax.random.normal(make_key(1), x.shape), state.weights)
    state = state.replace(weights=weights)
    trajectory = rolled(agent, env, state)[1]
    value, next_value, after = jax.jit(agent._values)(state, trajectory)
    nets, cell = agent._nets, agent._nets.memory
    name = "actor" if shared else "critic"
    assert trajectory.truncated.any(axis=0).all() and not trajectory.is_first[0].any()

    @jax.jit
    def seen(obs, carry):
        hidden = nets.torso.apply(weights[name], obs)
        carry = cell.step(weights["memory"][name], hidden, carry)
        return nets._value_head(weights, cell.output(carry)), carry

    for e in range(4):
        carry = jax.tree.map(lambda x, e=e: x[e], getattr(state.carry, name))
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
            for ours, theirs in zip(jax.tree.leaves(after), jax.tree.leaves(carry), strict=True):
                np.testing.assert_allclose(ours[e], theirs, atol=1e-5)


def rolled(agent, env, state):
    """The rollout of an update: (worlds, trajectory, carry)."""
    first = agent._nets.initial_carry((agent.num_envs,)).actor

    @jax.jit
    def collect(state):
        noise, behavior = agent._noise(make_key(1)), agent._behavior(state)
        return agent.rollout.collect(env, state.worlds, behavior, noise, make_key(2), state.carry.actor, first)

    return collect(state)


@pytest.mark.sampled
@pytest.mark.parametrize("memory", CELLS)
def test_first_ratios_are_one_also_in_mid_episode(memory):
    agent, env = bound("Probe-Memory-v0", memory=memory, num_epochs=1, num_minibatches=1, num_steps=8)
    state, update = jax.jit(agent.init)(make_key(0), env), jax.jit(agent.update)
    for i in range(4):
        state, metrics = update(state, env, jnp.int32(i))
        np.testing.assert_allclose(metrics.losses["approx_kl"], 0, atol=1e-7)
        assert metrics.losses["clip_fraction"] == 0
    assert not (state.worlds.state.time == 0).all() and np.abs(jax.tree.leaves(state.carry.actor)[0]).max() > 0.1


@pytest.mark.parametrize(("num_steps", "at_the_end"), [(6, True), (7, False)])  # of episodes of 3 steps
def test_the_memory_is_empty_where_an_episode_begins_and_nowhere_else(num_steps, at_the_end):
    agent, env = bound("Probe-Memory-v0", memory="gru", num_steps=num_steps)
    worlds, trajectory, carry = rolled(agent, env, jax.jit(agent.init)(make_key(0), env))
    assert (worlds.state.time == 0).all() == trajectory.done[-1].all() == at_the_end
    np.testing.assert_array_equal((np.asarray(carry) == 0).all(axis=1), at_the_end)


def test_minibatches_hold_whole_environments_with_the_memory_they_began_with():
    agent, _ = bound("Probe-Memory-v0", memory="gru", num_envs=6, num_steps=4, num_minibatches=3)
    time, env = np.meshgrid(np.arange(4), np.arange(6), indexing="ij")
    columns = {name: jnp.asarray(time.ravel(), jnp.float32) for name in ("log_prob", "value", "advantage", "target")}
    samples = Batch(obs=jnp.asarray(env.ravel()), mask=None, action=jnp.asarray(env.ravel()), **columns)
    carry = agent._nets.initial_carry((6,))._replace(actor=jnp.arange(6))
    seen = []
    for index in agent._minibatches(make_key(0)):
        rows, held = agent._choose(samples, carry, index)
        np.testing.assert_array_equal(rows.value, np.arange(4.0)[:, None].repeat(2, 1))
        np.testing.assert_array_equal(rows.obs, np.tile(held.actor, (4, 1)))
        seen += held.actor.tolist()
    assert sorted(seen) == sorted([*range(6)] * agent.num_epochs)


def test_without_memory_nothing_is_carried():
    agent, env = bound("CartPole-v1")
    state = agent.init(make_key(0), env)
    assert jax.tree.leaves(state.carry) == [] and "memory" not in state.weights and agent.initial_carry() is None


@pytest.mark.parametrize("shuffle", ["arithmetic", "exact"])
def test_shuffling_steps_is_refused(shuffle):
    with pytest.raises(ValueError, match=f"shuffle='{shuffle}' tears episodes apart, .* say shuffle='envs'"):
        bound("Probe-Memory-v0", memory="gru", shuffle=shuffle)
    assert bound("Probe-Memory-v0", memory="gru")[0].shuffle == "envs"


def test_environments_must_divide_into_minibatches():
    with pytest.raises(ValueError, match="8 environments to shuffle, .*num_minibatches=3 does not divide. Try 2 or 4"):
        bound("Probe-Memory-v0", memory="gru", num_minibatches=3)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two members with memory, trained on the memory probe."""
    with jax.numpy_dtype_promotion("standard"):
        return shoal.train(
            PPO(**QUICK, memory="gru"),
            "Probe-Memory-v0",
            steps=16_000,
            seeds=2,
            folder=tmp_path_factory.mktemp("runs") / "run",
            figures=False,
            progress=False,
        )


def test_a_loaded_policy_remembers_until_it_is_reset(trained):
    policy = shoal.load(trained.folder)
    for toss in (1.0, -1.0, -1.0, 1.0):
        policy.reset()
        for obs in ([toss, 0.0], [0.0, 0.0], [0.0, 1.0]):
            action = policy(np.asarray(obs, np.float32))
        assert action == (toss > 0)


def test_a_loaded_policy_remembers_for_each_of_a_batch(trained):
    policy, toss = shoal.load(trained.folder), np.asarray([1.0, -1.0, -1.0], np.float32)
    for obs in ((toss, 0 * toss), (0 * toss, 0 * toss), (0 * toss, 0 * toss + 1)):
        action = policy(np.stack(obs, axis=1))
    np.testing.assert_array_equal(action, toss > 0)


def test_playing_on_forgets_at_the_end_of_each_episode(trained):
    played = shoal.rollout(trained.policies, num_steps=60, num_envs=8, greedy=True)
    assert played["episodes"].return_min.min() == 1.0


def test_a_resumed_run_ends_with_the_same_bits(trained, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(trained.folder, again)
    shutil.rmtree(checkpoint.newest(again / "checkpoints"))
    shoal.train(resume=again, figures=False, progress=False)
    ended, expected = (np.load(checkpoint.newest(f / "checkpoints") / "learners.npz") for f in (again, trained.folder))
    assert any("carry" in name for name in expected.files)
    for name in expected.files:
        np.testing.assert_array_equal(ended[name], expected[name], err_msg=name)
