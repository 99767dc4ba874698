"""DroQ: its losses against NumPy with the units that were left out, dropout itself, and the values it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from shoal.agents.droq import DroQ
from shoal.agents.soft_actor_critic import SoftPolicy
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.struct import to_arrays
from shoal.nn.distributions import sample_noise
from shoal.nn.dropout import Dropout
from weights import random_batch, random_weights

# How it learns the probes of the contract within seconds.
QUICK = {
    "learning_rate": 3e-3,
    "policy_learning_rate": 3e-3,
    "discount": 0.9,
    "temperature": "fixed",
    "alpha": 0.003,
    "target_mix": 0.05,
    "batch_size": 64,
    "buffer_size": 4000,
    "learning_starts": 100,
    "train_frequency": 4,
    "train_iterations": 2,
    "policy_delay": 2,
    "policy_steps": 2,
    "num_envs": 4,
    "num_steps": 10,
    "hidden": (32,),
    "updates": 200,
}
CONTRACT = {"droq": QUICK}
RATE = 0.5

learn_critics, learn_policy = jax.jit(DroQ._learn_critics), jax.jit(DroQ._learn_policy)
noise_of = jax.jit(sample_noise, static_argnums=(0, 2))


def bound(env="Pendulum-v1", **fields):
    env = make(env)
    sizes = {"hidden": (6,), "buffer_size": 200, "batch_size": 16, "dropout": RATE}
    return to_arrays(DroQ(**{**sizes, **fields}).bind(env)), to_arrays(env)


def untrained_learner(agent):
    """An untrained learner with large weights, whose target weights differ from those of its critics."""
    shapes = jax.eval_shape(agent.init_learner, make_key(0), jnp.zeros((1, 3)), jnp.zeros(1))
    names = ("actor", "critics", "target")
    drawn = {name: random_weights(getattr(shapes, name), 1.0, seed=i) for i, name in enumerate(names)}
    return random_weights(shapes, deviation=0).replace(**drawn, log_alpha=jnp.float32(np.log(0.3)))


def kept_units(key, critics=2, samples=16, units=6):
    """Which units of the first layer each critic keeps for each sample [K, B, units], from Dropout on ones."""
    keys = jax.random.split(key, critics)
    return np.stack([np.asarray(Dropout(k, RATE)(0, jnp.ones((samples, units)))) > 0 for k in keys])


def numpy_q_values(critics, obs, unit, kept=None):
    """Q-values [K, B] of critics with layer normalization, without dropout or with these units."""
    x = np.concatenate([np.asarray(obs, np.float64), np.asarray(unit, np.float64)], axis=1)
    values = []
    for k in range(2):
        layers = jax.tree.map(lambda leaf, k=k: np.asarray(leaf[k], np.float64), critics)
        dense, norm = layers["torso"]["params"]["Dense_0"], layers["torso"]["params"]["LayerNorm_0"]
        y = x @ dense["kernel"] + dense["bias"]
        y = y if kept is None else np.where(kept[k], y / (1 - RATE), 0)
        y = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-6) * norm["scale"] + norm["bias"]
        values.append((np.maximum(y, 0) @ layers["head"]["kernel"] + layers["head"]["bias"])[:, 0])
    return np.stack(values)


def numpy_draw(actor, obs, noise):
    """(action in [-1, 1], its log-density) of the policy, which has neither normalization nor dropout."""
    dense = actor["torso"]["params"]["Dense_0"]
    hidden = np.maximum(np.asarray(obs, np.float64) @ np.asarray(dense["kernel"]) + np.asarray(dense["bias"]), 0)
    out = hidden @ np.asarray(actor["head"]["kernel"], np.float64) + np.asarray(actor["head"]["bias"])
    mean, spread = np.split(out, 2, axis=1)
    std = np.exp(-5 + 3.5 * (np.tanh(spread) + 1))
    u = mean + std * np.asarray(noise, np.float64)
    return np.tanh(u), (stats.norm.logpdf(u, mean, std) - np.log(1 - np.tanh(u) ** 2)).sum(axis=1)


def test_the_loss_of_the_critics_equals_a_numpy_version_with_the_units_left_out():
    agent, env = bound(learning_rate=0.0)
    learner, batch = untrained_learner(agent), random_batch()
    share = jnp.where(jnp.arange(16) < 10, 0.1, 0.0)  # an effective batch of 10
    _, losses, _ = learn_critics(agent, learner, batch, share, make_key(3))

    k_noise, k_target, k_critics = jax.random.split(make_key(3), 3)
    noise = noise_of(env.action_space, k_noise, (16,))
    unit, log_prob = numpy_draw(learner.actor, batch.next_observed.obs, noise)
    after = numpy_q_values(learner.target, batch.next_observed.obs, unit, kept_units(k_target)).min(axis=0)
    target = np.asarray(batch.reward) + np.asarray(batch.bootstrap) * (after - 0.3 * log_prob)
    q_values = numpy_q_values(learner.critics, batch.observed.obs, np.asarray(batch.action) / 2, kept_units(k_critics))
    error = (q_values - target)[:, :10]
    np.testing.assert_allclose(losses["loss"], (error**2).sum(axis=0).mean(), rtol=2e-3)
    np.testing.assert_allclose(losses["td_error"], np.abs(error).mean(), rtol=2e-3)


def test_the_policy_gradient_increases_the_mean_q_value_with_units_left_out():
    agent, env = bound(policy_delay=1.0, policy_learning_rate=1e-3, temperature="fixed", alpha=1e-9)
    learner, batch = untrained_learner(agent), random_batch()
    after = learn_policy(agent, learner, batch, jnp.full(16, 1 / 16), make_key(5))
    k_noise, k_critics, _ = jax.random.split(jax.random.fold_in(make_key(5), 0), 3)
    noise, kept = noise_of(env.action_space, k_noise, (16,)), kept_units(k_critics)
    assert kept.mean() not in (0, 1)

    def q_values(bias):
        actor = {**learner.actor, "head": {**learner.actor["head"], "bias": bias}}
        unit, _ = numpy_draw(actor, batch.observed.obs, noise)
        return numpy_q_values(learner.critics, batch.observed.obs, unit, kept).mean()

    # Adam's first step follows the sign of the slope, which finite differences in float64 give.
    bias = np.asarray(learner.actor["head"]["bias"], np.float64)
    slope = [q_values(bias + step) - q_values(bias - step) for step in 1e-6 * np.eye(2)]
    moved = np.asarray(after.actor["head"]["bias"]) - np.asarray(learner.actor["head"]["bias"])
    np.testing.assert_allclose(moved, 1e-3 * np.sign(slope), rtol=1e-2)


def test_values_and_actions_are_those_without_dropout():
    agent, _ = bound()
    learner, obs = untrained_learner(agent), random_batch().observed.obs
    policy = SoftPolicy(learner.actor, learner.critics, learner.log_alpha)
    unit, _ = numpy_draw(learner.actor, obs, np.zeros((16, 1)))
    expected = numpy_q_values(learner.critics, obs, unit).mean(axis=0)
    np.testing.assert_allclose(jax.jit(DroQ.value)(agent, policy, obs), expected, rtol=1e-3, atol=1e-3)


def test_dropout_leaves_out_its_share_and_keeps_the_mean():
    x = jnp.full((2000, 16), 3.0)
    dropped = np.asarray(Dropout(make_key(0), 0.2)(0, x))
    np.testing.assert_allclose(np.unique(dropped), [0, 3 / 0.8], rtol=1e-6)
    assert stats.binomtest(int((dropped == 0).sum()), dropped.size, 0.2).pvalue > 1e-3
    # Other units for each sample, layer and key; all of them with a rate of 0.
    assert len(np.unique(dropped == 0, axis=0)) > 1000
    for other in (Dropout(make_key(0), 0.2)(1, x), Dropout(make_key(1), 0.2)(0, x)):
        np.testing.assert_allclose(((np.asarray(other) == 0) == (dropped == 0)).mean(), 0.68, atol=0.02)
    np.testing.assert_array_equal(Dropout(make_key(0), jnp.float32(0))(0, x), x)


@pytest.mark.parametrize(
    "fields", [{"memory": "gru", "memory_size": 6, "sequence_length": 4, "burn_in": 0}, {"torso": "simba"}, {}]
)
def test_dropout_reaches_the_layers_of_critics(fields):
    # The Q-values depend on the rate, also with a memory or another torso, where one layer follows.
    env = make("Pendulum-v1")
    agents = [DroQ(**{"hidden": (6,), "buffer_size": 200, "dropout": rate, **fields}).bind(env) for rate in (0.0, 0.9)]
    critics = [agent.critics_in_training(make_key(1)) for agent in agents]
    example = jnp.ones((2, 4, 6)) if "memory" in fields else jnp.ones((4, 3))
    weights = random_weights(jax.eval_shape(agents[0]._critics.init, make_key(0), jnp.ones((4, 3)), jnp.ones((4, 1))))
    without, with_most_left_out = (c(weights, example, jnp.ones((4, 1))) for c in critics)
    assert float(jnp.abs(without - with_most_left_out).max()) > 1e-3
    plain = agents[0]._critics(weights, example, jnp.ones((4, 1)))
    np.testing.assert_allclose(plain, without, rtol=1e-5, atol=1e-6)


def test_its_defaults_are_those_of_the_paper():
    agent = AGENTS["droq"].build()
    steps = agent.train_iterations, agent.policy_delay, agent.policy_steps
    assert steps == (20, 20, 1) and (agent.num_critics, agent.hidden, agent.target_mix) == (2, (256, 256), 0.005)


@pytest.mark.parametrize(
    ("env", "fields", "kind", "words"),
    [
        ("CartPole-v1", {}, Unsuited, "needs actions in a Box, not Discrete"),
        ("Pendulum-v1", {"subset": 2}, ValueError, "subset=2 changes nothing in droq"),
    ],
)
def test_invalid_values_are_refused(env, fields, kind, words):
    with pytest.raises(kind, match=words):
        bound(env, **fields)


@pytest.mark.parametrize("rate", [1.0, -0.1, float("nan")])
def test_rates_outside_of_their_range_are_refused(rate):
    with pytest.raises(ValueError, match="dropout"):
        DroQ(dropout=rate)
