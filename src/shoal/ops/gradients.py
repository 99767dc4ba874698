"""Arithmetic on the gradient of all weights as one flat vector: a few fused kernels instead of ten for every layer."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from shoal.core.struct import Number

Weights = Any  # a tree of arrays


def clip_norm(gradient: Float[Array, "P"], largest: Number) -> Float[Array, "P"]:
    """A gradient of all weights, scaled down to norm `largest` where it is longer.

    One scalar factor, which XLA fuses into Adam; optax's own divides every number in a pass of its own.
    """
    return gradient * jnp.minimum(1.0, largest / jnp.maximum(jnp.linalg.norm(gradient), 1e-12))


def adam(eps: Number = 1e-8) -> Any:  # optax's own type speaks of trees; here it is one array
    """Adam's direction, for weights as one flat vector. The learning rate is applied by `descend`."""
    return optax.scale_by_adam(eps=eps)


def descend(weights: Weights, slope: Weights, moments: Any, rate: Number, eps: Number = 1e-8) -> tuple[Weights, Any]:
    """(weights after one step of Adam, its moments). `moments` begin as `adam().init` of the raveled weights."""
    flat, unravel = ravel_pytree(weights)
    change, moments = adam(eps).update(ravel_pytree(slope)[0], moments)
    return unravel(flat - rate * change), moments


def polyak_update(target: Weights, weights: Weights, share: Number) -> Weights:
    """Target weights that have moved by `share` of the way towards the weights (Polyak averaging).

    Equal to the weights, to the last bit, where `share` is 1.
    """
    return jax.tree.map(lambda old, new: jnp.where(share == 1, new, old + share * (new - old)), target, weights)
