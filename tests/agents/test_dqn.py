"""DQN: its losses against NumPy, its schedules by hand, its options, and the values it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.agents.dqn import DQN
from shoal.agents.replay_agent import Observed, steps_of
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import fill_caps, to_arrays
from shoal.ops.replay import Transitions
from shoal.specs.spec import RunSpec
from shoal.training.plan import make_plan
from shoal.training.program import Member, train_chunk

# How the family learns the probes of the contract within seconds.
QUICK = {
    "learning_rate": 3e-3,
    "discount": 0.9,
    "batch_size": 64,
    "buffer_size": 2000,
    "learning_starts": 100,
    "train_frequency": 10,
    "target_period": 40,
    "epsilon_end": 0.3,
    "horizon": 300 * 40,
    "num_envs": 4,
    "num_steps": 10,
    "hidden": (32, 32),
    "updates": 300,
}
CONTRACT = {
    "dqn": QUICK | {"updates": 600, "horizon": 600 * 40},  # one-hot states share no weights and take longer
    "c51": QUICK | {"learning_rate": 1e-2, "hidden": (32,), "v_min": -2.0, "v_max": 12.0, "train_iterations": 2},
    "iqn": QUICK | {"atoms": 8, "train_iterations": 2, "updates": 600, "horizon": 600 * 40},
    "rainbow": {k: v for k, v in QUICK.items() if k != "epsilon_end"}
    | {"learning_rate": 1e-2, "hidden": (32,), "v_min": -2.0, "v_max": 12.0, "train_iterations": 2},
}


def bound(env="CartPole-v1", **fields):
    env = make(env) if isinstance(env, str) else env
    return to_arrays(DQN(**{"hidden": (8,), "buffer_size": 200, "batch_size": 16, **fields}).bind(env)), to_arrays(env)


def random_batch(agent, size=16, seed=0):
    random = np.random.default_rng(seed)
    obs, after = random.normal(size=(2, size, 4)).astype(np.float32)
    action = random.integers(0, 2, size).astype(np.int32)
    reward = random.normal(size=size).astype(np.float32)
    bootstrap = np.where(random.random(size) < 0.3, 0, 0.99).astype(np.float32)
    seen, next_observed = (Observed(jnp.asarray(x), None) for x in (obs, after))
    return Transitions(seen, jnp.asarray(action), jnp.asarray(reward), jnp.asarray(bootstrap), next_observed)


begin = jax.jit(lambda agent, env: agent.init(make_key(0), env))


@jax.jit
def two_networks(agent):
    """Weights and target weights that differ."""
    weights = agent._net.init(make_key(0), jnp.zeros((1, 4)))
    return weights, jax.tree.map(lambda x: x + 0.3 * jax.random.normal(make_key(1), x.shape), weights)


def numpy_q(weights, obs):
    torso = weights["torso"]["params"]["Dense_0"]
    hidden = np.maximum(np.asarray(obs) @ np.asarray(torso["kernel"], np.float64) + np.asarray(torso["bias"]), 0)
    return hidden @ np.asarray(weights["advantage"]["kernel"], np.float64) + np.asarray(weights["advantage"]["bias"])


@pytest.mark.parametrize("double", [False, True])
def test_the_loss_equals_a_numpy_version(double):
    agent, _ = bound(double=double)
    weights, target = two_networks(agent)
    batch = random_batch(agent)
    share = jnp.where(jnp.arange(16) < 10, 0.1, 0.0)  # an effective batch of 10
    loss, (error, losses) = jax.jit(agent._loss)(weights, target, batch, share, make_key(2))

    now, later = numpy_q(weights, batch.observed.obs), numpy_q(target, batch.next_observed.obs)
    judge = numpy_q(weights, batch.next_observed.obs) if double else later
    best = later[np.arange(16), judge.argmax(1)]
    expected = now[np.arange(16), batch.action] - (batch.reward + batch.bootstrap * best)
    np.testing.assert_allclose(error, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(loss, (expected[:10] ** 2).mean(), rtol=1e-4)
    np.testing.assert_allclose(losses["td_error"], np.abs(expected[:10]).mean(), rtol=1e-4)


def numpy_softmax(x):
    return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)


def numpy_categorical(now, later, reward, bootstrap, support):
    """(cross-entropy, loss): the target distribution, shifted, clipped and projected to the atoms in a loop."""
    target, step = np.zeros(len(support)), support[1] - support[0]
    for z, p in zip(support, numpy_softmax(later), strict=True):
        place = (np.clip(reward + bootstrap * z, support[0], support[-1]) - support[0]) / step
        low = int(np.floor(place))
        target[low] += p * (1 - (place - low))
        if place > low:
            target[low + 1] += p * (place - low)
    loss = -(target * np.log(numpy_softmax(now))).sum()
    return loss + (target * np.log(np.maximum(target, 1e-300))).sum(), loss


def numpy_quantile(now, later, reward, bootstrap, kappa, levels=None):
    loss = 0.0
    for i, quantile in enumerate(now):
        for other in reward + bootstrap * later:
            error, level = other - quantile, (i + 0.5) / len(now) if levels is None else levels[i]
            huber = 0.5 * error**2 if abs(error) <= kappa else kappa * (abs(error) - 0.5 * kappa)
            loss += abs(level - (error < 0)) * huber / kappa / len(later)
    return loss, loss


@pytest.mark.sampled(2)
@pytest.mark.parametrize("head", ["categorical", "quantile"])
@pytest.mark.parametrize("double", [False, True])
def test_the_loss_of_a_distribution_equals_a_numpy_version(head, double):
    bounds = {"v_min": -3.0, "v_max": 2.0} if head == "categorical" else {"kappa": 0.7}
    agent, _ = bound(head=head, double=double, atoms=6, **bounds)
    weights, target = two_networks(agent)
    batch = random_batch(agent)
    loss, (surprise, _) = jax.jit(agent._loss)(weights, target, batch, jnp.full(16, 1 / 16), make_key(2))

    support = np.linspace(-3, 2, 6)
    now, online, later = (
        numpy_q(w, seen.obs).reshape(16, 2, 6)
        for w, seen in ((weights, batch.observed), (weights, batch.next_observed), (target, batch.next_observed))
    )
    judge = online if double else later
    q_values = (numpy_softmax(judge) * support).sum(axis=-1) if head == "categorical" else judge.mean(axis=-1)
    known = []
    for b, best in enumerate(q_values.argmax(axis=1)):
        given = now[b, batch.action[b]], later[b, best], float(batch.reward[b]), float(batch.bootstrap[b])
        known.append(numpy_categorical(*given, support) if head == "categorical" else numpy_quantile(*given, 0.7))
    surprises, losses = np.array(known).T
    np.testing.assert_allclose(surprise, surprises, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(loss, losses.mean(), rtol=1e-4)


def numpy_implicit(weights, obs, levels):
    """Quantiles [B, A, Z] at levels [B, Z], by the formulas of the paper."""
    torso = weights["torso"]["params"]["Dense_0"]
    hidden = np.maximum(np.asarray(obs) @ np.asarray(torso["kernel"], np.float64) + np.asarray(torso["bias"]), 0)
    cosines = np.cos(np.pi * np.asarray(levels, np.float64)[..., None] * np.arange(64))
    layer, head = weights["levels"], weights["advantage"]
    phi = np.maximum(cosines @ np.asarray(layer["kernel"], np.float64) + np.asarray(layer["bias"]), 0)
    out = (hidden[:, None] * phi) @ np.asarray(head["kernel"], np.float64) + np.asarray(head["bias"])
    return np.swapaxes(out, 1, 2)


@pytest.mark.parametrize(("double", "munchausen"), [(False, False), (True, False), (False, True)])
def test_the_loss_of_an_implicit_head_equals_a_numpy_version(double, munchausen):
    agent, _ = bound(head="implicit", double=double, munchausen=munchausen, atoms=6, kappa=0.7)
    weights, target = two_networks(agent)
    batch, key = random_batch(agent), make_key(2)
    loss, _ = jax.jit(agent._loss)(weights, target, batch, jnp.full(16, 1 / 16), key)
    online_key, target_key = jax.random.split(key)
    if munchausen:
        target_key, _ = jax.random.split(target_key)
    levels, next_levels = (
        agent._noise_and_levels(k, weights, (16,))[1] for k in (online_key, jax.random.split(target_key)[0])
    )
    assert np.min(levels) > 0 and np.max(levels) < 1 and np.unique(levels).size == levels.size

    middle = np.broadcast_to((np.arange(6) + 0.5) / 6, (16, 6))
    now = numpy_implicit(weights, batch.observed.obs, levels)
    later = numpy_implicit(target, batch.next_observed.obs, next_levels)
    judge = numpy_implicit(weights if double else target, batch.next_observed.obs, middle).mean(axis=2)
    before = numpy_implicit(target, batch.observed.obs, middle).mean(axis=2)
    losses = []
    for b in range(16):
        reward, bootstrap = float(batch.reward[b]), float(batch.bootstrap[b])
        after = later[b, judge[b].argmax()]
        if munchausen:
            reward += 0.9 * np.clip(0.03 * numpy_log_softmax(before[b] / 0.03)[batch.action[b]], -1, 0)
            log_p = numpy_log_softmax(judge[b] / 0.03)
            after = sum(np.exp(log_p[a]) * (later[b, a] - 0.03 * log_p[a]) for a in range(2))
        losses.append(numpy_quantile(now[b, batch.action[b]], after, reward, bootstrap, 0.7, np.asarray(levels[b]))[0])
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-3)


def numpy_log_softmax(x):
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


def test_the_munchausen_loss_equals_a_numpy_version_and_leaves_out_forbidden_actions():
    agent, _ = bound(munchausen=True, munchausen_temperature=0.5, munchausen_clip=-0.3, munchausen_scale=0.8)
    weights, target = two_networks(agent)
    batch = random_batch(agent)
    mask = np.array([[True, True], [True, False]] * 8)
    action = np.where(mask[:, 1], np.asarray(batch.action), 0)
    batch = batch.replace(
        action=jnp.asarray(action),
        observed=batch.observed.replace(mask=jnp.asarray(mask)),
        next_observed=batch.next_observed.replace(mask=jnp.asarray(mask[::-1])),
    )
    (loss, _), slope = jax.jit(jax.value_and_grad(agent._loss, has_aux=True))(
        weights, target, batch, jnp.full(16, 1 / 16), make_key(2)
    )
    now = numpy_q(weights, batch.observed.obs)
    before, later = (numpy_q(target, seen.obs) for seen in (batch.observed, batch.next_observed))
    errors = []
    for b in range(16):
        own, after = np.flatnonzero(mask[b]), np.flatnonzero(mask[::-1][b])
        log_own = numpy_log_softmax(before[b, own] / 0.5)[list(own).index(action[b])]
        log_p = numpy_log_softmax(later[b, after] / 0.5)
        soft = (np.exp(log_p) * (later[b, after] - 0.5 * log_p)).sum()
        reward = batch.reward[b] + 0.8 * np.clip(0.5 * log_own, -0.3, 0)
        errors.append(now[b, action[b]] - (reward + batch.bootstrap[b] * soft))
    np.testing.assert_allclose(loss, np.mean(np.square(errors)), rtol=1e-4)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(slope))


def test_an_implicit_network_acts_by_the_mean_over_the_middles_of_equal_parts():
    agent, _ = bound(head="implicit", atoms=4, dueling=True, noisy=True)
    weights, _ = two_networks(agent)
    obs = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)), jnp.float32)
    noise = agent._net.sample_noise(make_key(1), weights, (3,))
    middle = jnp.broadcast_to((jnp.arange(4) + 0.5) / 4, (3, 4))
    for used in (None, noise):
        out = agent._net(weights, obs, used, middle)
        assert out.shape == (3, 2, 4)
        np.testing.assert_allclose(agent.q_values(weights, obs, used), out.mean(axis=-1), rtol=1e-5)
    alone = agent.q_values(weights, obs[0], jax.tree.map(lambda x: x[0], noise))
    np.testing.assert_allclose(alone, agent.q_values(weights, obs, noise)[0], rtol=1e-5, atol=1e-6)
    assert np.unique(np.asarray(out[0, 0])).size == 4


def test_a_huber_loss_is_linear_beyond_kappa():
    agent, _ = bound(loss="huber", kappa=0.5)
    weights, target = two_networks(agent)
    loss, (error, _) = jax.jit(agent._loss)(weights, target, random_batch(agent), jnp.full(16, 1 / 16), make_key(2))
    size = np.abs(np.asarray(error, np.float64))
    assert (size < 0.5).any() and (size > 0.5).any()
    np.testing.assert_allclose(loss, np.where(size < 0.5, size**2 / 2, 0.5 * (size - 0.25)).mean(), rtol=1e-4)


def test_importance_weights_follow_the_sampling_probabilities():
    # Schaul et al. 2016, section 3.4: (N p)^-beta over the largest in the batch; beta rises from 0.4 to 1.
    fields = {"num_envs": 1, "num_steps": 4, "buffer_size": 40, "batch_size": 32, "max_batch_size": 40, "horizon": 100}
    agent, env = bound(prioritized=True, importance_exponent=0.4, **fields)
    given = {0: 1.0, 3: 2.0, 5: 5.0}  # by the row, from the oldest of the 6 that may be drawn

    @jax.jit
    def drawn(age):
        state = agent.init(make_key(0), env).replace(age=age)
        newest = state.replay.newest(age)  # it lacks a successor
        rows = (newest - 6 + jnp.asarray([*given], jnp.int32)) % 40
        priorities = state.priorities.set(rows, jnp.asarray([*given.values()]))
        index, weight = agent._sample_indices(state.replay, priorities, age, make_key(1), newest, jnp.int32(6))
        return (index - newest + 6) % 40, weight

    for age, beta in ((0, 0.4), (25, 1.0)):
        row, weight = map(np.asarray, drawn(jnp.int32(age)))
        expected = np.array([(6 * given[int(i)] / 8) ** -beta for i in row])
        np.testing.assert_allclose(weight[:32], expected[:32] / expected[:32].max() / 32, rtol=1e-5)
        assert not weight[32:].any() and {int(i) for i in row} == set(given)


def test_no_gradient_flows_through_the_target():
    agent, _ = bound(double=True)
    weights, target = two_networks(agent)
    share = jnp.full(16, 1 / 16)
    slope = jax.jit(jax.grad(lambda t: agent._loss(weights, t, random_batch(agent), share, make_key(2))[0]))(target)
    assert all(not x.any() for x in jax.tree.leaves(slope))


def test_targets_ignore_forbidden_actions():
    agent, _ = bound()
    weights, target = two_networks(agent)
    batch = random_batch(agent)
    only_left = jnp.broadcast_to(jnp.asarray([True, False]), (16, 2))
    batch = batch.replace(next_observed=Observed(batch.next_observed.obs, only_left))

    @jax.jit
    def next_output(batch):
        hidden = agent._hidden(weights, batch).successor, agent._hidden(target, batch).successor
        return agent._next_output(weights, target, hidden, batch, make_key(3))

    after = next_output(batch)[:, 0]
    np.testing.assert_allclose(after, numpy_q(target, batch.next_observed.obs)[:, 0], rtol=1e-4, atol=1e-5)


def test_a_dueling_network_adds_advantages_that_are_zero_on_average():
    agent, _ = bound(dueling=True)

    @jax.jit
    def both(key, obs):
        weights = agent._net.init(key, obs)
        hidden = agent.network.apply(weights["torso"], obs)
        return agent.q_values(weights, obs), hidden @ weights["value"]["kernel"] + weights["value"]["bias"][None]

    q_values, value = both(make_key(0), np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32))
    np.testing.assert_allclose(np.mean(q_values, axis=1), value[:, 0], rtol=1e-4, atol=1e-6)


def test_noisy_layers_have_factorised_noise_that_differs_by_observation():
    agent, _ = bound(noisy=True)
    obs = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)

    @jax.jit
    def draw(key, obs):
        net = agent._net
        weights = net.init(key, obs)
        noise = net.sample_noise(make_key(2), weights, (3,))
        hidden = agent.network.apply(weights["torso"], obs)
        return (
            weights,
            noise,
            hidden,
            net(weights, obs, noise)[..., 0],
            net(weights, obs)[..., 0],
            agent.q_values(weights, obs),
        )

    weights, noise, hidden, out, silent, q_values = jax.tree.map(np.asarray, draw(make_key(0), obs))
    sigma = weights["advantage_sigma"]
    assert np.allclose(sigma["kernel"], 0.5 / np.sqrt(8))
    for b in range(3):  # a matrix of noise for each, written out
        into, outof = noise["advantage"][b, :8], noise["advantage"][b, 8:]
        kernel = weights["advantage"]["kernel"] + sigma["kernel"] * np.outer(into, outof)
        bias = weights["advantage"]["bias"] + sigma["bias"] * outof
        np.testing.assert_allclose(out[b], hidden[b] @ kernel + bias, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(silent, q_values)  # no noise: the mean


def test_gradient_steps_are_due_every_so_many_steps_once_learning_has_started():
    agent, _ = bound(num_steps=10, train_frequency=25.0, train_iterations=2.0, learning_starts=50.0)
    due = jax.jit(jax.vmap(agent.gradient_steps_due))(jnp.arange(10, dtype=jnp.int32)).tolist()
    # After 10, 20, ..., 100 steps: multiples of 25 are passed at 30, 50, 80 and 100; those up to 50 do not count.
    assert due == [0, 0, 0, 0, 0, 0, 0, 2, 0, 2]


def test_the_target_network_is_copied_when_its_period_ends():
    agent, env = bound(num_steps=10, target_period=20.0, target_mix=0.25)
    state = begin(agent, env)
    state = state.replace(weights=jax.tree.map(lambda x: np.asarray(x) + 1, state.target))
    refreshed = jax.jit(DQN._updated_target)
    full, last = agent.replace(target_mix=jnp.float32(1)), state.replace(age=jnp.int32(1))
    kept = refreshed(agent, state.replace(age=jnp.int32(0)))  # after 10 steps
    mixed = refreshed(agent, state.replace(age=jnp.int32(1)))  # after 20
    twice = refreshed(agent.replace(target_period=jnp.float32(5)), state)  # two periods within the first update
    for old, same, new, further in zip(*map(jax.tree.leaves, (state.target, kept, mixed, twice)), strict=True):
        np.testing.assert_array_equal(same, old)
        np.testing.assert_allclose(new, np.asarray(old) + 0.25, atol=1e-6)
        np.testing.assert_allclose(further, np.asarray(old) + 1 - 0.75**2, atol=1e-6)
    for old, new in zip(*map(jax.tree.leaves, (state.weights, refreshed(full, last))), strict=True):
        np.testing.assert_allclose(new, old, atol=1e-6)


def test_epsilon_falls_linearly_over_its_fraction_of_the_horizon():
    agent, _ = bound(num_steps=10, num_envs=2, horizon=400, exploration=0.5, epsilon_start=1.0, epsilon_end=0.1)
    epsilon = jax.jit(lambda age: agent._epsilon(age, jnp.arange(10, dtype=jnp.int32)))
    np.testing.assert_allclose(np.asarray(epsilon(jnp.int32(0)))[[0, 5]], [1.0, 1 - 0.9 * 10 / 200])
    np.testing.assert_allclose(epsilon(jnp.int32(10)), 0.1, rtol=1e-5)


def test_sgd_and_adam_share_one_compiled_program():
    adam, _ = bound(optimizer="adam")
    sgd = to_arrays(adam.replace(optimizer="sgd"))
    assert jax.tree.structure(adam) == jax.tree.structure(sgd) and sgd.optimizer.dtype == adam.optimizer.dtype
    slope = jnp.asarray([0.5, -2.0])
    change = jax.jit(lambda agent: agent._optimizer.update(slope, agent._optimizer.init(slope))[0])
    np.testing.assert_allclose(change(adam), [1, -1], rtol=1e-5)  # Adam's first step: the sign
    np.testing.assert_allclose(change(sgd), slope)


def test_a_small_batch_in_a_large_program_gives_the_same_update():
    # The same agent with larger arrays: only the samples of the effective batch may change the result.
    small, env = bound(batch_size=8, buffer_size=100, learning_starts=0.0, train_frequency=10.0)
    roomy = small.replace(max_batch_size=32)
    weights, target = two_networks(small)
    batch = random_batch(small, 32)
    first = jax.tree.map(lambda x: x[:8], batch)
    share_small = jnp.full(8, 1 / 8)

    @jax.jit
    def shares(key):
        state = small.init(key, env)
        newest = state.replay.newest(jnp.int32(0))
        return roomy._sample_indices(state.replay, None, state.age, make_key(1), newest, jnp.int32(5))[1]

    share = shares(make_key(0))
    slopes = [
        jax.jit(jax.grad(lambda w, a=a, b=b, s=s: a._loss(w, target, b, s, make_key(2))[0]))(weights)
        for a, b, s in ((small, first, share_small), (roomy, batch, share))
    ]
    for one, other in zip(*map(jax.tree.leaves, slopes), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_losses_are_averages_over_the_gradient_steps_that_were_made():
    agent, env = bound(learning_starts=25.0, train_frequency=4.0, num_steps=10)
    member = Member(begin(agent, env), jnp.bool_(True))

    def chunk(member, clock, updates):
        member, total = jax.jit(train_chunk)(member, agent, env, None, jnp.int32(clock), jnp.int32(updates))
        return member, total

    first, metrics = chunk(member, 0, 2)
    assert metrics.weight == 0 and np.isnan(metrics.mean_losses["loss"])
    _, together = chunk(first, 2, 4)
    member, each = first, []
    for clock in range(2, 6):
        member, metrics = chunk(member, clock, 1)
        each += [float(metrics.mean_losses["loss"])] * int(metrics.weight)
    assert len(each) == int(together.weight) == 10  # 2, 3, 2 and 3
    np.testing.assert_allclose(together.mean_losses["loss"], np.mean(each), rtol=1e-5)


def test_array_sizes_are_the_largest_values_of_a_sweep():
    small, large = fill_caps([DQN(batch_size=32, buffer_size=1000), DQN(batch_size=64, buffer_size=500)])
    assert (small.max_batch_size, small.max_buffer_size) == (64, 1000)
    assert (large.max_batch_size, large.max_buffer_size) == (64, 1000)
    with pytest.raises(ValueError, match="batch_size=64 is more than max_batch_size=32"):
        fill_caps([DQN(batch_size=64, max_batch_size=32)])


REFINEMENTS = [
    {"double": True, "dueling": True, "n_step": 3, "prioritized": True},
    {"noisy": True, "double": True, "head": "quantile", "atoms": 8, "epsilon_end": 0.05},
    {"head": "categorical", "prioritized": True, "n_step": 4, "v_min": -1.0, "v_max": 1.5},
    {"head": "categorical", "double": True, "dueling": True, "prioritized": True, "n_step": 3}
    | {"v_min": -1.0, "v_max": 1.5},
]
QUICKLY = [REFINEMENTS[1], REFINEMENTS[3]]  # together they have every extension
ALONE = [
    {"double": True},
    {"dueling": True},
    {"n_step": 2},
    {"prioritized": True},
    {"noisy": True, "epsilon_end": 0.05},
    {"head": "quantile", "atoms": 8},
    {"loss": "huber"},
    {"layer_norm": True},
]


@pytest.mark.parametrize(
    "options",
    [pytest.param(x, marks=() if x in QUICKLY else pytest.mark.slow) for x in (*REFINEMENTS, *ALONE)],
)
def test_each_dqn_extension_trains_alone_and_with_the_others(options):
    fields = {k: v for k, v in QUICK.items() if k != "updates"}
    agent, env = bound("Probe-MatchingAction-v0", **{**fields, **options})

    @jax.jit
    def train(key):
        state = agent.init(key, env)
        return jax.lax.fori_loop(0, 150, lambda i, s: agent.update(s, env, i)[0], state)

    state = train(make_key(0))
    for cue, best in ((1.0, 1), (-1.0, 0)):
        action, _ = agent.act(state, jnp.asarray([cue]), None, make_key(1), True)
        assert action == best
        np.testing.assert_allclose(agent.value(state, jnp.asarray([cue])), 1.0, atol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("options", REFINEMENTS)
def test_all_dqn_extensions_train_together_for_many_steps(options):
    # Values far above the reward of one step can only come from bootstrapping, also at a time limit.
    fields = {k: v for k, v in QUICK.items() if k != "updates"} | options
    agent, env = bound("Probe-TimeLimit-v0", **{**fields, **({"v_max": 15.0} if "v_max" in fields else {})})

    @jax.jit
    def train(key):
        state = agent.init(key, env)
        return jax.lax.fori_loop(0, 400, lambda i, s: agent.update(s, env, i)[0], state)

    state = train(make_key(0))
    for t in range(5):
        np.testing.assert_allclose(agent.value(state, jnp.asarray([t / 5])), 10.0, atol=1.0)


@pytest.mark.parametrize("prioritized", [False, True])
def test_samples_come_from_the_newest_rows_that_buffer_size_allows(prioritized):
    sizes = {"buffer_size": 60, "max_buffer_size": 80, "batch_size": 400, "max_batch_size": 400}
    agent, env = bound(prioritized=prioritized, n_step=3, num_envs=2, num_steps=5, **sizes)
    state = begin(agent, env)

    @jax.jit
    def store_and_sample(state, clock, buffer_size):  # an update without gradient steps
        now = agent.replace(buffer_size=buffer_size)
        behavior, noise = now.behavior(state), now.policy_noise(state, make_key(1))
        env_states, trajectory, _ = now.rollout.collect(env, state.env_states, behavior, noise, make_key(2))
        replay = state.replay.add(steps_of(trajectory), clock)
        state = state.replace(
            env_states=env_states, replay=replay, priorities=now.add_priorities(state.priorities, replay, state.age)
        )
        newest, usable = replay.newest(clock), replay.usable(state.age, now.n_step, now.buffer_size)
        index, _ = now._sample_indices(state.replay, state.priorities, state.age, make_key(3), newest, usable)
        if state.priorities is not None:
            errors = 1.0 + jnp.arange(len(index), dtype=jnp.float32) % 3
            learned = state.priorities.learn(index, errors, 0.6, jnp.ones(len(index), bool))
            state = state.replace(priorities=learned)
        return state.replace(age=state.age + 1), newest, index

    for clock in range(24):  # the buffer shrinks, and later grows again
        buffer_size = 60.0 if clock < 10 or clock > 16 else 20.0
        state, newest, index = store_and_sample(state, jnp.int32(clock), jnp.float32(buffer_size))
        behind = (int(newest) - np.asarray(index) // 2) % state.replay.rows
        stored = min((clock + 1) * 5, int(buffer_size) // 2)
        assert set(behind.tolist()) == set(range(3, stored))


@pytest.mark.parametrize(
    ("env", "fields", "kind", "words"),
    [
        ("Pendulum-v1", {}, Unsuited, "needs Discrete actions, not Box"),
        ("CartPole-v1", {"head": "gaussian"}, ValueError, "head='gaussian' is unknown. Choose one of expected"),
        ("CartPole-v1", {"num_envs": 0}, ValueError, "num_envs=0 must be at least 1"),
        ("CartPole-v1", {"optimizer": "adma"}, ValueError, "Did you mean adam"),
        (
            "CartPole-v1",
            {"buffer_size": 5, "n_step": 5},
            ValueError,
            "buffer_size=5 holds 5 steps .* for a sample of n_step=5",
        ),
        ("CartPole-v1", {"buffer_size": 6, "num_envs": 2, "n_step": 3}, ValueError, "It must be more than 6"),
        ("CartPole-v1", {"head": "categorical", "atoms": 1}, ValueError, "atoms=1 is too few for a categorical head"),
        ("CartPole-v1", {"head": "categorical", "v_min": 100}, ValueError, "v_min=100 must be below v_max=100"),
        ("CartPole-v1", {"head": "categorical", "munchausen": True}, ValueError, "head='categorical' cannot: choose"),
        ("CartPole-v1", {"n_step": 3, "munchausen": True}, ValueError, "n_step=3 adds rewards up"),
    ],
)
def test_invalid_values_are_refused(env, fields, kind, words):
    with pytest.raises(kind, match=words):
        bound(env, **fields)


def test_smallest_sizes_are_accepted():
    bound(buffer_size=6, n_step=5)
    bound(buffer_size=7, num_envs=2, n_step=3)
    bound(head="quantile", atoms=1)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("v_max", (10.0, -200.0), "v_min=-100 must be below v_max=-200"),
        ("buffer_size", (1000.0, 3.0), "buffer_size=3 holds 3 steps .* too few for a sample of n_step=3"),
    ],
)
def test_invalid_values_are_refused_anywhere_in_a_sweep(name, values, words):
    fields = {"n_step": 3, "head": "categorical"}
    with pytest.raises(ValueError, match=words):
        make_plan(RunSpec(agent="dqn", env="CartPole-v1", fields=fields, sweep={name: values}, steps=100))
