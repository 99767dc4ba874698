"""Losses for distributions of returns, given as probabilities on a fixed support or as quantiles.

Axes: B samples, Z points of the support or quantiles.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from shoal.core.struct import Number


def support(low: Number, high: Number, atoms: int) -> Float[Array, "Z"]:
    """Evenly spaced returns from `low` to `high`, whose probabilities a categorical head predicts."""
    return jnp.linspace(low, high, atoms, dtype=jnp.float32)


def check_support(low: Number, high: Number, atoms: int) -> None:
    """Raise ValueError if a categorical head has too few atoms, or `low` >= `high` in any member."""
    if atoms < 2:
        raise ValueError(f"atoms={atoms} is too few for a categorical head: it needs at least 2.")
    lowest, highest = np.broadcast_arrays(low, high)
    if np.any(lowest >= highest):
        wrong = lowest >= highest
        raise ValueError(f"v_min={lowest[wrong][0]:g} must be below v_max={highest[wrong][0]:g}.")


def categorical_mean(logits: Float[Array, "*axes Z"], support: Float[Array, "Z"]) -> Float[Array, "*axes"]:
    """The mean of the returns of the support, with the probabilities of the logits."""
    return jnp.sum(jax.nn.softmax(logits) * support.reshape((1,) * (logits.ndim - 1) + (-1,)), axis=-1)


def project(
    support: Float[Array, "Z"],
    probability: Float[Array, "B Z"],
    reward: Float[Array, "B"],
    bootstrap: Float[Array, "B"],
) -> Float[Array, "B Z"]:
    """The distribution of reward + bootstrap * return, projected to the support. `support` is evenly spaced.

    The probability of each shifted point is divided between the two nearest points of the support.
    Source: Bellemare et al. 2017, eq. 7. Computed as a sum over all pairs of points, which needs no scatter.
    """
    step = support[1] - support[0]
    shifted = jnp.clip(reward[:, None] + bootstrap[:, None] * support[None], support[0], support[-1])
    fraction = jnp.clip(1 - jnp.abs(shifted[:, :, None] - support[None, None, :]) / step, 0, 1)
    return jnp.sum(probability[:, :, None] * fraction, axis=1)


def cross_entropy(logits: Float[Array, "B Z"], target: Float[Array, "B Z"]) -> Float[Array, "B"]:
    """-sum target log softmax(logits), over the last axis."""
    return -jnp.sum(target * jax.nn.log_softmax(logits), axis=-1)


def entropy(probability: Float[Array, "B Z"]) -> Float[Array, "B"]:
    """-sum p log p in nats, over the last axis; points of probability 0 add 0."""
    return -jnp.sum(jax.scipy.special.xlogy(probability, probability), axis=-1)


def quantile_huber(
    quantiles: Float[Array, "B Z"],
    target: Float[Array, "B Y"],
    kappa: Number,
    levels: Float[Array, "B Z"] | None = None,
    target_weight: Float[Array, "Y"] | None = None,
) -> Float[Array, "B"]:
    """The quantile Huber loss, summed over the predicted quantiles and averaged over the target's quantiles.

    `levels` are those of the predicted quantiles; without them, the middles of Z equal parts of the interval from 0 to
    1. `target_weight` is the weight of each of the target's quantiles in the average.
    Source: Dabney et al. 2018, "Distributional reinforcement learning with quantile regression", eq. 9 and 10.
    """
    count = quantiles.shape[-1]
    if levels is None:
        levels = ((jnp.arange(count, dtype=jnp.float32) + 0.5) / count)[None]
    error = target[:, None, :] - quantiles[:, :, None]
    level = levels[:, :, None]
    losses = jnp.where(error < 0, 1 - level, level) * huber(error, kappa) / kappa
    if target_weight is None:
        return jnp.sum(jnp.mean(losses, axis=-1), axis=-1)
    return jnp.sum(losses * target_weight[None, None], axis=(1, 2))


def huber(error: Float[Array, "..."], kappa: Number) -> Float[Array, "..."]:
    """error^2 / 2 where |error| <= kappa, else kappa * (|error| - kappa / 2). Elementwise. Source: Huber 1964."""
    size = jnp.abs(error)
    return jnp.where(size <= kappa, 0.5 * error**2, kappa * (size - 0.5 * kappa))
