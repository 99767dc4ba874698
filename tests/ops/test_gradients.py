"""Gradient clipping, Adam and target weights, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from learners import VARIANTS
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.struct import to_arrays
from shoal.ops.gradients import adam, descend, descend_tree, polyak_update


@pytest.mark.parametrize(("scale", "clipped"), [(1, [0.3, 0.4]), (0.01, [0.03, 0.04]), (0, [0, 0])])
def test_gradients_are_clipped_by_their_global_norm(scale, clipped):
    slope, weights = scale * jnp.asarray([3.0, 4.0]), jnp.zeros(2)
    moved, *_ = descend(optax.identity(), weights, slope, optax.identity().init(weights), 1.0, largest_norm=0.5)
    np.testing.assert_allclose(-moved, clipped, rtol=1e-6)


ONE_STEP = {"num_epochs": 1, "num_minibatches": 1, "learning_starts": 0, "train_frequency": 10, "optimizer": "adam"}
CLIPPING = [name for name in sorted(AGENTS) if "max_grad_norm" in AGENTS[name].cls.__dataclass_fields__]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in VARIANTS else []) for name in CLIPPING]
)
def test_every_agent_clips_before_its_optimizer(name):
    fields = {k: v for k, v in ONE_STEP.items() if k in AGENTS[name].cls.__dataclass_fields__}
    env = make("CartPole-v1")
    agent = to_arrays(AGENTS[name].build(max_grad_norm=1e-3, **fields).bind(env))
    with jax.numpy_dtype_promotion("standard"):
        state, _ = jax.jit(agent.update)(agent.init(make_key(0), env), env, jnp.int32(0))
    mean = optax.tree_utils.tree_get(state.optimizer, "mu")
    np.testing.assert_allclose(jnp.linalg.norm(mean), 0.1 * 1e-3, rtol=1e-4)


def test_adam_descends_over_all_weights_at_once():
    weights = {"a": jnp.asarray([1.0, 2.0]), "b": jnp.asarray(3.0)}
    moments, mean, square, flat = adam().init(jnp.zeros(3)), np.zeros(3), np.zeros(3), np.array([1.0, 2.0, 3.0])
    for t, slope in enumerate(np.array([[0.5, -2.0, 0.0], [1.5, 1.0, -3.0]]), start=1):
        tree = {"a": jnp.asarray(slope[:2]), "b": jnp.asarray(slope[2])}
        with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
            weights, moments, _ = descend_tree(adam(), weights, tree, moments, 0.1)
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        flat = flat - 0.1 * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(weights["a"], flat[:2], rtol=1e-4)
    np.testing.assert_allclose(weights["b"], flat[2], rtol=1e-4)
    assert moments.count == 2


def test_target_weights_move_by_the_given_fraction():
    followed = polyak_update({"a": jnp.asarray([0.0, 4.0])}, {"a": jnp.asarray([1.0, 2.0])}, 0.25)
    np.testing.assert_allclose(followed["a"], [0.25, 3.5])


def test_target_weights_moved_by_the_fraction_1_equal_the_weights():
    old, new = (jax.random.normal(jax.random.key(seed), (1000,)) for seed in (0, 1))
    np.testing.assert_array_equal(polyak_update(100 * old, new, 1), new)
    np.testing.assert_array_equal(polyak_update(100 * old, new, jnp.float32(1)), new)
