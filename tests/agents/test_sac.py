"""SAC's targets, losses and temperature against NumPy, its schedules by hand, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from shoal.agents.replay_agent import Observed
from shoal.agents.sac import SAC
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box
from shoal.core.struct import Number, struct, to_arrays
from shoal.core.wrappers.base import Wrapper
from shoal.nn.distributions import draw_noise
from shoal.ops.replay import Transitions
from worlds import DialedHorizon, Tally

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
    "activation": "tanh",  # rectifiers take long to bend between the five states of a clock
    "updates": 300,
}
CONTRACT = {"sac": QUICK}


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


def a_learner(agent, env):
    """A learner whose heads are large and whose target differs from its critics."""
    learner = jax.jit(agent.init)(make_key(0), env).learner
    shaken = [
        jax.tree.map(lambda x, i=i: x + 0.3 * jax.random.normal(make_key(i), x.shape), part)
        for i, part in enumerate((learner.actor, learner.target))
    ]
    return learner.replace(actor=shaken[0], target=shaken[1], log_alpha=jnp.float32(np.log(0.3)))


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


def numpy_worth(critics, obs, action):
    joined = np.concatenate([np.asarray(obs, np.float64), np.asarray(action) / 2], axis=1)
    return np.stack([numpy_net(critics, joined, k)[:, 0] for k in range(2)])


def numpy_soft_value(actor, critics, obs, mask=None):
    """(value without entropy, entropy) of discrete actions."""
    obs = np.asarray(obs, np.float64)
    logits = numpy_net(actor, obs)
    p = np.exp(logits) * (1 if mask is None else np.asarray(mask))
    p /= p.sum(axis=1, keepdims=True)
    worth = np.minimum(*(numpy_net(critics, obs, k) for k in range(2)))
    return (p * worth).sum(axis=1), stats.entropy(p, axis=1)


def test_the_loss_of_continuous_critics_equals_a_numpy_version():
    agent, env = bound(learning_rate=0.0)
    learner, batch = a_learner(agent, env), continuous_batch()
    share = jnp.where(jnp.arange(16) < 10, 0.1, 0.0)  # an effective batch of 10
    _, losses = jax.jit(agent._learn_critics)(learner, batch, share, make_key(3))

    noise = draw_noise(env.action_space, make_key(3), (16,))
    action, log_prob = numpy_draw(learner.actor, batch.next_seen.obs, noise)
    after = numpy_worth(learner.target, batch.next_seen.obs, action).min(axis=0) - 0.3 * log_prob
    target = np.asarray(batch.reward) + np.asarray(batch.bootstrap) * after
    error = numpy_worth(learner.critics, batch.seen.obs, batch.action) - target
    np.testing.assert_allclose(losses["loss"], (error[:, :10] ** 2).sum(axis=0).mean(), rtol=1e-4)
    np.testing.assert_allclose(losses["td_error"], np.abs(error[:, :10]).mean(), rtol=1e-4)
    np.testing.assert_allclose(losses["entropy"], -log_prob[:10].mean(), rtol=1e-4)
    np.testing.assert_allclose(losses["alpha"], 0.3, rtol=1e-5)


def test_the_loss_of_discrete_critics_equals_a_numpy_version():
    agent, env = bound("CartPole-v1", learning_rate=0.0)
    learner, batch = a_learner(agent, env), discrete_batch()
    _, losses = jax.jit(agent._learn_critics)(learner, batch, jnp.full(16, 1 / 16), make_key(3))
    value, entropy = numpy_soft_value(learner.actor, learner.target, batch.next_seen.obs)
    target = np.asarray(batch.reward) + np.asarray(batch.bootstrap) * (value + 0.3 * entropy)
    rows = np.arange(16)
    obs = np.asarray(batch.seen.obs)
    error = np.stack([numpy_net(learner.critics, obs, k)[rows, batch.action] for k in range(2)]) - target
    np.testing.assert_allclose(losses["loss"], (error**2).sum(axis=0).mean(), rtol=1e-4)
    np.testing.assert_allclose(losses["entropy"], entropy.mean(), rtol=1e-4)


def test_forbidden_actions_have_no_part_in_expectations():
    agent, env = bound("CartPole-v1")
    learner = a_learner(agent, env)
    mask = jnp.asarray(np.array([[True, True], [True, False]] * 8))
    batch = discrete_batch(mask=mask)
    value, entropy = agent._soft_value(learner.actor, learner.target, jnp.float32(0.3), batch.next_seen, None)
    expected, nats = numpy_soft_value(learner.actor, learner.target, batch.next_seen.obs, mask)
    np.testing.assert_allclose(entropy, nats, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(value, expected + 0.3 * nats, rtol=1e-4, atol=1e-5)
    slope = jax.grad(lambda a: agent._soft_value(a, learner.target, jnp.float32(0.3), batch.next_seen, None)[0].sum())(
        learner.actor
    )
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(slope))
    # The entropy to aim for counts what is allowed: two actions, or one.
    aims = agent._target_entropy(batch.seen)
    np.testing.assert_allclose(aims[:2], [0.5 * np.log(2), 0], rtol=1e-6)


def test_the_policy_climbs_the_soft_value():
    agent, env = bound(policy_delay=1.0, policy_learning_rate=1e-3, alpha_learning_rate=0.0)
    learner, seen, share = a_learner(agent, env), continuous_batch().seen, jnp.full(16, 1 / 16)
    counted = learner.replace(critic_moments=learner.critic_moments._replace(count=jnp.int32(1)))
    after = jax.jit(agent._learn_policy)(counted, seen, share, make_key(4))
    noise = np.asarray(draw_noise(env.action_space, jax.random.fold_in(make_key(4), 0), (16,)))

    def loss(actor):
        action, log_prob = numpy_draw(actor, seen.obs, noise)
        return np.mean(0.3 * log_prob - numpy_worth(learner.critics, seen.obs, action).min(axis=0))

    # Adam's first step goes against the sign of the slope, which differences of the loss in float64 tell.
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
def test_a_delayed_policy_catches_up(delay, visits):
    agent, env = bound(policy_delay=delay)
    learner, batch, share = a_learner(agent, env), continuous_batch(), jnp.full(16, 1 / 16)
    made = []
    for i in range(6):
        learner, _ = jax.jit(agent._learn_critics)(learner, batch, share, make_key(i))
        learner = jax.jit(agent._learn_policy)(learner, batch.seen, share, make_key(10 + i))
        made.append(int(learner.actor_moments.count))
        assert learner.alpha_moments.count == learner.actor_moments.count
    assert made == visits


@pytest.mark.parametrize("ratio", [-0.5, 2.0])
def test_the_temperature_moves_towards_the_entropy_it_aims_for(ratio):
    agent, env = bound(policy_delay=1.0, entropy_ratio=ratio, policy_learning_rate=0.0)
    learner, seen, share = a_learner(agent, env), continuous_batch().seen, jnp.full(16, 1 / 16)
    counted = learner.replace(critic_moments=learner.critic_moments._replace(count=jnp.int32(1)))
    after = jax.jit(agent._learn_policy)(counted, seen, share, make_key(4))
    noise = draw_noise(env.action_space, jax.random.fold_in(make_key(4), 0), (16,))
    entropy = -numpy_draw(learner.actor, seen.obs, noise)[1].mean()
    # Too little entropy makes it dearer. Adam's first step is as long as the rate.
    np.testing.assert_allclose(after.log_alpha - learner.log_alpha, 1e-3 * np.sign(-ratio - entropy), rtol=1e-3)


@struct
class InOtherUnits(Wrapper):
    """An environment whose actions are given in units `unit` times as large, so that numbers are as much smaller."""

    unit: Number = 1.0

    @property
    def action_space(self):
        low, high = self.env.action_space.bounds()
        return Box(low / self.unit, high / self.unit, low.shape)

    def transition(self, state, action, noise):
        return self.env.transition(state, action * self.unit, noise)


def trained_in_units(unit):
    """The learner after 40 updates on Pendulum."""
    fields = {"learning_starts": 20.0, "num_steps": 10, "policy_delay": 1.0, "alpha_learning_rate": 1e-2}
    agent, env = bound(InOtherUnits(make("Pendulum-v1"), unit), **fields)

    @jax.jit
    def train(key):
        return jax.lax.fori_loop(0, 40, lambda i, s: agent.update(s, env, i)[0], agent.init(key, env))

    return train(make_key(0)).learner


def test_results_do_not_depend_on_the_units_of_actions():
    # Torque of at most 2, and the same of at most 1/16; a power of two rounds nothing.
    learners = [jax.tree.leaves(trained_in_units(unit)) for unit in (1.0, 32.0)]
    assert all(np.array_equal(x, y) for x, y in zip(*learners, strict=True))


@pytest.mark.parametrize("half", [0.01, 0.1, 2.0, 50.0])
def test_the_entropy_to_aim_for_can_be_reached_in_a_box_of_any_size(half):
    # On a scale from -1 to 1, where a uniform action has log 2 nats.
    agent, env = bound(InOtherUnits(make("Pendulum-v1"), 2 / half))
    batch = continuous_batch(256)
    learner = jax.jit(agent.init)(make_key(0), env).learner
    noise = draw_noise(env.action_space, make_key(1), (256,))
    _, fresh = agent._soft_value(learner.actor, learner.critics, jnp.float32(1), batch.seen, noise)
    assert agent._target_entropy(batch.seen) < fresh.mean() < np.log(2)


def test_the_temperature_rests_where_the_entropy_is_right_or_where_it_is_fixed():
    agent, env = bound()
    learner = a_learner(agent, env)
    np.testing.assert_array_equal(agent._learn_alpha(learner, jnp.float32(0)).log_alpha, learner.log_alpha)
    fixed = to_arrays(agent.replace(temperature="fixed", alpha=0.7))
    np.testing.assert_array_equal(fixed._learn_alpha(learner, jnp.float32(1)).log_alpha, learner.log_alpha)
    np.testing.assert_allclose(fixed._alpha(learner), 0.7, rtol=1e-6)
    np.testing.assert_allclose(agent._alpha(learner), 0.3, rtol=1e-6)


def test_the_target_follows_by_its_share():
    agent, env = bound(num_steps=4, target_mix=0.25, learning_rate=0.0, learning_starts=0.0, policy_delay=100.0)
    state = agent.init(make_key(0), env)
    learner = state.learner.replace(target=jax.tree.map(lambda x: x + 1, state.learner.critics))
    after, _, due = agent.train_on_replay(agent.learn, learner, state.replay, jnp.int32(1), jnp.int32(1), make_key(1))
    assert due == 4
    for old, new in zip(jax.tree.leaves(learner.critics), jax.tree.leaves(after.target), strict=True):
        np.testing.assert_allclose(new, old + 0.75**4, rtol=1e-4)  # four gradient steps


@pytest.mark.parametrize("env", ["Pendulum-v1", Tally()])
def test_actions_are_uniform_until_learning_starts(env):
    agent, env = bound(env, num_steps=4, num_envs=50, learning_starts=300.0)
    state = agent.init(make_key(0), env)
    certain = {**state.learner.actor, "head": jax.tree.map(jnp.zeros_like, state.learner.actor["head"])}
    certain["head"]["bias"] = certain["head"]["bias"].at[0].set(100.0)
    state = state.replace(learner=state.learner.replace(actor=certain))
    for clock in range(2):
        state, _ = jax.jit(agent.update)(state, env, jnp.int32(clock))
    action = np.asarray(state.replay.action[:8]).reshape(8, 50)
    if isinstance(env.action_space, Box):
        assert stats.kstest(action[:6].ravel(), stats.uniform(-2, 4).cdf).pvalue > 1e-3
        np.testing.assert_array_equal(action[6:], 2)  # from step 300 on the policy's own
    else:
        assert set(action[:6].ravel().tolist()) == {0, 1, 2}
        is_free = np.asarray(state.replay.seen.mask[:6, :, 2])
        assert (action[:6][~is_free] != 2).all() and (action[:6][is_free] == 2).any()
        np.testing.assert_array_equal(action[6:], 0)


@pytest.mark.parametrize("terminates", [False, True])
def test_a_time_limit_bootstraps_and_a_termination_does_not(terminates):
    fields = {key: value for key, value in QUICK.items() if key != "updates"}
    ends = {"max_steps": None, "terminates_after": 5} if terminates else {}
    agent, env = bound(DialedHorizon(**ends), **fields)

    @jax.jit
    def train(key):
        state = agent.init(key, env)
        return jax.lax.fori_loop(0, 250, lambda i, s: agent.update(s, env, i)[0], state)

    state = train(make_key(0))
    steps_left = 5 - np.arange(5)
    expected = (1 - 0.9**steps_left) / (1 - 0.9) if terminates else np.full(5, 10.0)
    values = agent.value(state, jnp.arange(5.0)[:, None] / 5)
    np.testing.assert_allclose(values, expected, rtol=0.05, atol=0.05)


def test_a_value_in_a_box_is_that_of_the_middle_of_the_policy():
    agent, env = bound()
    state = agent.init(make_key(0), env)
    state = state.replace(learner=a_learner(agent, env))
    obs = continuous_batch().seen.obs
    mean, _ = np.split(numpy_net(state.learner.actor, np.asarray(obs, np.float64)), 2, axis=1)
    expected = numpy_worth(state.learner.critics, obs, 2 * np.tanh(mean)).min(axis=0)
    np.testing.assert_allclose(agent.value(state, obs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("env", "fields", "kind", "words"),
    [
        ("Probe-MultiDiscrete-v0", {}, Unsuited, "needs Discrete actions or a Box with finite bounds, not Mul"),
        ("Pendulum-v1", {"num_critics": 0}, ValueError, "num_critics=0 must be at least 1"),
        ("Pendulum-v1", {"temperature": "tunde"}, ValueError, "Did you mean tuned"),
        ("Pendulum-v1", {"activation": "step"}, ValueError, "activation='step' is unknown"),
    ],
)
def test_what_cannot_work_is_refused_in_words(env, fields, kind, words):
    with pytest.raises(kind, match=words):
        bound(env, **fields)
