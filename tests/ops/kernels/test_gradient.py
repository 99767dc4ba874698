"""The gradient of a loss in one kernel: that of `jax.grad`, to rounding. The kernel's operations run on the CPU."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.agents.ppo import PPO, Batch
from shoal.core.form import form_for, using
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box
from shoal.core.struct import to_arrays
from shoal.ops.kernels.flat import CannotLower
from shoal.ops.kernels.gradient import kernel_gradient

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
        (jnp.ones((200, 100)), {"x": jnp.ones((16, 200))}, "one network has 32,768 weights"),
        (jnp.ones(3), {"x": jnp.ones((16, 3)), "y": jnp.ones(8)}, "do not share a first axis"),
        (jnp.ones(3), {"x": jnp.ones((131, 3))}, "divides the minibatch of 131 rows"),
    ],
)
def test_a_refusal_names_the_condition(weights, rows, reason):
    with pytest.raises(CannotLower, match=reason):
        in_interpreter(linear, weights, rows)


def test_a_refusal_names_the_operation():
    def loss(weights, rows):
        return jnp.mean(jnp.sort(rows["x"] @ weights)), {}

    with pytest.raises(CannotLower, match="the operation sort"):
        in_interpreter(loss, jnp.ones(3), {"x": jnp.ones((16, 3))})
