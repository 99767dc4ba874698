"""PPO: its losses and advantages against NumPy, its options, and the values it refuses."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from shoal.agents.ppo import PPO, Batch
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.spaces import Discrete
from shoal.core.struct import struct, to_arrays
from shoal.envs.probes import ActionReward
from shoal.nn.actor_critic import NO_CARRY
from shoal.specs.spec import RunSpec
from shoal.training.plan import make_plan
from weights import random_weights

# How PPO learns the probes of the contract within seconds.
CONTRACT = {
    "ppo": {
        "learning_rate": 1e-2,
        "discount": 0.9,
        "gae_lambda": 1.0,
        "max_grad_norm": 100.0,
        "horizon": 200 * 160,
        "num_envs": 8,
        "num_steps": 20,
        "hidden": (16,),
        "entropy_coef": 0.0,
        "value_loss": "squared",
    }
}
CONTRACT["a2c"] = {**CONTRACT["ppo"], "num_steps": 5, "anneal": 1.0, "horizon": 1000 * 40, "updates": 1000}
# A recurrent network needs more updates, and large gradients through time make its steps large.
CONTRACT["rl2"] = {
    **CONTRACT["ppo"],
    "memory_size": 16,
    "shared": False,
    "bootstrap": True,
    "num_minibatches": 2,
    "max_grad_norm": 1.0,
    "gae_lambda": 0.8,
    "horizon": 300 * 160,
    "updates": 300,
}


def bound(env="CartPole-v1", **fields):
    env = make(env) if isinstance(env, str) else env
    return to_arrays(PPO(**{"hidden": (8, 8), "num_steps": 16, **fields}).bind(env)), to_arrays(env)


def begin(agent, env):
    """A first state, outside of a program: its operations are the same for most tests of this file."""
    return agent.init(make_key(0), env)


# Agents are arguments, so that agents which differ only in hyperparameters share a program.
update = jax.jit(lambda agent, env, state: agent.update(state, env, jnp.int32(0)))


@jax.jit
def collect(agent, env, state):
    """A rollout of the policy, and the batch for its update, without normalization of rewards."""
    behavior, noise = agent.behavior(state), agent.policy_noise(state, make_key(1))
    _, trajectory, _ = agent.rollout.collect(env, state.env_states, behavior, noise, make_key(2))
    return trajectory, agent._batch(state, trajectory, trajectory.reward)[0]


def shaken(state):
    """A state with weights so large that policies and values differ between observations."""
    return state.replace(weights=random_weights(state.weights))


def numpy_forward(weights, obs, head):
    torso = weights["actor" if head == "policy" else "critic"]["params"]
    for layer in ("Dense_0", "Dense_1"):
        obs = np.tanh(obs @ np.asarray(torso[layer]["kernel"], np.float64) + np.asarray(torso[layer]["bias"]))
    return obs @ np.asarray(weights[head]["kernel"], np.float64) + np.asarray(weights[head]["bias"])


def test_the_loss_equals_a_numpy_version():
    agent, env = bound(entropy_coef=0.02, value_coef=0.7, clip=0.1)
    weights = random_weights(jax.eval_shape(agent.init, make_key(0), env).weights, deviation=0.5)
    random = np.random.default_rng(0)
    obs = random.normal(size=(32, 4)).astype(np.float32)
    action = random.integers(0, 2, 32)
    old_log_prob, old_value, target, advantage = random.normal(size=(4, 32)).astype(np.float32) * 0.3
    old_log_prob -= 0.7
    rows = Batch(
        jnp.asarray(obs),
        None,
        jnp.asarray(action, jnp.int32),
        *map(jnp.asarray, (old_log_prob, old_value, advantage, target)),
    )
    loss, parts = jax.jit(lambda weights: agent._loss(weights, *agent._minibatch(rows, NO_CARRY, jnp.arange(32))))(
        weights
    )

    logits = numpy_forward(weights, obs, "policy")
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    ratio = np.exp(log_p[np.arange(32), action] - old_log_prob)
    scaled = (advantage - advantage.mean()) / advantage.std()
    policy_loss = np.maximum(-ratio * scaled, -np.clip(ratio, 0.9, 1.1) * scaled).mean()
    value = numpy_forward(weights, obs, "value")[:, 0]
    held = old_value + np.clip(value - old_value, -0.1, 0.1)
    value_loss = 0.5 * np.maximum((value - target) ** 2, (held - target) ** 2).mean()
    entropy = -(np.exp(log_p) * log_p).sum(1).mean()
    np.testing.assert_allclose(parts["policy_loss"], policy_loss, rtol=1e-4)
    np.testing.assert_allclose(parts["value_loss"], value_loss, rtol=1e-4)
    np.testing.assert_allclose(parts["entropy"], entropy, rtol=1e-4)
    np.testing.assert_allclose(loss, policy_loss + 0.7 * value_loss - 0.02 * entropy, rtol=1e-4)
    np.testing.assert_allclose(parts["clip_fraction"], (np.abs(ratio - 1) > 0.1).mean())


def test_the_learning_rate_falls_linearly_by_the_annealed_fraction():
    agent, _ = bound(learning_rate=1e-2, horizon=640, num_envs=4, num_steps=16, anneal=1.0)
    rates = [float(agent._learning_rate(jnp.int32(age))) for age in (0, 5, 9, 10, 20)]
    np.testing.assert_allclose(rates, [1e-2, 5e-3, 1e-3, 0, 0], atol=1e-8)
    half = agent.replace(anneal=jnp.float32(0.5))
    np.testing.assert_allclose(half._learning_rate(jnp.int32(10)), 5e-3, rtol=1e-5)


def test_first_epoch_ratios_are_one():
    agent, env = bound(num_epochs=1, num_minibatches=1, learning_rate=0.0)
    _, metrics = update(agent, env, begin(agent, env))
    np.testing.assert_allclose(metrics.losses["approx_kl"], 0, atol=1e-7)
    assert metrics.losses["clip_fraction"] == 0


def test_successor_values_equal_those_of_single_observations():
    # Episodes of three steps, cut off: what follows their last observation is the fourth, not the next one's first.
    agent, env = bound(make("Probe-TimeLimit-v0", max_steps=3), num_envs=2, num_steps=8, num_minibatches=1)

    @jax.jit
    def both(key, obs):
        state = agent.init(key, env)
        noise, behavior = agent.policy_noise(state, make_key(1)), agent.behavior(state)
        _, trajectory, _ = agent.rollout.collect(env, state.env_states, behavior, noise, make_key(2))
        return *agent._values(state, trajectory)[:2], agent.value(state, obs)

    value, next_value, along = map(np.asarray, both(make_key(0), np.arange(4, dtype=np.float32)[:, None] / 5))
    assert np.abs(np.diff(along)).min() > 1e-3
    for t in range(8):
        np.testing.assert_allclose(value[t], along[t % 3], rtol=1e-5)
        np.testing.assert_allclose(next_value[t], along[t % 3 + 1], rtol=1e-5)


def test_equal_advantages_give_a_gradient_of_zero():
    agent, env = bound(entropy_coef=0.0, value_coef=0.0)
    weights = random_weights(jax.eval_shape(agent.init, make_key(0), env).weights)
    half = jnp.full(32, 0.5)  # whose sums are exact in any order
    obs = np.random.default_rng(1).normal(size=(32, 4)).astype(np.float32)
    rows = Batch(jnp.asarray(obs), None, jnp.zeros(32, jnp.int32), -half, half, half, half)
    minibatch = agent._minibatch(rows, NO_CARRY, jnp.arange(32))
    loss, slope = jax.jit(jax.value_and_grad(lambda weights: agent._loss(weights, *minibatch)[0]))(weights)
    assert loss == 0 and all((x == 0).all() for x in jax.tree.leaves(slope))


@pytest.mark.parametrize("shuffle", ["arithmetic", "exact", "envs"])
def test_every_sample_is_used_once_in_each_epoch(shuffle):
    agent, _ = bound(shuffle=shuffle, num_envs=12, num_steps=16, num_minibatches=4, num_epochs=3)
    index = np.asarray(agent._minibatch_indices(make_key(0)))
    assert index.shape == (12, 48)
    for epoch in index.reshape(3, -1):
        assert sorted(epoch.tolist()) == list(range(192))
    if shuffle == "envs":  # whole environments stay together
        assert len(set((index[0] % 12).tolist())) == 3


def test_observation_statistics_do_not_change_within_an_update():
    agent, env = bound("Pendulum-v1", normalize_observation=True, num_epochs=1, num_minibatches=1, learning_rate=0.0)
    state = shaken(begin(agent, env))
    for _ in range(3):
        state, metrics = update(agent, env, state)
        np.testing.assert_allclose(metrics.losses["approx_kl"], 0, atol=1e-6)
    assert state.obs_stats.count == 3 * agent.steps_per_update


def test_reward_scale_divides_by_the_deviation_of_the_discounted_return():
    agent, env = bound("Probe-TimeLimit-v0", normalize_reward=True, num_envs=2, num_steps=10, num_minibatches=2)

    @jax.jit
    def scale(key):
        state = agent.init(key, env)
        behavior, noise = agent.behavior(state), agent.policy_noise(state, make_key(1))
        _, trajectory, _ = agent.rollout.collect(env, state.env_states, behavior, noise, make_key(2))
        return agent._scaled_reward(state, trajectory)

    scaled, stats, total = scale(make_key(0))
    # Rewards of 1, cut every five steps: 1, 1.99, ... by the recursion; never centered, so the sign stays.
    sums = np.array([sum(0.99**k for k in range(n)) for n in (1, 2, 3, 4, 5)] * 4)
    np.testing.assert_allclose(stats.std(), sums.std(), rtol=1e-5)
    np.testing.assert_allclose(scaled, 1 / sums.std(), rtol=1e-4)
    np.testing.assert_allclose(total, 0)


def test_correlated_noise_has_unit_variance_and_its_correlation():
    agent, env = bound("Pendulum-v1", noise_correlation=0.8, num_envs=64, num_steps=400, num_minibatches=1)
    state = begin(agent, env)
    noise = np.asarray(jax.jit(lambda key: agent.policy_noise(state, key))(make_key(0)))[..., 0]
    assert abs(noise.std() - 1) < 0.02
    assert abs(np.corrcoef(noise[1:].ravel(), noise[:-1].ravel())[0, 1] - 0.8) < 0.02
    assert abs(np.corrcoef(noise[5:].ravel(), noise[:-5].ravel())[0, 1] - 0.8**5) < 0.05


def test_the_environment_gets_continuous_actions_within_its_bounds():
    agent, env = bound("Pendulum-v1", log_std_init=3.0)
    trajectory, _ = collect(agent, env, begin(agent, env))
    raw, _ = trajectory.policy_output
    assert np.abs(trajectory.action).max() == 2.0 and np.abs(raw).max() > 2.0


def test_a_policy_never_takes_a_masked_action():
    @struct
    class Half(ActionReward):
        """Only action 0 is allowed."""

        def action_mask(self, state):
            """Action 1 is forbidden."""
            return jnp.asarray([True, False])

    agent, env = bound(Half(), num_steps=32)
    state, metrics = update(agent, env, begin(agent, env))
    assert metrics.episodes.return_max == -1.0 and all(np.isfinite(x) for x in metrics.losses.values())
    assert agent.act(state, jnp.zeros(1), None, make_key(0), True, jnp.asarray([False, True]))[0] == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_envs": 12, "num_steps": 128, "num_minibatches": 10}, "1536 samples .*=10 does not divide. Try 8 or 12"),
        ({"num_envs": 6, "shuffle": "envs", "num_minibatches": 4}, "6 environments to shuffle, .* Try 2 or 3"),
        ({"num_epochs": 0}, "num_epochs=0 must be at least 1"),
        ({"surrogate": "clip"}, "surrogate='clip' is unknown. Choose one of clipped, dpo, unclipped"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0 is out of range"),
        ({"shuffle": "none"}, "shuffle='none' is unknown"),
        ({"activation": "sigmoid"}, "activation='sigmoid' is unknown"),
    ],
)
def test_invalid_values_are_refused_before_compilation(fields, message):
    with pytest.raises(ValueError, match=message):
        bound(**fields)


def test_normalizing_discrete_observations_is_refused():
    @struct
    class Choosing(ActionReward):
        """An environment with a Discrete observation."""

        @property
        def observation_space(self):
            """Three values."""
            return Discrete(3)

    with pytest.raises(ValueError, match="needs observations that are arrays"):
        bound(Choosing(), normalize_observation=True)


def test_a_user_network_and_user_losses_are_used():
    import flax.linen as nn

    class Wide(nn.Module):
        """A network of one layer."""

        @nn.compact
        def __call__(self, x):
            return nn.relu(nn.Dense(7)(x))

    def surrogate(ratio, advantage, clip):
        return -ratio * advantage + clip * (ratio - 1) ** 2

    agent, env = bound(network=Wide(), surrogate=surrogate, shared=True)
    state = begin(agent, env)
    assert state.weights["actor"]["params"]["Dense_0"]["kernel"].shape == (4, 7) and "critic" not in state.weights
    _, metrics = update(agent, env, state)
    assert np.isfinite(metrics.losses["loss"])


def test_target_kl_skips_the_rest_of_an_update(monkeypatch):
    agent, env = bound(target_kl=1e3, num_envs=2, num_minibatches=2, learning_rate=1e-2)
    random = np.random.default_rng(0)
    obs = jnp.asarray(random.normal(size=(16, 2, 4)), jnp.float32)
    value, advantage, target = jnp.asarray(random.normal(size=(3, 16, 2)), jnp.float32)
    action = (obs[..., 0] > 0).astype(jnp.int32)
    state = begin(agent, env)
    order = [np.arange(16)]  # the samples of each gradient step

    @functools.partial(jax.jit, static_argnums=2)
    def learned(weights, target_kl, steps):
        monkeypatch.setattr(PPO, "_minibatch_indices", lambda agent, key: jnp.asarray(order[:steps]))
        batch = Batch(obs, None, action, log_prob(state.weights), value, advantage, target)
        begun = state.replace(weights=weights)
        return agent.replace(target_kl=target_kl)._gradient_steps(begun, batch, make_key(0))

    def log_prob(weights):
        return agent._nets.policy_and_value(weights, obs)[0].log_prob(action)

    def flat(tree):
        return ravel_pytree(tree)[0]

    one_step = learned(state.weights, 1e3, 1)
    log_ratio = np.asarray(log_prob(one_step[0]) - log_prob(state.weights), np.float64).ravel()
    divergence = np.exp(log_ratio) - 1 - log_ratio  # of each sample, as the second gradient step finds it
    near, far = np.split(np.argsort(divergence), 2)
    order += [far, near]
    limit = divergence[far].mean() / 1.5
    # The first step starts at a divergence of 0, the second exceeds the limit, and the third would not.
    assert divergence[near].mean() < 0.9 * divergence[far].mean()
    stopped, not_stopped = (learned(state.weights, factor * limit, 3) for factor in (0.99, 1.01))
    np.testing.assert_allclose(flat(stopped[:2]), flat(one_step[:2]), atol=1e-7)
    np.testing.assert_allclose(flat(not_stopped), flat(learned(state.weights, 1e3, 3)), atol=1e-7)
    # The losses are those of the minibatches up to the one that exceeds the limit: two of three.
    np.testing.assert_allclose(flat(stopped[3]), flat(learned(state.weights, 1e3, 2)[3]), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose([stopped[4], not_stopped[4]], [2 / 3, 1], rtol=1e-6)
    assert np.abs(flat(not_stopped[0]) - flat(stopped[0])).max() > 1e-3
    with pytest.raises(ValueError, match="target_kl=0.1 changes nothing with one gradient step per update"):
        bound(target_kl=0.1, num_minibatches=1, num_epochs=1)


def test_rmsprop_is_torchs():
    agent, _ = bound(optimizer="rmsprop", adam_eps=1e-3)
    slopes = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    state, square = agent._optimizer.init(jnp.zeros(5)), np.zeros(5)
    for slope in slopes:
        change, state = agent._optimizer.update(jnp.asarray(slope), state)
        square = 0.99 * square + 0.01 * slope.astype(np.float64) ** 2
        np.testing.assert_allclose(change, slope / (np.sqrt(square) + 1e-3), rtol=1e-5)


def test_without_bootstrap_a_time_limit_counts_as_termination():
    for bootstrap in (False, True):
        agent, env = bound("Probe-TimeLimit-v0", num_steps=8, bootstrap=bootstrap)
        trajectory, batch = collect(agent, env, shaken(begin(agent, env)))
        assert trajectory.truncated[4].all()
        np.testing.assert_allclose(batch.target[4] == 1.0, not bootstrap)  # the last reward, and nothing after it


def test_the_gradient_of_a2c_is_the_policy_gradient():
    agent = to_arrays(AGENTS["a2c"].build(hidden=(8, 8), value_coef=0.0).bind(make("CartPole-v1")))
    env = to_arrays(make("CartPole-v1"))
    state = begin(agent, env)
    _, batch = collect(agent, env, state)

    def by_hand(weights):
        log_p = jax.nn.log_softmax(agent._nets.policy(weights, batch.obs).logits)
        return -jnp.mean(jnp.take_along_axis(log_p, batch.action[..., None], axis=-1)[..., 0] * batch.advantage)

    slopes = jax.jit(lambda w: (jax.grad(lambda w: agent._loss(w, batch)[0])(w), jax.grad(by_hand)(w)))
    found, expected = slopes(state.weights)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert any(np.abs(x).max() > 1e-4 for x in jax.tree.leaves(found))


@pytest.mark.parametrize(
    ("env", "fields", "is_large"),
    [
        ("CartPole-v1", {}, False),
        ("CartPole-v1", {"hidden": (256, 256)}, True),
        ("MinAtar/Breakout-v1", {"torso": "mlp"}, True),
        ("MinAtar/Breakout-v1", {}, False),  # convolutions
    ],
)
def test_plans_mark_policies_whose_matrix_products_need_large_loops(env, fields, is_large):
    plan = make_plan(RunSpec(agent="ppo", env=env, fields=fields, steps=512))
    assert plan.placement.has_large_loops == is_large
