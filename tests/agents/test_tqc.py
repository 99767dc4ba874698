"""TQC: its truncated target, losses and policy against NumPy, and the values it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from shoal.agents.soft_actor_critic import SoftPolicy
from shoal.agents.tqc import TQC
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import to_arrays
from shoal.nn.distributions import sample_noise
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
    "num_envs": 4,
    "num_steps": 10,
    "hidden": (32,),
    "num_critics": 2,
    "quantiles": 5,
    "dropped": 1,
    "updates": 200,
}
CONTRACT = {"tqc": QUICK}

learn_critics = jax.jit(TQC._learn_critics)
noise_of = jax.jit(sample_noise, static_argnums=(0, 2))


def bound(env="Pendulum-v1", **fields):
    env = make(env)
    sizes = {"hidden": (8,), "buffer_size": 200, "batch_size": 16, "num_critics": 3, "quantiles": 4}
    return to_arrays(TQC(**{**sizes, **fields}).bind(env)), to_arrays(env)


def untrained_learner(agent):
    """An untrained learner with large head weights, whose target weights differ from those of its critics."""
    shapes = jax.eval_shape(agent.init_learner, make_key(0), jnp.zeros((1, 3)), jnp.zeros(1))
    drawn = {
        name: random_weights(getattr(shapes, name), seed=i) for i, name in enumerate(("actor", "critics", "target"))
    }
    return random_weights(shapes, deviation=0).replace(**drawn, log_alpha=jnp.float32(np.log(0.3)))


def numpy_net(weights, x):
    torso, head = weights["torso"]["params"]["Dense_0"], weights["head"]
    hidden = np.maximum(np.asarray(x, np.float64) @ np.asarray(torso["kernel"]) + np.asarray(torso["bias"]), 0)
    return hidden @ np.asarray(head["kernel"]) + np.asarray(head["bias"])


def numpy_quantiles(critics, obs, unit):
    """Quantiles [K, B, Z] of actions on a scale from -1 to 1."""
    joined = np.concatenate([obs, unit], axis=1)
    return np.stack([numpy_net(jax.tree.map(lambda x, k=k: x[k], critics), joined) for k in range(3)])


def numpy_draw(actor, obs, noise):
    mean, spread = np.split(numpy_net(actor, obs), 2, axis=1)
    std = np.exp(-5 + 3.5 * (np.tanh(spread) + 1))
    u = mean + std * np.asarray(noise, np.float64)
    return np.tanh(u), (stats.norm.logpdf(u, mean, std) - np.log(1 - np.tanh(u) ** 2)).sum(axis=1)


@pytest.mark.parametrize("dropped", [0.0, 1.0, 3.0])
def test_the_critics_loss_equals_a_numpy_version(dropped):
    agent, env = bound(learning_rate=0.0, dropped=dropped)
    learner, batch = untrained_learner(agent), random_batch()
    share = jnp.where(jnp.arange(16) < 10, 0.1, 0.0)  # an effective batch of 10
    _, losses, _ = learn_critics(agent, learner, batch, share, make_key(3))

    noise = noise_of(env.action_space, make_key(3), (16,))
    next_action, log_prob = numpy_draw(learner.actor, batch.next_observed.obs, noise)
    later = numpy_quantiles(learner.target, batch.next_observed.obs, next_action)
    now = numpy_quantiles(learner.critics, batch.observed.obs, np.asarray(batch.action) / 2)
    total, errors = 0.0, []
    for b in range(10):
        kept = sorted(later[:, b].ravel())[: 3 * (4 - int(dropped))]
        target = [batch.reward[b] + batch.bootstrap[b] * (z - 0.3 * log_prob[b]) for z in kept]
        errors.append(abs(now[:, b].mean() - np.mean(target)))
        for k in range(3):
            for i, quantile in enumerate(now[k, b]):
                for y in target:
                    error, level = y - quantile, (i + 0.5) / 4
                    huber = 0.5 * error**2 if abs(error) <= 1 else abs(error) - 0.5
                    total += abs(level - (error < 0)) * huber / len(target) / 4 / 10
    np.testing.assert_allclose(losses["loss"], total, rtol=1e-4)
    np.testing.assert_allclose(losses["td_error"], np.mean(errors), rtol=1e-4)
    np.testing.assert_allclose(losses["q_value"], now[:, :10].mean(), rtol=1e-4)
    np.testing.assert_allclose(losses["entropy"], -log_prob[:10].mean(), rtol=1e-4)


def test_the_policy_and_the_value_use_the_mean_of_all_quantiles():
    agent, _ = bound(dropped=3.0)
    learner, obs = untrained_learner(agent), random_batch().observed.obs
    unit = np.tanh(np.split(numpy_net(learner.actor, obs), 2, axis=1)[0])
    quantiles = numpy_quantiles(learner.critics, obs, unit)
    known = SoftPolicy(learner.actor, learner.critics, learner.log_alpha)
    np.testing.assert_allclose(jax.jit(TQC.value)(agent, known, obs), quantiles.mean(axis=(0, 2)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("env", "fields", "kind", "words"),
    [
        ("CartPole-v1", {}, Unsuited, "needs actions in a Box"),
        ("Pendulum-v1", {"quantiles": 0}, ValueError, "quantiles=0 must be at least 1"),
        ("Pendulum-v1", {"dropped": 4.0}, ValueError, "dropped=4 leaves none of quantiles=4: it must be at most 3"),
    ],
)
def test_invalid_values_are_refused(env, fields, kind, words):
    with pytest.raises(kind, match=words):
        bound(env, **fields)
