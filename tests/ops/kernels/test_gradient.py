"""The gradient of a loss in one kernel: that of `jax.grad`, to rounding. The kernel's operations run on the CPU."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.agents.dqn import DQN
from shoal.agents.ppo import PPO, Batch
from shoal.agents.replay_agent import Observed
from shoal.core.form import form_for, using
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box
from shoal.core.struct import to_arrays
from shoal.ops.kernels.flat import CannotLower
from shoal.ops.kernels.gradient import kernel_gradient
from shoal.ops.replay import Transitions

MEMBERS = 3


def bound(env, **fields):
    return to_arrays(PPO(**fields).bind(make(env)))


def members(agent, env, size, has_mask=False):
    """Weights and minibatches [M, ...] of random numbers."""

    def one(key):
        k_init, k_weights, k_obs, k_action, k_mask, *keys = jax.random.split(key, 9)
        weights = agent.init(k_init, make(env)).weights
        weights = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(k_weights, x.shape), weights)
        space = agent.action_space
        if isinstance(space, Box):
            action, mask = jax.random.normal(k_action, (size, *space.shape)), None
        else:
            action = jax.random.randint(k_action, (size,), 0, space.n)
            allowed = jax.random.uniform(k_mask, (size, space.n)) < 0.5
            mask = allowed | jax.nn.one_hot(action, space.n, dtype=bool) if has_mask else None
        obs = jax.random.normal(k_obs, (size, *agent.observation_space.shape))
        return weights, Batch(obs, mask, action, *(0.5 * jax.random.normal(k, (size,)) for k in keys))

    keys = [jax.random.fold_in(make_key(0), m) for m in range(MEMBERS)]
    return jax.tree.map(lambda *x: jnp.stack(x), *map(one, keys))


def gradients(agent, weights, rows, how):
    """The gradients and losses [M, ...] of members that differ in a hyperparameter."""

    def one(clip, weights, rows):
        return how(agent.replace(clip=clip)._loss, weights, rows)

    with using(form_for("gpu", 2048)):
        return jax.jit(jax.vmap(one))(jnp.array([0.01, 0.2, 3.0], jnp.float32), weights, rows)


def xla(loss, weights, rows):
    return jax.grad(loss, has_aux=True)(weights, rows)


in_interpreter = partial(kernel_gradient, interpret=True)


@pytest.mark.parametrize(
    ("env", "size", "has_mask", "fields"),
    [
        ("CartPole-v1", 32, True, {"hidden": (16,)}),
        (
            "Pendulum-v1",
            24,
            False,
            {"hidden": (10,), "activation": "gelu", "surrogate": "dpo"},
        ),
        ("Acrobot-v1", 20, False, {"hidden": (24, 7, 16), "activation": "relu", "shared": True}),
    ],
)
@pytest.mark.sampled(2)
def test_equals_the_gradient_of_xla(env, size, has_mask, fields):
    agent = bound(env, **fields)
    weights, rows = members(agent, env, size, has_mask)
    got = gradients(agent, weights, rows, partial(in_interpreter, chunk=16))
    want = gradients(agent, weights, rows, xla)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=2e-6), got, want)
    assert len({float(x) for x in got[1]["clip_fraction"]}) > 1  # their hyperparameters had an effect


@pytest.mark.parametrize(
    ("size", "hidden", "chunk", "fields"),
    [
        (32, (16,), 16, {"double": True}),  # two chunks
        (20, (120, 84), None, {"dueling": True, "loss": "huber"}),  # a large network
    ],
)
def test_a_sum_of_weighted_losses_equals_that_of_xla(size, hidden, chunk, fields):
    env = make("CartPole-v1")
    agent = to_arrays(DQN(hidden=hidden, **fields).bind(env))
    keys = jax.random.split(make_key(1), (7, MEMBERS))
    online, target = (jax.vmap(lambda key: agent.init(key, env).weights)(k) for k in keys[:2])
    obs, next_obs, reward, action, weight = (
        jax.vmap(lambda k, shape=shape: jax.random.normal(k, shape))(k)
        for k, shape in zip(keys[2:], ((size, 4), (size, 4), *[(size,)] * 3), strict=True)
    )

    def gradient(how):
        def one(online, target, obs, next_obs, reward, action, weight):
            def loss(weights, rows):
                total, (_, losses) = agent._loss(weights, target, *rows, make_key(0))
                return total, losses

            seen, then = Observed(obs, None), Observed(next_obs, None)
            rows = Transitions(seen, (action > 0).astype(jnp.int32), reward, 0.9 + 0 * reward, then), weight
            return how(loss, online, rows)

        with using(form_for("gpu", 2048)):
            return jax.jit(jax.vmap(one))(online, target, obs, next_obs, reward, action, weight)

    got = gradient(partial(in_interpreter, sums=True, only_measured=False, chunk=chunk))
    want = gradient(xla)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), got, want)


def test_is_a_launch_for_each_network_with_a_block_for_each_member():
    agent = bound("CartPole-v1", hidden=(16,))
    weights, rows = members(agent, "CartPole-v1", 16)
    program = jax.make_jaxpr(lambda w, r: gradients(agent, w, r, in_interpreter))(weights, rows)
    kernels = [e for e in program.eqns[0].params["jaxpr"].eqns if e.primitive.name == "pallas_call"]
    assert [kernel.params["grid_mapping"].grid for kernel in kernels] == [(MEMBERS,), (MEMBERS,)]


def test_a_member_with_nan_has_nan_and_leaves_the_others_alone():
    agent = bound("CartPole-v1", hidden=(16,), activation="relu")
    weights, rows = members(agent, "CartPole-v1", 16)
    before, _ = gradients(agent, weights, rows, in_interpreter)
    weights["actor"]["params"]["Dense_0"]["bias"] = weights["actor"]["params"]["Dense_0"]["bias"].at[1, 3].set(jnp.nan)
    after, losses = gradients(agent, weights, rows, in_interpreter)
    assert np.isnan(losses["loss"]).tolist() == [False, True, False]
    assert np.isnan(after["policy"]["kernel"]).all(axis=(1, 2)).tolist() == [False, True, False]
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[::2], b[::2]), after, before)


def linear(weights, rows):
    loss = jnp.mean(rows["x"] @ weights)
    return loss, {"loss": loss}


@pytest.mark.parametrize(
    ("weights", "rows", "reason"),
    [
        (jnp.ones(3, jnp.float16), {"x": jnp.ones((16, 3), jnp.float16)}, "is float16, not float32"),
        (jnp.ones((200, 100)), {"x": jnp.ones((16, 200))}, "one network has 32,768 weights .* more than 8,192"),
        (jnp.ones(3), {"x": jnp.ones((16, 3)), "y": jnp.ones(8)}, "do not share a first axis"),
        (jnp.ones(3), {"x": jnp.ones((131, 3))}, "divides the minibatch of 131 rows"),
    ],
)
def test_a_refusal_names_the_condition(weights, rows, reason):
    with pytest.raises(CannotLower, match=reason):
        in_interpreter(linear, weights, rows)


@pytest.mark.parametrize(
    ("shape", "size", "reason"),
    [((200, 200), 16, "has 65,536 weights .* more than 32,768"), ((200, 100), 80, "at most 64 rows, not 80")],
)
def test_a_refusal_of_a_network_of_a_size_that_was_not_measured(shape, size, reason):
    with pytest.raises(CannotLower, match=reason):
        in_interpreter(linear, jnp.ones(shape), {"x": jnp.ones((size, 200))}, only_measured=False)


def test_a_refusal_names_the_operation():
    def loss(weights, rows):
        return jnp.mean(jnp.sort(rows["x"] @ weights)), {}

    with pytest.raises(CannotLower, match="the operation sort"):
        in_interpreter(loss, jnp.ones(3), {"x": jnp.ones((16, 3))})
