"""Gradient steps on all weights as one flat vector: a few fused kernels instead of about ten for every layer."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from shoal.core.struct import Number

Weights = Any  # a tree of arrays


def clip_norm(gradient: Float[Array, "P"], largest: Number) -> Float[Array, "P"]:
    """The gradient of all weights, scaled down to norm `largest` if its norm is larger.

    This multiplies by one scalar, which XLA fuses into Adam; optax's version takes a separate pass over the gradient.
    """
    return gradient * jnp.minimum(1.0, largest / jnp.maximum(jnp.linalg.norm(gradient), 1e-12))


def adam(eps: Number = 1e-8) -> Any:  # optax's type is for pytrees; here the weights are one array
    """Adam for weights as one flat vector, without the learning rate: `descend` multiplies by it."""
    return optax.scale_by_adam(eps=eps)


def descend(
    weights: Weights, gradient: Weights, moments: Any, learning_rate: Number, eps: Number = 1e-8
) -> tuple[Weights, Any]:
    """One step of Adam: (weights after it, moments after it).

    `gradient` has the structure of `weights`. The initial `moments` are `adam().init` of the raveled weights.
    """
    flat, unravel = ravel_pytree(weights)
    direction, moments = adam(eps).update(ravel_pytree(gradient)[0], moments)
    return unravel(flat - learning_rate * direction), moments


def polyak_update(target: Weights, weights: Weights, fraction: Number) -> Weights:
    """Target weights after Polyak averaging: (1 - fraction) target + fraction weights.

    Equal to `weights`, to the last bit, if `fraction` is 1.
    """
    return jax.tree.map(lambda old, new: jnp.where(fraction == 1, new, old + fraction * (new - old)), target, weights)
