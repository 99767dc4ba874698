"""Gradient steps on packed weights.

On a CPU, and for few members, the optimizer works on one flat vector of all weights: a few fused kernels instead of
about ten for every layer. For many members on an accelerator it works on the tree of weights, because joining and
splitting the vector would move all weights through memory once more (`core.form.Form.flat_weights`).

A gradient step can be guarded: a member whose gradient is not finite keeps its weights, and so does a member that was
stopped before. The choice is made where the optimizer writes the new weights, so it moves nothing through memory.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from shoal.core.form import current
from shoal.core.struct import Number

Weights = Any  # a tree of arrays
Packed = Any  # weights as one flat vector [P], or as the tree that they are
Optimizer = Any  # an optax transformation without a learning rate; optax's type is for trees, here also one array
MOMENTS = (optax.ScaleByAdamState, optax.ScaleByRmsState)  # states of optimizers


def pack(weights: Weights) -> tuple[Packed, Any]:
    """Return (packed weights, the function that makes weights of packed weights), in the current form."""
    return ravel_pytree(weights) if current().flat_weights else (weights, lambda packed: packed)


def first_moments(optimizer: Optimizer, weights: Weights) -> Any:
    """The initial state of an optimizer, which works on packed weights."""
    return optimizer.init(pack(weights)[0])


def adam(eps: Number = 1e-8, beta: Number = 0.9) -> Optimizer:
    """Adam without the learning rate, by which `descend` multiplies. `beta` is the decay of the mean gradient."""
    return optax.scale_by_adam(b1=beta, eps=eps)


def descend(
    optimizer: Optimizer,
    weights: Packed,
    gradient: Packed,
    moments: Any,
    learning_rate: Number,
    *,
    largest_norm: Number | None = None,
    is_stopped: Bool[Array, ""] | None = None,
) -> tuple[Packed, Any, Bool[Array, ""] | None]:
    """One step of an optimizer: (packed weights, moments, `is_stopped` after it).

    With `largest_norm`, the gradient of all weights is scaled down to that norm if its norm is larger. The optimizer
    multiplies by this one scalar; optax's version of it is a separate pass over the gradient.

    With None for `is_stopped` the step is always taken. Otherwise a member that is stopped keeps weights and moments,
    and one whose gradient has a norm that is not finite is stopped. A new weight that is not finite, because the step
    overflowed, is not written.
    """
    norm = _norm(gradient)  # not computed where nothing uses it
    if largest_norm is not None:
        scale = jnp.minimum(1.0, largest_norm / jnp.maximum(norm, 1e-12))
        gradient = jax.tree.map(lambda x: x * scale, gradient)
    direction, new_moments = optimizer.update(gradient, moments, weights)
    new_weights = jax.tree.map(lambda w, d: w - learning_rate * d, weights, direction)
    if is_stopped is None:
        return new_weights, new_moments, None
    is_stopped |= ~jnp.isfinite(norm)
    new_weights = jax.tree.map(
        lambda new, old: jnp.where(~is_stopped & jnp.isfinite(new), new, old), new_weights, weights
    )
    return new_weights, jax.tree.map(lambda new, old: jnp.where(is_stopped, old, new), new_moments, moments), is_stopped


def descend_tree(
    optimizer: Optimizer, weights: Weights, gradient: Weights, moments: Any, learning_rate: Number, **how: Any
) -> tuple[Weights, Any, Bool[Array, ""] | None]:
    """`descend` for weights and a gradient as trees, which are packed for the step. `how`: as there."""
    packed, unpack = pack(weights)
    packed, moments, is_stopped = descend(optimizer, packed, pack(gradient)[0], moments, learning_rate, **how)
    return unpack(packed), moments, is_stopped


def mean_of_steps(step: Callable[[Any, Any], tuple[Any, Any]], start: Any, xs: Any) -> tuple[Any, dict[str, Array]]:
    """Scan over gradient steps: (the carry after them, the mean of each of their losses).

    `step(carry, x)` returns (carry, losses), a dict of scalars.
    """
    if not current().joined_losses:
        carry, losses = jax.lax.scan(step, start, xs)
        return carry, jax.tree.map(jnp.mean, losses)
    names: list[str] = []

    def with_joined_losses(carry: Any, x: Any) -> tuple[Any, Array]:
        carry, losses = step(carry, x)
        names[:] = losses
        return carry, jnp.stack(list(losses.values()))

    carry, losses = jax.lax.scan(with_joined_losses, start, xs)
    return carry, dict(zip(names, jnp.mean(losses, axis=0), strict=True))


def moments_like(state: Any, like: Any) -> Any:
    """The state with the moments of optimizers in the layout of `like`: one vector [M, P], or trees of arrays [M, ...].

    Its leaves are NumPy arrays. Checkpoints hold the layout of a CPU, so that a run can be resumed in another form.
    Moments that have the layout already, such as those of a user's own optimizer, are returned as they are.
    """

    def is_moments(x: Any) -> bool:
        return isinstance(x, MOMENTS)

    def leaf(x: Any, like: Any) -> Any:
        return _moments_like(x, like) if is_moments(x) else x

    return jax.tree.map(leaf, state, like, is_leaf=is_moments)


def polyak_update(target: Weights, weights: Weights, fraction: Number) -> Weights:
    """Target weights after Polyak averaging: (1 - fraction) target + fraction weights.

    Equal to `weights`, to the last bit, if `fraction` is 1.
    """
    return jax.tree.map(lambda old, new: jnp.where(fraction == 1, new, old + fraction * (new - old)), target, weights)


def _norm(gradient: Packed) -> Float[Array, ""]:
    """The norm of a gradient. Small arrays of a tree are summed together: one kernel, where each would take one."""
    leaves = jax.tree.leaves(gradient)
    if len(leaves) > 1:
        quarter = sum(x.size for x in leaves) // 4
        large, small = ([x for x in leaves if (x.size > quarter) == is_large] for is_large in (True, False))
        leaves = [*large, jnp.concatenate([x.ravel() for x in small])] if small else large
    return optax.global_norm(leaves)


def _moments_like(moments: Any, like: Any) -> Any:
    def relaid(tree: Any, like: Any) -> Any:
        if jax.tree.map(np.shape, tree) == jax.tree.map(np.shape, like):
            return tree
        leaves, structure = jax.tree.flatten(like)
        vector = np.concatenate([np.asarray(x).reshape(len(x), -1) for x in jax.tree.leaves(tree)], axis=1)
        parts = np.split(vector, np.cumsum([math.prod(x.shape[1:]) for x in leaves])[:-1], axis=1)
        return jax.tree.unflatten(structure, [part.reshape(x.shape) for part, x in zip(parts, leaves, strict=True)])

    return type(moments)(*map(relaid, moments, like))
