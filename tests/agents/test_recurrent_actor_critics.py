"""SAC, TD3 and their relatives with a memory: losses against NumPy, carries, gradients, and a task to remember."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float
from scipy import stats

from environments import Tally
from sequences_by_hand import NumpyGRU, dense, filled, index_of, joined
from shoal.core.env import Env, State
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.spaces import Box
from shoal.core.struct import struct, to_arrays
from shoal.envs.classic.pendulum import Pendulum
from shoal.nn.distributions import sample_noise
from shoal.rollouts.checks import check_agent
from shoal.rollouts.evaluate import evaluate
from weights import random_weights

ENVS, AT_ONCE, DISCOUNT, ALPHA = 2, 4, 0.9, 0.3
SMALL = {
    "hidden": (6,), "memory": "gru", "memory_size": 5, "num_envs": ENVS, "num_steps": AT_ONCE, "discount": DISCOUNT,
    "buffer_size": 48, "batch_size": 3, "sequence_length": 4, "burn_in": 3,
}  # fmt: skip
SEQUENCES = [(0, 0), (4, 1), (12, 0), (20, 1)]  # first row and environment; the last one goes round the ring
WEIGHT = np.array([0.4, 0.3, 0.2, 0.1])
BOXED = ("sac", "td3", "tqc", "crossq")


def bound(name="sac", env=None, **fields):
    env = Pendulum(max_steps=6) if env is None else env
    return to_arrays(AGENTS[name].build(**{**SMALL, **fields}).bind(env)), to_arrays(env)


def drawn_learner(agent):
    """A learner with random weights of a size at which outputs differ; its target weights differ too."""
    obs, action = (jnp.zeros((n, *space.shape)) for n, space in ((1, agent.observation_space), (1, agent.action_space)))
    shapes = jax.eval_shape(agent.init_learner, make_key(0), obs, action[0])
    learner, names = random_weights(shapes, deviation=0), {"weights", "actor", "critics", "target"}
    parts = {n: random_weights(x, seed=i) for i, (n, x) in enumerate(vars(shapes).items()) if n in names}
    return learner.replace(**parts, **({"log_alpha": jnp.log(ALPHA)} if "log_alpha" in vars(shapes) else {}))


def networks_of(learner):
    """(actor, critics, the actor whose actions targets value, target critics)."""
    if hasattr(learner, "weights"):
        return learner.weights.actor, learner.weights.critics, learner.target.actor, learner.target.critics
    return learner.actor, learner.critics, learner.actor, learner.target


def sampled(agent):
    """(a buffer, samples of sequences in it, the weight of each sample)."""
    replay = filled(agent, agent._first_carries(()))
    batch = agent._take(replay, index_of(agent, SEQUENCES))
    return replay, batch, agent._weight_of_steps(jnp.asarray(WEIGHT, jnp.float32))


class NumpyActor(NumpyGRU):
    """The squashed mean of a policy, and the action and the log-density of noise."""

    def greedy(self, hidden):
        return np.tanh(dense(self.weights["head"], hidden))

    def draw(self, hidden, noise):
        mean, spread = np.split(dense(self.weights["head"], hidden), 2)
        std = np.exp(-5 + 3.5 * (np.tanh(spread) + 1))
        u = mean + std * noise
        return np.tanh(u), (stats.norm.logpdf(u, mean, std) - np.log(1 - np.tanh(u) ** 2)).sum()


class NumpyCritic(NumpyGRU):
    """One critic, which reads the action behind its memory."""

    def q_value(self, hidden, action):
        joint = dense(self.weights["joint"]["params"]["Dense_0"], np.concatenate([hidden, action]))
        return dense(self.weights["head"], np.maximum(joint, 0))[0]


def critics_of(weights, count=2):
    return [NumpyCritic(jax.tree.map(lambda x, k=k: x[k], weights)) for k in range(count)]


def numpy_errors(agent, learner, replay, noise, start, env):
    """The errors [L, K] of the critics in the steps of one sequence, by a loop over them. `noise` is [L, n]."""
    replay, rows = jax.tree.map(np.asarray, replay), agent.burn_in + agent.sequence_length + agent.n_step - 1
    _, critics, actor, target = networks_of(learner)
    critics, actor, target = critics_of(critics), NumpyActor(actor), critics_of(target)
    of_actor = actor.read(replay, replay.carry.actor, start, env, rows)
    of_critics, of_target = (
        [c.read(replay, replay.carry.critic[:, :, k], start, env, rows) for k, c in enumerate(each)]
        for each in (critics, target)
    )
    errors = []
    for i in range(agent.burn_in, agent.burn_in + agent.sequence_length):
        total, factor, k, after = joined(replay, start + i, env, agent.n_step, DISCOUNT)
        hidden, own_noise = actor.step(after, of_actor[i + k]), np.asarray(noise[i - agent.burn_in], np.float64)
        if hasattr(agent, "target_noise"):
            action, bonus = np.clip(actor.greedy(hidden) + np.clip(0.2 * own_noise, -0.5, 0.5), -1, 1), 0.0
        else:
            action, log_prob = actor.draw(hidden, own_noise)
            bonus = -ALPHA * log_prob
        later = min(c.q_value(c.step(after, of_target[j][i + k]), action) for j, c in enumerate(target))
        taken = replay.action[(start + i) % replay.rows, env] / 2  # in the units of the box
        value = np.array([c.q_value(of_critics[j][i], taken) for j, c in enumerate(critics)])
        errors.append(value - total - factor * (later + bonus))
    return np.array(errors)


@pytest.mark.parametrize(("name", "n_step", "burn_in"), [("sac", 1, 3), ("sac", 3, 0), ("td3", 3, 3)])
def test_the_critics_loss_equals_a_numpy_version(name, n_step, burn_in):
    agent, env = bound(name, n_step=n_step, burn_in=burn_in, learning_rate=0.0)
    learner, (replay, batch, weight) = drawn_learner(agent), sampled(agent)
    assert np.asarray(batch.history.is_first)[burn_in + 1 :].any()  # an episode begins within the steps to learn from
    _, losses, error = jax.jit(type(agent)._learn_critics)(agent, learner, batch, weight, make_key(3))
    noise = np.asarray(sample_noise(env.action_space, make_key(3), (16,))).reshape(4, 4, -1)  # [L, B, n]
    expected = np.stack(
        [numpy_errors(agent, learner, replay, noise[:, b], *which) for b, which in enumerate(SEQUENCES)]
    )  # [B, L, K]
    mean = np.abs(expected).mean(axis=2)
    np.testing.assert_allclose(np.asarray(error).reshape(4, 4).T, mean, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(losses["loss"], WEIGHT @ (expected**2).sum(axis=2).mean(axis=1), rtol=1e-3)
    np.testing.assert_allclose(losses["td_error"], WEIGHT @ mean.mean(axis=1), rtol=1e-3)


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_the_policy_gradient_equals_finite_differences_of_a_numpy_version(name):
    agent, env = bound(name, policy_delay=1.0, policy_learning_rate=1e-3)
    learner, (replay, batch, weight) = drawn_learner(agent), sampled(agent)
    learner = learner.replace(critic_moments=learner.critic_moments._replace(count=jnp.int32(1)))
    keys = () if name == "td3" else (make_key(4),)
    after = jax.jit(type(agent)._learn_policy)(agent, learner, batch, weight, *keys)
    noise = np.asarray(sample_noise(env.action_space, jax.random.fold_in(make_key(4), 0), (16,))).reshape(4, 4, -1)
    actor, critics, *_ = networks_of(learner)
    rows, numpy_replay = agent.burn_in + agent.sequence_length, jax.tree.map(np.asarray, replay)

    def loss(weights):
        policy, total = NumpyActor(weights), 0.0
        for b, which in enumerate(SEQUENCES):
            of_actor = policy.read(numpy_replay, numpy_replay.carry.actor, *which, rows)
            read = [
                c.read(numpy_replay, numpy_replay.carry.critic[:, :, k], *which, rows)
                for k, c in enumerate(critics_of(critics))
            ]
            for i in range(agent.burn_in, rows):
                q_value = lambda k, action, i=i, read=read: critics_of(critics)[k].q_value(read[k][i], action)  # noqa: E731
                if name == "td3":
                    value = q_value(0, policy.greedy(of_actor[i]))
                else:
                    action, log_prob = policy.draw(of_actor[i], noise[i - agent.burn_in, b])
                    value = min(q_value(0, action), q_value(1, action)) - ALPHA * log_prob
                total -= WEIGHT[b] * value / agent.sequence_length
        return total

    # Adam's first step goes against the sign of the slope.
    bias = np.asarray(actor["head"]["bias"], np.float64)
    ends = [
        loss({**actor, "head": {**actor["head"], "bias": bias + nudge * np.eye(len(bias))[0]}})
        for nudge in (1e-5, -1e-5)
    ]
    moved = np.asarray(networks_of(after)[0]["head"]["bias"]) - bias
    np.testing.assert_allclose(moved[0], -1e-3 * np.sign(ends[0] - ends[1]), rtol=1e-3)
    recurrent = np.asarray(networks_of(after)[0]["memory"]["recurrent"] - actor["memory"]["recurrent"])
    assert (recurrent != 0).all()


def losses_of(agent, learner, batch, weight):
    """The critics' loss, as a function of their weights, and the mean Q-value of the policy, of the actor's."""
    actor, critics, *_ = networks_of(learner)

    def of_critics(weights, batch):
        seen = agent.critics_batch(weights, batch).observed
        return jnp.sum(weight[None] * agent._critics(weights, seen.obs, batch.action / 2) ** 2)

    def of_policy(weights, batch):
        return jnp.sum(weight[:, None] * agent._actor(weights, agent.policy_batch(weights, batch).observed.obs) ** 2)

    return {"critics": (of_critics, critics), "policy": (of_policy, actor)}


@pytest.mark.parametrize("part", ["critics", "policy"])
def test_no_gradient_flows_through_the_burn_in(part):
    agent, _ = bound()
    without, _ = bound(burn_in=0)
    learner, (_, batch, weight) = drawn_learner(agent), sampled(agent)
    history = batch.history
    torso = agent._recurrent_torso

    def gradient(agent, history):
        loss, weights = losses_of(agent, learner, batch, weight)[part]

        def of(weights, carry, obs):
            read = history.replace(carry=carry, observed=history.observed.replace(obs=obs))
            return loss(weights, batch.replace(history=read))

        return jax.jit(jax.grad(of, argnums=(0, 1, 2)))(weights, history.carry, history.observed.obs)

    of_weights, of_carry, of_obs = gradient(agent, history)
    jax.tree.map(lambda x: np.testing.assert_array_equal(x, 0), of_carry)
    np.testing.assert_array_equal(of_obs[:3], 0)
    assert np.abs(of_obs[3:]).max() > 1e-4

    # The same as beginning after the burn-in with the carries that it gives.
    def after(weights, carry):
        return torso.unroll(weights, history.observed.obs[:3], history.is_first[:3], carry)[1][-1]

    actor, critics, *_ = networks_of(learner)
    carry = history.carry._replace(
        actor=after(actor, history.carry.actor),
        critic=jax.vmap(after, in_axes=(0, 1), out_axes=1)(critics, history.carry.critic),
    )
    rest = history.replace(
        observed=jax.tree.map(lambda x: x[3:], history.observed), is_first=history.is_first[3:], carry=carry,
        last=history.last - 3,
    )  # fmt: skip
    expected, of_carry, _ = gradient(without, rest)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), of_weights, expected)
    assert max(np.abs(x).max() for x in jax.tree.leaves(of_carry)) > 1e-4


@pytest.mark.parametrize("part", ["critics", "policy"])
def test_no_gradient_flows_over_the_end_of_an_episode(part):
    agent, _ = bound(burn_in=0)
    learner, (_, batch, _) = drawn_learner(agent), sampled(agent)
    is_first = np.zeros((4, 4), bool)
    is_first[2, :2] = True  # in two of four sequences an episode begins with the third row
    history = batch.history.replace(is_first=jnp.asarray(is_first))
    of_third = jnp.asarray(np.repeat([0, 0, 1, 0], 4), jnp.float32)
    loss, weights = losses_of(agent, learner, batch, of_third)[part]

    def of(obs, carry):
        read = history.replace(carry=carry, observed=history.observed.replace(obs=obs))
        return loss(weights, batch.replace(history=read))

    of_obs, of_carry = jax.jit(jax.grad(of, argnums=(0, 1)))(history.observed.obs, history.carry)
    of_obs, of_carry = np.asarray(of_obs), getattr(of_carry, "actor" if part == "policy" else "critic")
    np.testing.assert_array_equal(of_obs[:2, :2], 0)
    np.testing.assert_array_equal(of_carry[:2], 0)
    assert (np.abs(of_obs[:2, 2:]).max(axis=-1) > 0).all() and np.abs(of_carry[2:]).max() > 0


@pytest.mark.parametrize(
    ("name", "memory"), [("sac", "gru"), ("td3", "gtrxl"), pytest.param("crossq", "lstm", marks=pytest.mark.slow)]
)
def test_the_stored_carries_are_those_of_acting_and_of_critics_that_read_along(name, memory):
    # Episodes end after 6, 12 and 18 steps: within a rollout of 4 steps, and with the last step of one.
    sizes = {"memory": memory, "memory_size": 8, "learning_starts": 1e6, "buffer_size": 48}
    agent, env = bound(name, **sizes)
    torso = agent._recurrent_torso

    @jax.jit
    def played(key):
        state = jax.lax.fori_loop(0, 6, lambda i, s: agent.update(s, env, i)[0], agent.init(key, env))
        replay = state.replay
        done = replay.terminated | replay.truncated
        is_first = jnp.concatenate([jnp.ones_like(done[:1]), done[:-1]])
        policy = agent.policy_state(state)
        start = torso.initial_carry((ENVS,))
        read = lambda weights: torso.unroll(weights, replay.observed.obs, is_first, start)[1]  # noqa: E731
        return state, is_first, read(policy.actor), jax.vmap(read)(policy.critics)

    state, is_first, of_actor, of_critics = played(make_key(0))
    rows = np.arange(AT_ONCE, 24, AT_ONCE)  # those with which the second to the sixth rollout began
    initial, begins = agent.initial_carry(), np.asarray(is_first)[rows]
    assert begins.any() and not begins.all() and np.asarray(is_first)[1:].sum() > begins.sum()

    def compare(stored, read, initial):
        fresh = begins.reshape(begins.shape + (1,) * (read.ndim - 2))
        expected = np.where(fresh, np.asarray(initial), np.asarray(read)[rows - 1])
        np.testing.assert_allclose(stored[1:], expected, rtol=1e-4, atol=1e-5)

    jax.tree.map(compare, state.replay.carry.actor, of_actor, initial)
    by_critic = jax.tree.map(lambda x: np.moveaxis(x, 2, 0), state.replay.carry.critic)
    for k in range(2):
        jax.tree.map(
            lambda stored, read, first, k=k: compare(stored[k], read[k], first), by_critic, of_critics, initial
        )


def test_greedy_actions_step_by_step_equal_those_of_a_whole_sequence():
    agent, env = bound()
    learner = drawn_learner(agent)
    state = jax.jit(lambda key: agent.init(key, env))(make_key(0)).replace(learner=learner)
    obs = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    act = jax.jit(lambda obs, carry, key: agent.act(state, obs, carry, key, True))
    carry, actor = agent.initial_carry(), NumpyActor(learner.actor)
    hidden = np.zeros(5)
    for t in range(7):
        action, carry = act(obs[t], carry, make_key(t))
        hidden = actor.step(obs[t].astype(np.float64), hidden)
        np.testing.assert_allclose(action, 2 * actor.greedy(hidden)[:1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(carry, hidden, rtol=1e-4, atol=1e-5)


MANY = {
    "sac, lstm, discrete with masks": ("sac", Tally(), {"memory": "lstm", "n_step": 3, "prioritized": True}),
    "td3, mingru, normalized": ("td3", None, {"memory": "mingru", "normalize_observation": True, "policy_delay": 1.0}),
    "redq, gru": ("redq", None, {"num_critics": 3, "train_iterations": 2.0, "policy_delay": 2.0}),
    "droq, gru": ("droq", None, {"dropout": 0.2, "train_iterations": 2.0, "policy_delay": 2.0}),
    "fasttd3, gru": ("fasttd3", None, {"train_iterations": 1.0}),
    "tqc, lru": ("tqc", None, {"memory": "lru", "quantiles": 3, "dropped": 1.0}),
    "crossq, gtrxl": ("crossq", None, {"memory": "gtrxl", "memory_size": 4, "memory_window": 3, "burn_in": 0}),
}  # fmt: skip


@pytest.mark.parametrize("case", MANY)
@pytest.mark.sampled(2)
def test_a_recurrent_agent_keeps_the_contract(case):
    name, env, fields = MANY[case]
    fields = {**SMALL, "learning_starts": 8, "train_frequency": 8, "buffer_size": 96, **fields}
    check_agent(AGENTS[name].build(**fields), Pendulum(max_steps=6) if env is None else env)


@struct
class RecallState(State):
    """The number to recall."""

    cue: Float[Array, ""]


@struct
class Recall(Env):
    """A number, 1 or -1, is shown at the start only; two steps later the action must be half of it.

    The reward of the last step is 1 - (action - number / 2)^2. Without memory the best action is 0: 0.75.
    """

    @property
    def observation_space(self):
        return Box((-1.0, 0.0), (1.0, 1.0), (2,))

    @property
    def action_space(self):
        return Box(-1.0, 1.0, (1,))

    def init(self, key):
        return RecallState(jnp.int32(0), jnp.where(jax.random.bernoulli(key), 1.0, -1.0))

    def transition(self, state, action, noise):
        is_last: Bool[Array, ""] = state.time > 2
        return state, jnp.where(is_last, 1 - (action[0] - state.cue / 2) ** 2, 0.0), is_last, {}

    def observe(self, state):
        return jnp.stack([jnp.where(state.time == 0, state.cue, 0.0), (state.time >= 2).astype(jnp.float32)])


PROBE = {
    "learning_rate": 3e-3, "policy_learning_rate": 3e-3, "discount": 0.9, "batch_size": 16, "buffer_size": 2000,
    "learning_starts": 100, "train_frequency": 10, "num_envs": 4, "num_steps": 10, "hidden": (16,),
    "memory_size": 16, "sequence_length": 10, "burn_in": 5,
}  # fmt: skip
SOFT = {"temperature": "fixed", "alpha": 0.003}


def played_best(name, env, memory, updates=200):
    unused = () if memory != "none" else ("memory_size", "sequence_length", "burn_in")
    fields = {field: value for field, value in PROBE.items() if field not in unused}
    soft = SOFT if name != "td3" else {"exploration_noise": 0.3, "target_noise": 0.0}
    mix = {} if name == "crossq" else {"target_mix": 0.05}
    agent = to_arrays(AGENTS[name].build(**fields, **soft, **mix, memory=memory).bind(env))
    env = to_arrays(env)
    train = jax.jit(
        lambda key: jax.lax.fori_loop(0, updates, lambda i, s: agent.update(s, env, i)[0], agent.init(key, env))
    )
    return evaluate(agent, train(make_key(0)), env, make_key(1), episodes=64, horizon=5).episode_return


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("sac", "none"),
        ("sac", "gru"),
        ("td3", "gru"),
        *[pytest.param(n, "gru", marks=pytest.mark.slow) for n in ("tqc", "crossq")],
    ],
)
def test_only_a_recurrent_network_recalls_a_number(name, memory):
    found = played_best(name, Recall(), memory).mean()
    assert abs(found - 0.75) < 0.05 if memory == "none" else found > 0.97


def test_a_recurrent_policy_of_choices_solves_the_memory_probe():
    np.testing.assert_array_equal(played_best("sac", make("Probe-Memory-v0"), "gru"), 1.0)
