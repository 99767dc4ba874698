"""Batch renormalization as dicts of arrays: batch normalization that acts in training almost as it does afterwards.

Source: Ioffe 2017, "Batch renormalization", algorithm 1. The moving averages are part of the weights, but no gradient
reaches them: who takes a gradient step replaces them with those that `train_renorm` returns (`with_averages`).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from shoal.core.struct import Number
from shoal.nn.dense import along_last_axis

EPS = 1e-3  # added to variances
MOMENTUM = 0.01  # weight of a batch in the moving averages

Renorm = dict[str, Array]


class Limits(NamedTuple):
    """How far the moving averages may move the normalization of a batch; (1, 0) is batch normalization."""

    scale: Number  # r_max, at least 1
    shift: Number  # d_max


def init_renorm(size: int) -> Renorm:
    """Initial weights and moving averages for `size` features."""
    zeros, ones = jnp.zeros((size,), jnp.float32), jnp.ones((size,), jnp.float32)
    return {"scale": ones, "bias": zeros, "mean": zeros, "std": ones}


def apply_renorm(layer: Renorm, x: Float[Array, "*axes n"]) -> Float[Array, "*axes n"]:
    """Normalize features by the moving averages."""
    mean, std = (jax.lax.stop_gradient(along_last_axis(layer[name], x.ndim)) for name in ("mean", "std"))
    return _scaled(layer, (x - mean) / std)


def train_renorm(
    layer: Renorm, x: Float[Array, "B n"], sample_weight: Float[Array, "B"], limits: Limits
) -> tuple[Float[Array, "B n"], Renorm]:
    """(features normalized by the batch, the moving averages after it).

        y = (x - mean_B) / std_B * r + d,  r = std_B / std,  d = (mean_B - mean) / std

    r is clipped to [1 / r_max, r_max] and d to [-d_max, d_max]; no gradient flows through them. Without clipping, y is
    x normalized by the moving averages. Samples count in proportion to `sample_weight`.
    """
    weight = (sample_weight / jnp.sum(sample_weight))[:, None]
    batch_mean = jnp.sum(weight * x, axis=0)
    batch_std = jnp.sqrt(jnp.sum(weight * (x - batch_mean[None]) ** 2, axis=0) + EPS)
    mean, std, new_mean, new_std = map(jax.lax.stop_gradient, (layer["mean"], layer["std"], batch_mean, batch_std))
    r = jnp.clip(new_std / std, 1 / limits.scale, limits.scale)
    d = jnp.clip((new_mean - mean) / std, -limits.shift, limits.shift)
    y = (x - batch_mean[None]) / batch_std[None] * r[None] + d[None]
    return _scaled(layer, y), {"mean": mean + MOMENTUM * (new_mean - mean), "std": std + MOMENTUM * (new_std - std)}


def with_averages(
    weights: dict[str, Any], averages: Mapping[str, Renorm], is_stopped: Bool[Array, ""] | None
) -> dict[str, Any]:
    """The weights of a network with new moving averages of its layers; those of a stopped member stay as they are."""

    def layer(old: Renorm, new: Renorm) -> Renorm:
        kept = new if is_stopped is None else {k: jnp.where(is_stopped, old[k], x) for k, x in new.items()}
        return {**old, **kept}

    return {**weights, **{name: layer(weights[name], new) for name, new in averages.items()}}


def _scaled(layer: Renorm, y: Float[Array, "*axes n"]) -> Float[Array, "*axes n"]:
    return y * along_last_axis(layer["scale"], y.ndim) + along_last_axis(layer["bias"], y.ndim)
