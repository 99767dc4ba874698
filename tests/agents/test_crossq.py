"""CrossQ: its losses against NumPy, in which a batch and its successors are normalized together, and its schedules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from shoal.agents.crossq import CrossQ
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import to_arrays
from shoal.nn.distributions import sample_noise
from weights import random_batch, random_weights

# How it learns the probes of the contract within seconds; it renormalizes from the second half on.
QUICK = {
    "learning_rate": 3e-3,
    "policy_learning_rate": 3e-3,
    "discount": 0.9,
    "temperature": "fixed",
    "alpha": 0.003,
    "batch_size": 64,
    "buffer_size": 4000,
    "learning_starts": 100,
    "train_frequency": 4,
    "policy_delay": 1,
    "renorm_after": 1000,
    "num_envs": 4,
    "num_steps": 10,
    "hidden": (32,),
    "updates": 200,
}
CONTRACT = {"crossq": QUICK}

# Agents are arguments, so that agents which differ only in hyperparameters share a program.
learn_critics, learn_policy = jax.jit(CrossQ._learn_critics), jax.jit(CrossQ._learn_policy)
noise_of = jax.jit(sample_noise, static_argnums=(0, 2))


def bound(env="Pendulum-v1", **fields):
    env = make(env)
    agent = CrossQ(**{"hidden": (8,), "buffer_size": 200, "batch_size": 16, **fields}).bind(env)
    return to_arrays(agent), to_arrays(env)


def untrained_learner(agent, count=0):
    """A learner with random weights and averages, after so many gradient steps."""
    shapes = jax.eval_shape(agent.init_learner, make_key(0), jnp.zeros((1, 3)), jnp.zeros(1))
    learner = random_weights(shapes, deviation=0).replace(log_alpha=jnp.float32(np.log(0.3)))
    drawn = {name: random_weights(getattr(shapes, name), seed=i) for i, name in enumerate(("actor", "critics"))}
    for network in drawn.values():
        for name in network:
            if name.startswith("norm"):
                network[name]["std"] = jnp.abs(network[name]["std"]) + 0.5
    moments = {
        name: getattr(learner, name)._replace(count=jnp.int32(count)) for name in ("actor_moments", "critic_moments")
    }
    return learner.replace(**drawn, **moments)


def numpy_net(weights, x, limits=None, used=None):
    """(outputs, averages): normalized by the averages, or with limits by the rows `used`, as in Ioffe 2017."""
    averages = {}

    def norm(name, x):
        layer = {k: np.asarray(v, np.float64) for k, v in weights[name].items()}
        if limits is None:
            return (x - layer["mean"]) / layer["std"] * layer["scale"] + layer["bias"]
        mean, std = x[used].mean(axis=0), np.sqrt(x[used].var(axis=0) + 1e-3)
        r = np.clip(std / layer["std"], 1 / limits[0], limits[0])
        d = np.clip((mean - layer["mean"]) / layer["std"], -limits[1], limits[1])
        averages[name] = 0.99 * layer["mean"] + 0.01 * mean, 0.99 * layer["std"] + 0.01 * std
        return ((x - mean) / std * r + d) * layer["scale"] + layer["bias"]

    def dense(name, x):
        return x @ np.asarray(weights[name]["kernel"], np.float64) + np.asarray(weights[name]["bias"], np.float64)

    hidden = norm("norm_1", np.maximum(dense("layer_0", norm("norm_0", np.asarray(x, np.float64))), 0))
    return dense("head", hidden), averages


def numpy_draw(out, noise):
    """(action from -1 to 1, its log-density)."""
    mean, spread = np.split(out, 2, axis=1)
    std = np.exp(-5 + 3.5 * (np.tanh(spread) + 1))
    u = mean + std * np.asarray(noise, np.float64)
    return np.tanh(u), (stats.norm.logpdf(u, mean, std) - np.log(1 - np.tanh(u) ** 2)).sum(axis=1)


@pytest.mark.parametrize(("steps", "limits"), [(99, (1, 0)), (100, (1.5, 0.5))])
def test_the_critics_loss_equals_a_numpy_version(steps, limits):
    agent, env = bound(learning_rate=0.0, renorm_after=100, renorm_scale=1.5, renorm_shift=0.5)
    learner, batch = untrained_learner(agent, steps), random_batch()
    share = jnp.where(jnp.arange(16) < 10, 0.1, 0.0)  # an effective batch of 10
    after, losses, _ = learn_critics(agent, learner, batch, share, make_key(3))

    noise = noise_of(env.action_space, make_key(3), (16,))
    next_action, log_prob = numpy_draw(numpy_net(learner.actor, batch.next_observed.obs)[0], noise)
    rows = np.concatenate([batch.observed.obs, batch.next_observed.obs])
    rows = np.concatenate([rows, np.concatenate([np.asarray(batch.action) / 2, next_action])], axis=1)
    used = np.concatenate([np.arange(10), np.arange(16, 26)])
    critics = [jax.tree.map(lambda x, k=k: x[k], learner.critics) for k in range(2)]
    out, averages = zip(*(numpy_net(weights, rows, limits, used) for weights in critics), strict=True)
    now, later = np.split(np.stack(out)[..., 0], 2, axis=1)
    target = np.asarray(batch.reward) + np.asarray(batch.bootstrap) * (later.min(axis=0) - 0.3 * log_prob)
    error = (now - target)[:, :10]
    np.testing.assert_allclose(losses["loss"], (error**2).sum(axis=0).mean(), rtol=1e-3)
    np.testing.assert_allclose(losses["td_error"], np.abs(error).mean(), rtol=1e-3)
    np.testing.assert_allclose(losses["entropy"], -log_prob[:10].mean(), rtol=1e-3)
    for k in range(2):
        for name, (mean, std) in averages[k].items():
            np.testing.assert_allclose(after.critics[name]["mean"][k], mean, rtol=1e-3, atol=1e-5)
            np.testing.assert_allclose(after.critics[name]["std"][k], std, rtol=1e-3)


def test_the_policy_learns_normalized_by_its_batch_from_critics_that_act():
    agent, env = bound(policy_delay=1, policy_learning_rate=1e-3)
    learner, batch = untrained_learner(agent, 1), random_batch()
    after, seen = learn_policy(agent, learner, batch, jnp.full(16, 1 / 16), make_key(4)), batch.observed
    noise = noise_of(env.action_space, jax.random.fold_in(make_key(4), 0), (16,))

    def loss(actor):
        action, log_prob = numpy_draw(numpy_net(actor, seen.obs, (1, 0), slice(None))[0], noise)
        rows = np.concatenate([np.asarray(seen.obs, np.float64), action], axis=1)
        critics = [jax.tree.map(lambda x, k=k: x[k], learner.critics) for k in range(2)]
        return np.mean(0.3 * log_prob - np.minimum(*(numpy_net(weights, rows)[0][:, 0] for weights in critics)))

    # Adam's first step goes against the sign of the slope, which finite differences of the loss in float64 give.
    bias = np.asarray(learner.actor["head"]["bias"], np.float64)
    for i in range(2):
        ends = []
        for nudge in (1e-5, -1e-5):
            changed = bias.copy()
            changed[i] += nudge
            ends.append(loss({**learner.actor, "head": {**learner.actor["head"], "bias": changed}}))
        moved = np.asarray(after.actor["head"]["bias"])[i] - bias[i]
        assert np.sign(moved) == -np.sign(ends[0] - ends[1])
    averages = numpy_net(learner.actor, seen.obs, (1, 0), slice(None))[1]
    np.testing.assert_allclose(after.actor["norm_1"]["mean"], averages["norm_1"][0], rtol=1e-3, atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, after.critics, learner.critics)  # with their averages


@pytest.mark.parametrize(("steps", "visits"), [(1, [0, 0, 1, 1, 1, 2]), (0, [0, 0, 3, 3, 3, 6])])
def test_the_policy_takes_policy_steps_after_every_policy_delay_critic_steps(steps, visits):
    agent, _ = bound(policy_delay=3, policy_steps=steps)
    learner, batch, share = untrained_learner(agent), random_batch(), jnp.full(16, 1 / 16)
    made = []
    for i in range(6):
        learner, _, _ = learn_critics(agent, learner, batch, share, make_key(i))
        learner = learn_policy(agent, learner, batch, share, make_key(10 + i))
        made.append(int(learner.actor_moments.count))
    assert made == visits


def test_critics_can_be_wider_than_the_policy():
    agent, _ = bound(hidden=(8, 6), critic_hidden=(5,), num_critics=3)
    learner = jax.eval_shape(agent.init_learner, make_key(0), jnp.zeros((1, 3)), jnp.zeros(1))
    assert learner.critics["layer_0"]["kernel"].shape == (3, 4, 5) and "layer_1" not in learner.critics
    assert learner.actor["layer_1"]["kernel"].shape == (8, 6)


@pytest.mark.parametrize(
    ("env", "fields", "kind", "words"),
    [
        ("CartPole-v1", {}, Unsuited, "needs actions in a Box"),
        ("Pendulum-v1", {"critic_hidden": (0,)}, ValueError, "critic_hidden=.* has a layer without units"),
        ("Pendulum-v1", {"renorm_scale": 0.5}, ValueError, "renorm_scale"),
    ],
)
def test_invalid_values_are_refused(env, fields, kind, words):
    with pytest.raises(kind, match=words):
        bound(env, **fields)
