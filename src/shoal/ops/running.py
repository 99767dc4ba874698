"""Running mean and variance of data that arrives in batches."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.struct import Struct, struct
from shoal.ops import sums
from shoal.ops.devices import DATA, mean_over

FLOOR = 1e-8  # added to the variance before the square root, as in Gymnasium and Stable-Baselines3


@struct
class RunningStats(Struct):
    """Count, mean and sum of squared deviations, elementwise over a pytree. Without data: mean 0, `std()` 1.

    `rounding` is that of the three (`ops.sums`), which are sums over a whole run; None for the data of one update.
    Where `mean` has None in the place of an array, that part of the data has no statistics and is not normalized.
    """

    count: Float[Array, ""] | float  # a float where a run's file gave it
    mean: Any
    deviation: Any  # sum of squared deviations from the mean
    rounding: Any = None

    @classmethod
    def zero(cls, example: Any) -> "RunningStats":
        """Statistics of no data; `example` gives the shapes, and has None for a part without statistics."""
        zeros = jax.tree.map(lambda x: jnp.zeros(jnp.shape(x), jnp.float32), example)
        return cls(jnp.float32(0), zeros, zeros, (jnp.float32(0), zeros, zeros))

    def update(self, batch: Any, axes: int = 1, devices: int = 1) -> "RunningStats":
        """The statistics after a batch whose first `axes` axes count samples, and after those of the other devices.

        Sums are taken over differences from the first sample of the batch. For a constant input these are exactly 0;
        otherwise rounding errors of the mean could be as large as the standard deviation that `normalize` divides by.
        """
        sample_axes, batch = tuple(range(axes)), self.covered(batch)
        leaf = jax.tree.leaves(batch)[0]
        n = jnp.float32(0) + jnp.asarray(leaf.size / max(1, leaf[(0,) * axes].size), jnp.float32)
        batch = jax.tree.map(lambda x: x.astype(jnp.float32), batch)
        first = jax.tree.map(lambda x: x[(0,) * axes], batch)
        batch = jax.tree.map(lambda x, origin: x - jnp.expand_dims(origin, sample_axes), batch, first)
        shift = jax.tree.map(lambda x: jnp.mean(x, axis=sample_axes), batch)
        deviation = jax.tree.map(
            lambda x, m: jnp.sum((x - jnp.expand_dims(m, sample_axes)) ** 2, axis=sample_axes), batch, shift
        )
        return self.merge(RunningStats(n, jax.tree.map(jnp.add, first, shift), deviation).of_all(devices))

    def covered(self, x: Any) -> Any:
        """The data with None in the place of the parts that have no statistics."""
        return jax.tree.map(lambda x, mean: None if mean is None else x, x, self.mean)

    def of_all(self, devices: int) -> "RunningStats":
        """The statistics of the data of all devices, each of which has as many samples as this one."""
        if devices == 1:
            return self
        # As in `update`, from differences to a common origin, which are exactly 0 for a constant input.
        origin = jax.tree.map(lambda m: jax.lax.pmin(m, DATA), self.mean)
        mean = jax.tree.map(lambda o, m: o + mean_over(m - o, devices), origin, self.mean)
        deviation = jax.tree.map(lambda d, m, own: d + self.count * (own - m) ** 2, self.deviation, mean, self.mean)
        scaled = jax.tree.map(lambda d: devices * d, mean_over(deviation, devices))
        return RunningStats(devices * self.count, mean, scaled)

    def merge(self, other: "RunningStats") -> "RunningStats":
        """The statistics of the data of both. Source: Chan, Golub and LeVeque 1983, eq. 2.1."""
        fraction = other.count / jnp.maximum(self.count + other.count, 1)
        shift = jax.tree.map(lambda a, b: b - a, self.mean, other.mean)
        before = (self.count, self.mean, self.deviation)
        more = (
            other.count,
            jax.tree.map(lambda d: d * fraction, shift),
            jax.tree.map(lambda b, d: b + d**2 * (self.count * fraction), other.deviation, shift),
        )
        rounding = jax.tree.map(jnp.zeros_like, before) if self.rounding is None else self.rounding
        after, rounding = sums.add_trees(before, rounding, more)
        return RunningStats(*after, rounding)

    def std(self) -> Any:
        """The standard deviation, sqrt(variance + 1e-8), which is never 0; 1 before any data."""
        n = jnp.maximum(self.count, 1)
        return jax.tree.map(lambda d: jnp.where(self.count > 0, jnp.sqrt(d / n + FLOOR), 1.0), self.deviation)

    def normalize(self, x: Any, clip: float = 10.0) -> Any:
        """(x - mean) / std, clipped to [-clip, clip]. `x` may have leading axes."""

        def scale(x, mean, std):
            if mean is None:
                return x
            lead = (1,) * (x.ndim - mean.ndim)
            centered = x.astype(jnp.float32) - mean.reshape(lead + mean.shape)
            return jnp.clip(centered / std.reshape(lead + std.shape), -clip, clip)

        return jax.tree.map(scale, x, self.mean, self.std())
