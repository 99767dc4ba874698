"""FastTD3: its target distribution and losses against NumPy, its noise and targets by hand, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.agents.fast_td3 import FastTD3
from shoal.agents.replay_agent import Observed
from shoal.agents.td3 import TD3Policy
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.struct import to_arrays
from shoal.nn.distributions import sample_noise
from weights import random_batch, random_weights

# How it learns the probes of the contract within seconds.
QUICK = {
    "learning_rate": 3e-3,
    "policy_learning_rate": 3e-3,
    "discount": 0.9,
    "target_mix": 0.05,
    "target_noise": 0.1,
    "batch_size": 64,
    "buffer_size": 4000,
    "learning_starts": 100,
    "train_frequency": 4,
    "train_iterations": 1,
    "num_envs": 4,
    "num_steps": 10,
    "hidden": (32,),
    "atoms": 101,
    "v_min": -15.0,
    "v_max": 15.0,
    "updates": 200,
}
CONTRACT = {"fasttd3": QUICK}
LOW, HIGH, ATOMS = -3.0, 2.0, 6  # a support that rewards and returns of the tests leave on both sides

learn_critics, learn_policy = jax.jit(FastTD3._learn_critics), jax.jit(FastTD3._learn_policy)
learn = jax.jit(FastTD3.learn)
noise_of = jax.jit(sample_noise, static_argnums=(0, 2))


def bound(env="Pendulum-v1", **fields):
    env = make(env)
    sizes = {"hidden": (8,), "num_envs": 4, "buffer_size": 200, "batch_size": 16}
    return to_arrays(FastTD3(**{**sizes, "v_min": LOW, "v_max": HIGH, "atoms": ATOMS, **fields}).bind(env)), to_arrays(
        env
    )


def untrained_learner(agent):
    """An untrained learner whose target weights differ from its weights."""
    shapes = jax.eval_shape(agent.init_learner, make_key(0), jnp.zeros((agent.num_envs, 3)), jnp.zeros(1))
    learner = random_weights(shapes, deviation=0)
    return learner.replace(
        weights=random_weights(shapes.weights, 1.0, seed=1), target=random_weights(shapes.target, 1.0, seed=2)
    )


def numpy_net(weights, x, critic=None):
    def pick(leaf):
        return np.asarray(leaf if critic is None else leaf[critic], np.float64)

    torso = weights["torso"]["params"]["Dense_0"]
    hidden = np.maximum(x @ pick(torso["kernel"]) + pick(torso["bias"]), 0)
    return hidden @ pick(weights["head"]["kernel"]) + pick(weights["head"]["bias"])


def numpy_policy(actor, obs):
    return np.tanh(numpy_net(actor, np.asarray(obs, np.float64)))


def numpy_probabilities(critics, obs, unit):
    """Of both critics [2, B, Z]."""
    joined = np.concatenate([np.asarray(obs, np.float64), unit], axis=1)
    logits = np.stack([numpy_net(critics, joined, k) for k in range(2)])
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


def numpy_projected(probability, reward, bootstrap):
    """The distribution of reward + bootstrap * return on the support, one atom after the other."""
    support, width = np.linspace(LOW, HIGH, ATOMS), (HIGH - LOW) / (ATOMS - 1)
    projected = np.zeros(ATOMS)
    for p, z in zip(probability, support, strict=True):
        place = (np.clip(reward + bootstrap * z, LOW, HIGH) - LOW) / width
        below = int(np.floor(place))
        projected[below] += p * (1 - (place - below))
        if place > below:
            projected[below + 1] += p * (place - below)
    return projected


def test_the_loss_of_the_critics_equals_a_numpy_version():
    agent, env = bound(learning_rate=0.0, target_noise=0.5, target_clip=0.3)
    learner, batch = untrained_learner(agent), random_batch()
    share = jnp.where(jnp.arange(16) < 10, 0.1, 0.0)  # an effective batch of 10
    _, losses, error = learn_critics(agent, learner, batch, share, make_key(3))

    noise = np.asarray(noise_of(env.action_space, make_key(3), (16,)), np.float64)
    after = batch.next_observed.obs
    unit = np.clip(numpy_policy(learner.weights.actor, after) + np.clip(0.5 * noise, -0.3, 0.3), -1, 1)
    later = numpy_probabilities(learner.target.critics, after, unit)
    now = numpy_probabilities(learner.weights.critics, batch.observed.obs, np.asarray(batch.action) / 2)
    support, expected, chosen = np.linspace(LOW, HIGH, ATOMS), [], []
    for i in range(16):
        both = [numpy_projected(later[k, i], float(batch.reward[i]), float(batch.bootstrap[i])) for k in range(2)]
        k = int(np.argmin([p @ support for p in both]))
        chosen.append(k)
        expected.append(-(both[k] * np.log(now[:, i])).sum())
    assert 0 < np.mean(chosen) < 1  # each critic has the smaller mean somewhere
    np.testing.assert_allclose(error, expected, rtol=1e-3)
    np.testing.assert_allclose(losses["loss"], np.mean(expected[:10]), rtol=1e-3)


def test_the_policy_gradient_increases_the_smaller_mean():
    agent, _ = bound(policy_delay=1.0, policy_learning_rate=1e-3)
    learner, batch = untrained_learner(agent), random_batch()
    after = learn_policy(agent, learner, batch, jnp.full(16, 1 / 16))

    def smaller_mean(bias):
        actor = {**learner.weights.actor, "head": {**learner.weights.actor["head"], "bias": bias}}
        obs = batch.observed.obs
        means = numpy_probabilities(learner.weights.critics, obs, numpy_policy(actor, obs)) @ np.linspace(
            LOW, HIGH, ATOMS
        )
        return means.min(axis=0).mean()

    # Adam's first step follows the sign of the slope, which finite differences in float64 give.
    bias = np.asarray(learner.weights.actor["head"]["bias"], np.float64)
    uphill = np.sign(smaller_mean(bias + 1e-5) - smaller_mean(bias - 1e-5))
    moved = np.asarray(after.weights.actor["head"]["bias"]) - np.asarray(learner.weights.actor["head"]["bias"])
    np.testing.assert_allclose(moved, 1e-3 * uphill, rtol=1e-3)


def test_targets_of_the_critics_move_in_every_step_and_the_policy_in_every_second():
    agent, _ = bound(policy_delay=2.0, target_mix=0.25)
    learner, batch, share = untrained_learner(agent), random_batch(), jnp.full(16, 1 / 16)
    policy_steps = []
    for i in range(4):
        before = jax.tree.map(np.asarray, learner.target.critics)
        learner, _, _ = learn(agent, learner, batch, share, make_key(i))
        expected = jax.tree.map(lambda t, w: t + 0.25 * (w - t), before, learner.weights.critics)
        for got, wanted in zip(jax.tree.leaves(learner.target.critics), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
        policy_steps.append(int(learner.actor_moments.count))
    assert policy_steps == [0, 1, 1, 2]


def test_the_noise_falls_from_the_first_environment_to_the_last():
    agent, _ = bound(num_envs=5, least_noise=0.1, exploration_noise=0.5)
    learner = untrained_learner(agent)
    learner = learner.replace(weights=random_weights(learner.weights, deviation=0))  # all actions are 0
    explored = jax.jit(FastTD3.explore)(agent, learner, Observed(jnp.zeros((5, 3)), None), jnp.ones((5, 1)))
    np.testing.assert_allclose(explored[:, 0], [0.5, 0.4, 0.3, 0.2, 0.1], rtol=1e-5)
    one, _ = bound(num_envs=1, least_noise=0.1)
    explored = jax.jit(FastTD3.explore)(one, learner, Observed(jnp.zeros((1, 3)), None), jnp.ones((1, 1)))
    np.testing.assert_allclose(explored, 0.4, rtol=1e-5)  # alone, it explores with the largest noise


def test_values_are_the_smaller_means():
    agent, _ = bound()
    weights, obs = untrained_learner(agent).weights, random_batch().observed.obs
    both = numpy_probabilities(weights.critics, obs, numpy_policy(weights.actor, obs)) @ np.linspace(LOW, HIGH, ATOMS)
    value = jax.jit(FastTD3.value)(agent, TD3Policy(weights.actor, weights.critics), obs)
    np.testing.assert_allclose(value, both.min(axis=0), rtol=1e-3, atol=1e-3)


def test_its_defaults_are_those_of_the_authors():
    agent = AGENTS["fasttd3"].build()
    assert (agent.num_envs, agent.num_steps, agent.atoms, agent.batch_size) == (128, 1, 101, 32768)
    assert (agent.train_frequency, agent.train_iterations, agent.policy_delay, agent.target_mix) == (128, 2, 2, 0.1)
    assert (agent.v_min, agent.v_max) == (-250, 250)


@pytest.mark.parametrize(
    ("env", "fields", "kind", "words"),
    [
        ("CartPole-v1", {}, Unsuited, "needs actions in a Box, not Discrete"),
        ("Pendulum-v1", {"atoms": 1}, ValueError, "atoms=1 is too few for a categorical head"),
        ("Pendulum-v1", {"v_min": 2.0}, ValueError, "v_min=2 must be below v_max=2"),
        ("Pendulum-v1", {"num_envs": 0}, ValueError, "num_envs"),
    ],
)
def test_invalid_values_are_refused(env, fields, kind, words):
    with pytest.raises(kind, match=words):
        bound(env, **fields)
