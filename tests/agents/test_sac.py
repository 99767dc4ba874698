"""SAC: its targets, losses and temperature against NumPy, its schedules by hand, and the values it refuses."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from environments import Tally, TracedHorizon
from shoal.agents.replay_agent import Observed
from shoal.agents.sac import SAC
from shoal.agents.soft_actor_critic import SoftPolicy
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box
from shoal.core.struct import Number, struct, to_arrays
from shoal.core.wrappers.base import Wrapper
from shoal.nn.distributions import sample_noise
from shoal.ops.replay import Transitions
from weights import random_weights

# How it learns the probes of the contract within seconds. The temperature is fixed and small: what the probes promise
# are values without entropy.
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
    "activation": "tanh",  # ReLU networks need many updates to separate the five states of a clock
    "updates": 300,
}
CONTRACT = {
    "sac": QUICK,
    "redq": QUICK | {"num_critics": 3, "train_iterations": 2, "policy_delay": 2, "policy_steps": 2},
}
FIELDS = {key: value for key, value in QUICK.items() if key != "updates"}

# Agents are arguments, so that agents which differ only in hyperparameters share a program.
learn_critics, learn_policy, learn_alpha = map(jax.jit, (SAC._learn_critics, SAC._learn_policy, SAC._learn_alpha))
noise_of = jax.jit(sample_noise, static_argnums=(0, 2))
begin = jax.jit(lambda agent, env: agent.init(make_key(0), env))


@jax.jit
def train(agent, env, state, updates):
    """The state after some updates from the first on."""
    return jax.lax.fori_loop(0, updates, lambda i, s: agent.update(s, env, i)[0], state)


def bound(env="Pendulum-v1", **fields):
    env = make(env) if isinstance(env, str) else env
    agent = SAC(**{"hidden": (8,), "buffer_size": 200, "batch_size": 16, **fields}).bind(env)
    return to_arrays(agent), to_arrays(env)


def continuous_batch(size=16, seed=0):
    random = np.random.default_rng(seed)
    obs, after = random.normal(size=(2, size, 3)).astype(np.float32)
    action = random.uniform(-2, 2, (size, 1)).astype(np.float32)
    return transitions(random, obs, action, after, None)


def discrete_batch(size=16, seed=0, mask=None):
    random = np.random.default_rng(seed)
    obs, after = random.normal(size=(2, size, 4)).astype(np.float32)
    return transitions(random, obs, random.integers(0, 2, size).astype(np.int32), after, mask)


def transitions(random, obs, action, after, mask):
    reward = random.normal(size=len(obs)).astype(np.float32)
    bootstrap = np.where(random.random(len(obs)) < 0.3, 0, 0.99).astype(np.float32)
    arrays = [jnp.asarray(x) for x in (action, reward, bootstrap)]
    return Transitions(Observed(jnp.asarray(obs), mask), *arrays, Observed(jnp.asarray(after), mask))


def untrained_learner(agent):
    """An untrained learner with large head weights, whose target weights differ from those of its critics."""
    seen, space = jnp.zeros((1, *agent.observation_space.shape)), agent.action_space
    shapes = jax.eval_shape(agent.init_learner, make_key(0), seen, jnp.zeros(space.shape, space.dtype))
    names = ("actor", "critics", "target")
    drawn = {name: random_weights(getattr(shapes, name), seed=i) for i, name in enumerate(names)}
    return random_weights(shapes, deviation=0).replace(**drawn, log_alpha=jnp.float32(np.log(0.3)))


def numpy_net(weights, x, critic=None):
    def pick(leaf):
        return np.asarray(leaf if critic is None else leaf[critic], np.float64)

    torso = weights["torso"]["params"]["Dense_0"]
    hidden = np.maximum(x @ pick(torso["kernel"]) + pick(torso["bias"]), 0)
    return hidden @ pick(weights["head"]["kernel"]) + pick(weights["head"]["bias"])


def numpy_draw(actor, obs, noise):
    """(action in [-2, 2], log-density of its half), the density by scipy and the slope of tanh as it is defined."""
    mean, spread = np.split(numpy_net(actor, np.asarray(obs, np.float64)), 2, axis=1)
    std = np.exp(-5 + 3.5 * (np.tanh(spread) + 1))
    u = mean + std * np.asarray(noise, np.float64)
    log_prob = stats.norm.logpdf(u, mean, std) - np.log(1 - np.tanh(u) ** 2)
    return 2 * np.tanh(u), log_prob.sum(axis=1)


def numpy_q_values(critics, obs, action, count=2):
    joined = np.concatenate([np.asarray(obs, np.float64), np.asarray(action) / 2], axis=1)
    return np.stack([numpy_net(critics, joined, k)[:, 0] for k in range(count)])


def numpy_soft_value(actor, critics, obs, mask=None):
    """(value without entropy, entropy) of discrete actions."""
    obs = np.asarray(obs, np.float64)
    logits = numpy_net(actor, obs)
    p = np.exp(logits) * (1 if mask is None else np.asarray(mask))
    p /= p.sum(axis=1, keepdims=True)
    q_values = np.minimum(*(numpy_net(critics, obs, k) for k in range(2)))
    return (p * q_values).sum(axis=1), stats.entropy(p, axis=1)


def test_the_loss_of_continuous_critics_equals_a_numpy_version():
    agent, env = bound(learning_rate=0.0)
    learner, batch = untrained_learner(agent), continuous_batch()
    share = jnp.where(jnp.arange(16) < 10, 0.1, 0.0)  # an effective batch of 10
    _, losses, _ = learn_critics(agent, learner, batch, share, make_key(3))

    noise = noise_of(env.action_space, make_key(3), (16,))
    action, log_prob = numpy_draw(learner.actor, batch.next_observed.obs, noise)
    after = numpy_q_values(learner.target, batch.next_observed.obs, action).min(axis=0) - 0.3 * log_prob
    target = np.asarray(batch.reward) + np.asarray(batch.bootstrap) * after
    error = numpy_q_values(learner.critics, batch.observed.obs, batch.action) - target
    np.testing.assert_allclose(losses["loss"], (error[:, :10] ** 2).sum(axis=0).mean(), rtol=1e-4)
    np.testing.assert_allclose(losses["td_error"], np.abs(error[:, :10]).mean(), rtol=1e-4)
    np.testing.assert_allclose(losses["entropy"], -log_prob[:10].mean(), rtol=1e-4)
    np.testing.assert_allclose(losses["alpha"], 0.3, rtol=1e-5)


def test_the_loss_of_discrete_critics_equals_a_numpy_version():
    agent, env = bound("CartPole-v1", learning_rate=0.0)
    learner, batch = untrained_learner(agent), discrete_batch()
    _, losses, _ = learn_critics(agent, learner, batch, jnp.full(16, 1 / 16), make_key(3))
    value, entropy = numpy_soft_value(learner.actor, learner.target, batch.next_observed.obs)
    target = np.asarray(batch.reward) + np.asarray(batch.bootstrap) * (value + 0.3 * entropy)
    rows = np.arange(16)
    obs = np.asarray(batch.observed.obs)
    error = np.stack([numpy_net(learner.critics, obs, k)[rows, batch.action] for k in range(2)]) - target
    np.testing.assert_allclose(losses["loss"], (error**2).sum(axis=0).mean(), rtol=1e-4)
    np.testing.assert_allclose(losses["entropy"], entropy.mean(), rtol=1e-4)


def test_forbidden_actions_do_not_enter_expectations():
    agent, env = bound("CartPole-v1")
    learner = untrained_learner(agent)
    mask = jnp.asarray(np.array([[True, True], [True, False]] * 8))
    batch = discrete_batch(mask=mask)

    @jax.jit
    def values(actor):
        def total(actor):
            policy = agent._policy(actor, batch.next_observed)
            value, entropy = agent.soft_value(policy, learner.target, jnp.float32(0.3), batch.next_observed, None)
            return value.sum(), (value, entropy)

        return *jax.grad(total, has_aux=True)(actor), agent._target_entropy(batch.observed)

    slope, (value, entropy), aims = values(learner.actor)
    expected, nats = numpy_soft_value(learner.actor, learner.target, batch.next_observed.obs, mask)
    np.testing.assert_allclose(entropy, nats, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(value, expected + 0.3 * nats, rtol=1e-4, atol=1e-5)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(slope))
    # The target entropy counts allowed actions only: two, or one.
    np.testing.assert_allclose(aims[:2], [0.5 * np.log(2), 0], rtol=1e-6)


def test_targets_of_an_ensemble_use_a_random_subset_and_the_policy_all():
    agent, env = bound(learning_rate=0.0, num_critics=4, subset=2)
    learner, batch = untrained_learner(agent), continuous_batch()
    now, chosen = numpy_q_values(learner.critics, batch.observed.obs, batch.action, count=4), set()
    for seed in range(8):
        _, logged, _ = learn_critics(agent, learner, batch, jnp.full(16, 1 / 16), make_key(seed))
        noise = noise_of(env.action_space, jax.random.split(make_key(seed))[0], (16,))
        action, log_prob = numpy_draw(learner.actor, batch.next_observed.obs, noise)
        later = numpy_q_values(learner.target, batch.next_observed.obs, action, count=4)
        possible = []
        for pair in itertools.combinations(range(4), 2):
            target = batch.reward + batch.bootstrap * (later[list(pair)].min(axis=0) - 0.3 * log_prob)
            possible.append(((now - target[None]) ** 2).sum(axis=0).mean())
        equal = np.isclose(float(logged["loss"]), possible, rtol=1e-4)  # or several, if their smaller critic is one
        assert equal.any()
        chosen.add(tuple(equal))
    assert len(chosen) > 1
    known = SoftPolicy(learner.actor, learner.critics, learner.log_alpha)
    mean, _ = np.split(numpy_net(learner.actor, np.asarray(batch.observed.obs, np.float64)), 2, axis=1)
    expected = numpy_q_values(learner.critics, batch.observed.obs, 2 * np.tanh(mean), count=4).mean(axis=0)
    np.testing.assert_allclose(jax.jit(SAC.value)(agent, known, batch.observed.obs), expected, rtol=1e-4, atol=1e-5)


def test_the_policy_gradient_increases_the_soft_value():
    agent, env = bound(policy_delay=1.0, policy_learning_rate=1e-3, alpha_learning_rate=0.0)
    learner, batch, share = untrained_learner(agent), continuous_batch(), jnp.full(16, 1 / 16)
    seen = batch.observed
    counted = learner.replace(critic_moments=learner.critic_moments._replace(count=jnp.int32(1)))
    after = learn_policy(agent, counted, batch, share, make_key(4))
    noise = np.asarray(noise_of(env.action_space, jax.random.fold_in(make_key(4), 0), (16,)))

    def loss(actor):
        action, log_prob = numpy_draw(actor, seen.obs, noise)
        return np.mean(0.3 * log_prob - numpy_q_values(learner.critics, seen.obs, action).min(axis=0))

    # Adam's first step goes against the sign of the slope, which finite differences of the loss in float64 give.
    bias = np.asarray(learner.actor["head"]["bias"], np.float64)
    moved = np.asarray(after.actor["head"]["bias"]) - np.asarray(learner.actor["head"]["bias"])
    for i in range(2):
        ends = []
        for nudge in (1e-5, -1e-5):
            changed = bias.copy()
            changed[i] += nudge
            ends.append(loss({**learner.actor, "head": {**learner.actor["head"], "bias": changed}}))
        np.testing.assert_allclose(moved[i], -1e-3 * np.sign(ends[0] - ends[1]), rtol=1e-3)


@pytest.mark.parametrize(("delay", "visits"), [(1.0, [1, 2, 3, 4, 5, 6]), (3.0, [0, 0, 3, 3, 3, 6])])
def test_a_delayed_policy_takes_as_many_gradient_steps_as_the_critics(delay, visits):
    agent, env = bound(policy_delay=delay)
    learner, batch, share = untrained_learner(agent), continuous_batch(), jnp.full(16, 1 / 16)
    made = []
    for i in range(6):
        learner, _, _ = learn_critics(agent, learner, batch, share, make_key(i))
        learner = learn_policy(agent, learner, batch, share, make_key(10 + i))
        made.append(int(learner.actor_moments.count))
        assert learner.alpha_moments.count == learner.actor_moments.count
    assert made == visits


@pytest.mark.parametrize("ratio", [-0.5, 2.0])
def test_the_temperature_moves_the_entropy_towards_its_target(ratio):
    agent, env = bound(policy_delay=1.0, entropy_ratio=ratio, policy_learning_rate=0.0)
    learner, batch, share = untrained_learner(agent), continuous_batch(), jnp.full(16, 1 / 16)
    seen = batch.observed
    counted = learner.replace(critic_moments=learner.critic_moments._replace(count=jnp.int32(1)))
    after = learn_policy(agent, counted, batch, share, make_key(4))
    noise = noise_of(env.action_space, jax.random.fold_in(make_key(4), 0), (16,))
    entropy = -numpy_draw(learner.actor, seen.obs, noise)[1].mean()
    # Too little entropy increases the temperature. Adam's first step is as long as the rate.
    np.testing.assert_allclose(after.log_alpha - learner.log_alpha, 1e-3 * np.sign(-ratio - entropy), rtol=1e-3)


@struct
class InOtherUnits(Wrapper):
    """An environment whose actions are divided by `unit`."""

    unit: Number = 1.0

    @property
    def action_space(self):
        low, high = self.env.action_space.bounds()
        return Box(low / self.unit, high / self.unit, low.shape)

    def transition(self, state, action, noise):
        return self.env.transition(state, action * self.unit, noise)


def trained_in_units(env):
    """The learner after 20 updates of a tuned temperature."""
    tuned = {"temperature": "tuned", "policy_delay": 1.0, "alpha_learning_rate": 1e-2}
    agent, env = bound(env, **{**FIELDS, **tuned})
    return train(agent, env, begin(agent, env), 20).learner


def test_results_do_not_depend_on_the_units_of_actions():
    # A reward for actions of at most 2, and the same of at most 1/16; a power of two rounds nothing.
    env = TracedHorizon(gain=0.5)
    learners = [jax.tree.leaves(trained_in_units(scaled_env)) for scaled_env in (env, InOtherUnits(env, 32.0))]
    assert all(np.array_equal(x, y) for x, y in zip(*learners, strict=True))


def test_a_tuned_temperature_reads_alpha_only_at_the_start():
    agent, env = bound("Probe-ContinuousMatching-v0", **FIELDS)
    state = begin(agent, env)
    for temperature, is_read in (("tuned", False), ("fixed", True)):
        one, other = (
            train(to_arrays(agent.replace(temperature=temperature, alpha=alpha)), env, state, 4).learner.actor
            for alpha in (0.1, 0.9)
        )
        is_equal = all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))
        assert is_equal != is_read


@pytest.mark.sampled(2)
@pytest.mark.parametrize("half", [0.01, 0.1, 2.0, 50.0])
def test_the_target_entropy_can_be_reached_in_a_box_of_any_size(half):
    # On a scale from -1 to 1, where a uniform action has log 2 nats.
    agent, env = bound(InOtherUnits(make("Pendulum-v1"), 2 / half))
    batch = continuous_batch(256)

    @jax.jit
    def entropies(key, noise):
        learner = agent.init_learner(key, batch.observed.obs[:1], batch.action[0])
        policy = agent._policy(learner.actor, batch.observed)
        return agent.soft_value(policy, learner.critics, jnp.float32(1), batch.observed, noise)[1]

    fresh = np.asarray(entropies(make_key(0), noise_of(Box(-2.0, 2.0, (1,)), make_key(1), (256,))))
    assert agent._target_entropy(batch.observed) < fresh.mean() < np.log(2)


def test_the_temperature_stays_at_the_target_entropy_and_where_it_is_fixed():
    agent, env = bound()
    learner = untrained_learner(agent)
    np.testing.assert_array_equal(learn_alpha(agent, learner, jnp.float32(0)).log_alpha, learner.log_alpha)
    fixed = to_arrays(agent.replace(temperature="fixed", alpha=0.7))
    np.testing.assert_array_equal(learn_alpha(fixed, learner, jnp.float32(1)).log_alpha, learner.log_alpha)
    np.testing.assert_allclose(fixed._alpha(learner), 0.7, rtol=1e-6)
    np.testing.assert_allclose(agent._alpha(learner), 0.3, rtol=1e-6)


def test_the_target_network_moves_by_target_mix():
    still = {"target_mix": 0.25, "learning_rate": 0.0, "learning_starts": 0.0}
    agent, env = bound(TracedHorizon(), **{**FIELDS, **still})
    state = begin(agent, env)
    learner = state.learner.replace(target=jax.tree.map(lambda x: np.asarray(x) + 1, state.learner.critics))
    after = train(agent, env, state.replace(learner=learner), 1).learner
    assert after.critic_moments.count == 10  # gradient steps
    for old, new in zip(jax.tree.leaves(learner.critics), jax.tree.leaves(after.target), strict=True):
        np.testing.assert_allclose(new, np.asarray(old) + 0.75**10, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("env", [TracedHorizon(), Tally()])
def test_actions_are_uniform_until_learning_starts(env):
    agent, env = bound(env, **{**FIELDS, "learning_starts": 300.0, "train_frequency": 1e6})
    state = begin(agent, env)
    certain = random_weights(state.learner.actor, deviation=0)
    certain["head"]["bias"] = certain["head"]["bias"].at[0].set(100.0)
    state = state.replace(learner=state.learner.replace(actor=certain))
    replay = train(agent, env, state, 10).replay
    action = np.asarray(replay.action)[:100].reshape(100, 4)
    if isinstance(env.action_space, Box):
        assert stats.kstest(action[:75].ravel(), stats.uniform(-2, 4).cdf).pvalue > 1e-3
        np.testing.assert_array_equal(action[75:], 2)  # from step 300 on the policy's own
    else:
        assert set(action[:75].ravel().tolist()) == {0, 1, 2}
        is_free = np.asarray(replay.observed.mask)[:75, :, 2]
        assert (action[:75][~is_free] != 2).all() and (action[:75][is_free] == 2).any()
        np.testing.assert_array_equal(action[75:], 0)


@pytest.mark.parametrize("terminates", [False, True])
def test_a_time_limit_bootstraps_and_a_termination_does_not(terminates):
    agent, env = bound(TracedHorizon(), **FIELDS)
    if terminates:
        env = to_arrays(env.replace(max_steps=10**6, terminates_after=5))
    known = agent.policy_state(train(agent, env, begin(agent, env), 250))
    steps_left = 5 - np.arange(5)
    expected = (1 - 0.9**steps_left) / (1 - 0.9) if terminates else np.full(5, 10.0)
    values = jax.jit(SAC.value)(agent, known, np.arange(5, dtype=np.float32)[:, None] / 5)
    np.testing.assert_allclose(values, expected, rtol=0.05, atol=0.05)


def test_the_value_with_continuous_actions_is_the_q_value_of_the_mode():
    agent, env = bound()
    learner, obs = untrained_learner(agent), continuous_batch().observed.obs
    mean, _ = np.split(numpy_net(learner.actor, np.asarray(obs, np.float64)), 2, axis=1)
    expected = numpy_q_values(learner.critics, obs, 2 * np.tanh(mean)).min(axis=0)
    known = SoftPolicy(learner.actor, learner.critics, learner.log_alpha)
    np.testing.assert_allclose(jax.jit(SAC.value)(agent, known, obs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("env", "fields", "kind", "words"),
    [
        ("Probe-MultiDiscrete-v0", {}, Unsuited, "needs Discrete actions or a Box with finite bounds, not Mul"),
        ("Pendulum-v1", {"subset": 3}, ValueError, "subset=3 must be from 0 to num_critics=2"),
        ("Pendulum-v1", {"num_critics": 0}, ValueError, "num_critics=0 must be at least 1"),
        ("Pendulum-v1", {"temperature": "tunde"}, ValueError, "Did you mean tuned"),
        ("Pendulum-v1", {"activation": "step"}, ValueError, "activation='step' is unknown"),
    ],
)
def test_invalid_values_are_refused(env, fields, kind, words):
    with pytest.raises(kind, match=words):
        bound(env, **fields)
