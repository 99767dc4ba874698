"""TD3: its targets and losses against NumPy, its delays by hand, DDPG as a preset, and the values it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from environments import TracedHorizon
from shoal.agents.td3 import TD3, TD3Policy
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.spaces import Box
from shoal.core.struct import static, struct, to_arrays
from shoal.envs.probes import ContinuousAction
from shoal.nn.distributions import sample_noise
from weights import random_batch, random_weights

# How the family learns the probes of the contract within seconds.
QUICK = {
    "learning_rate": 3e-3,
    "policy_learning_rate": 3e-3,
    "discount": 0.9,
    "target_mix": 0.05,
    "exploration_noise": 0.3,
    "batch_size": 64,
    "buffer_size": 4000,
    "learning_starts": 100,
    "train_frequency": 4,
    "num_envs": 4,
    "num_steps": 10,
    "hidden": (32,),
    "updates": 200,
}
CONTRACT = {"td3": QUICK, "ddpg": QUICK}
FIELDS = {key: value for key, value in QUICK.items() if key != "updates"}

# Agents are arguments, so that agents which differ only in hyperparameters share a program.
learn_critics, learn_policy = jax.jit(TD3._learn_critics), jax.jit(TD3._learn_policy)
noise_of = jax.jit(sample_noise, static_argnums=(0, 2))
begin = jax.jit(lambda agent, env: agent.init(make_key(0), env))


@jax.jit
def train(agent, env, state, updates):
    """The state after some updates from the first on."""
    return jax.lax.fori_loop(0, updates, lambda i, s: agent.update(s, env, i)[0], state)


@struct
class Bounded(ContinuousAction):
    """A probe with a configurable action box."""

    space: Box = static(Box(-1.0, 1.0, (1,)))

    @property
    def action_space(self):
        return self.space


def bound(env="Pendulum-v1", name="td3", **fields):
    env = make(env) if isinstance(env, str) else env
    agent = AGENTS[name].build(**{"hidden": (8,), "buffer_size": 200, "batch_size": 16, **fields}).bind(env)
    return to_arrays(agent), to_arrays(env)


def untrained_learner(agent):
    """An untrained learner whose target weights differ from its weights."""
    obs, action = (jnp.zeros((n, *space.shape)) for n, space in ((1, agent.observation_space), (1, agent.action_space)))
    shapes = jax.eval_shape(agent.init_learner, make_key(0), obs, action[0])
    learner = random_weights(shapes, deviation=0)
    return learner.replace(weights=random_weights(shapes.weights, seed=1), target=random_weights(shapes.target, seed=2))


def numpy_net(weights, x, critic=None):
    def pick(leaf):
        return np.asarray(leaf if critic is None else leaf[critic], np.float64)

    torso = weights["torso"]["params"]["Dense_0"]
    hidden = np.maximum(x @ pick(torso["kernel"]) + pick(torso["bias"]), 0)
    return hidden @ pick(weights["head"]["kernel"]) + pick(weights["head"]["bias"])


def numpy_policy(networks, obs):
    """Actions on a scale from -1 to 1."""
    return np.tanh(numpy_net(networks.actor, np.asarray(obs, np.float64)))


def numpy_q_values(networks, obs, unit):
    joined = np.concatenate([np.asarray(obs, np.float64), unit], axis=1)
    count = networks.critics["head"]["bias"].shape[0]
    return np.stack([numpy_net(networks.critics, joined, k)[:, 0] for k in range(count)])


@pytest.mark.parametrize("name", ["td3", "ddpg"])
def test_the_critics_loss_equals_a_numpy_version(name):
    agent, env = bound(name=name, learning_rate=0.0)
    learner, batch = untrained_learner(agent), random_batch()
    share = jnp.where(jnp.arange(16) < 10, 0.1, 0.0)  # an effective batch of 10
    _, losses, _ = learn_critics(agent, learner, batch, share, make_key(3))

    after = batch.next_observed.obs
    noise = np.asarray(noise_of(env.action_space, make_key(3), (16,)), np.float64)
    smoothing = np.clip(0.2 * noise, -0.5, 0.5) if name == "td3" else 0.0
    unit = np.clip(numpy_policy(learner.target, after) + smoothing, -1, 1)
    target = np.asarray(batch.reward) + np.asarray(batch.bootstrap) * numpy_q_values(learner.target, after, unit).min(
        axis=0
    )
    error = numpy_q_values(learner.weights, batch.observed.obs, np.asarray(batch.action) / 2) - target
    assert len(error) == (2 if name == "td3" else 1)
    np.testing.assert_allclose(losses["loss"], (error[:, :10] ** 2).sum(axis=0).mean(), rtol=1e-4)
    np.testing.assert_allclose(losses["td_error"], np.abs(error[:, :10]).mean(), rtol=1e-4)


def test_target_noise_is_clipped_and_actions_stay_in_the_box():
    agent, env = bound(target_noise=100.0, target_clip=0.25)
    learner, batch = untrained_learner(agent), random_batch()
    noise = jnp.ones((16, 1))
    value = jax.jit(agent._next_value)(learner.target, batch, noise)
    unit = np.minimum(numpy_policy(learner.target, batch.next_observed.obs) + 0.25, 1)
    expected = numpy_q_values(learner.target, batch.next_observed.obs, unit).min(axis=0)
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


def test_the_policy_gradient_increases_the_q_value_of_the_first_critic():
    agent, env = bound(policy_delay=1.0, policy_learning_rate=1e-3)
    learner, batch = untrained_learner(agent), random_batch()
    after, seen = learn_policy(agent, learner, batch, jnp.full(16, 1 / 16)), batch.observed

    def q_values(bias):
        head = {**learner.weights.actor["head"], "bias": bias}
        networks = learner.weights.replace(actor={**learner.weights.actor, "head": head})
        return numpy_q_values(networks, seen.obs, numpy_policy(networks, seen.obs))[0].mean()

    # Adam's first step follows the sign of the slope, which finite differences in float64 give.
    bias = np.asarray(learner.weights.actor["head"]["bias"], np.float64)
    uphill = np.sign(q_values(bias + 1e-5) - q_values(bias - 1e-5))
    moved = np.asarray(after.weights.actor["head"]["bias"]) - np.asarray(learner.weights.actor["head"]["bias"])
    np.testing.assert_allclose(moved, 1e-3 * uphill, rtol=1e-3)


@pytest.mark.parametrize(("delay", "visits"), [(1.0, [1, 2, 3, 4, 5, 6]), (3.0, [0, 0, 1, 1, 1, 2])])
def test_policy_and_targets_are_updated_every_policy_delay_critic_steps(delay, visits):
    agent, env = bound(policy_delay=delay, target_mix=0.25)
    learner, batch, share = untrained_learner(agent), random_batch(), jnp.full(16, 1 / 16)
    made = []
    for i in range(6):
        before = learner.target
        learner, _, _ = learn_critics(agent, learner, batch, share, make_key(i))
        learner = learn_policy(agent, learner, batch, share)
        moves = int(learner.actor_moments.count) > (made[-1] if made else 0)
        made.append(int(learner.actor_moments.count))
        before, now = (jax.tree.map(np.asarray, tree) for tree in (before, learner.weights))
        expected = jax.tree.map(lambda t, w, m=moves: t + 0.25 * m * (w - t), before, now)
        for got, wanted in zip(jax.tree.leaves(learner.target), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    assert made == visits


def test_actions_are_uniform_until_learning_starts_and_then_policy_plus_noise():
    slow = {"learning_rate": 0.0, "policy_learning_rate": 0.0}
    agent, env = bound(TracedHorizon(), **{**FIELDS, **slow, "learning_starts": 300.0, "exploration_noise": 0.1})
    state = begin(agent, env)
    actor = random_weights(state.learner.weights.actor, deviation=0)  # always 0
    state = state.replace(learner=state.learner.replace(weights=state.learner.weights.replace(actor=actor)))
    action = np.asarray(train(agent, env, state, 10).replay.action)[:100, :, 0]
    assert stats.kstest(action[:75].ravel(), stats.uniform(-2, 4).cdf).pvalue > 1e-3
    assert stats.kstest(action[75:].ravel(), stats.norm(0, 0.2).cdf).pvalue > 1e-3  # a tenth of half the width


def test_exploration_noise_is_added_in_training_only():
    agent, env = bound()
    weights, obs = untrained_learner(agent).weights, jnp.asarray([1.0, 0.0, 0.5])
    expected = 2 * numpy_policy(weights, obs[None])[0]
    greedy, drawn = jax.jit(lambda *x: [agent.act(*x, is_greedy)[0] for is_greedy in (True, False)])(
        TD3Policy(weights.actor, weights.critics), obs, None, make_key(1)
    )
    noise = np.asarray(noise_of(env.action_space, make_key(1), ()))
    np.testing.assert_allclose(greedy, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(drawn, np.clip(expected + 2 * 0.1 * noise, -2, 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("terminates", [False, True])
def test_a_time_limit_bootstraps_and_a_termination_does_not(terminates):
    agent, env = bound(TracedHorizon(), **FIELDS)
    if terminates:
        env = to_arrays(env.replace(max_steps=10**6, terminates_after=5))
    state = train(agent, env, begin(agent, env), 250)
    steps_left = 5 - np.arange(5)
    expected = (1 - 0.9**steps_left) / (1 - 0.9) if terminates else np.full(5, 10.0)
    values = jax.jit(TD3.value)(agent, agent.policy_state(state), np.arange(5, dtype=np.float32)[:, None] / 5)
    np.testing.assert_allclose(values, expected, rtol=0.05, atol=0.05)


def test_ddpg_is_td3_with_one_critic_no_delay_and_no_target_noise():
    plain, full = AGENTS["ddpg"].build(), AGENTS["td3"].build()
    assert isinstance(plain, TD3)
    assert (plain.num_critics, plain.target_noise, plain.policy_delay) == (1, 0, 1)
    assert (full.num_critics, full.target_noise, full.policy_delay) == (2, 0.2, 2)


@pytest.mark.parametrize(
    ("env", "fields", "kind", "words"),
    [
        ("CartPole-v1", {}, Unsuited, "needs actions in a Box, not Discrete"),
        (Bounded(space=Box(-np.inf, 1.0, (1,))), {}, Unsuited, "needs low < high and both finite, not Box"),
        (Bounded(space=Box(0.0, (1.0, 0.0), (2,))), {}, Unsuited, "needs low < high and both finite, not Box"),
        (Bounded(space=Box(0, 3, (1,), np.int32)), {}, Unsuited, "needs a Box of floats"),
        (Bounded(space=Box(-1.0, 1.0, (2, 2))), {}, Unsuited, "a Box of one axis"),
        ("Pendulum-v1", {"hidden": (8, 0)}, ValueError, "a layer without units"),
    ],
)
def test_invalid_values_are_refused(env, fields, kind, words):
    with pytest.raises(kind, match=words):
        bound(env, **fields)
