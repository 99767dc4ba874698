"""Means over the D devices that share the E environments of one agent, and the random numbers of each device.

The program runs on every device under `shard_map`, over a mesh with the axis `DATA`: each device has E / D of the
environments and the same weights. With `devices=1` there is no such axis, and nothing is reduced.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from shoal.core.keys import Key

DATA = "data"


def mean_over(tree: Any, devices: int) -> Any:
    """The mean over devices of every leaf. All devices have equally many samples, so means of samples stay means."""
    return jax.lax.pmean(tree, DATA) if devices > 1 else tree


def gathered(x: Shaped[Array, "n *axes"], devices: int) -> Shaped[Array, "all *axes"]:
    """The rows of all devices, those of the first device first. `device_share` takes those of this device again."""
    return jax.lax.all_gather(x, DATA, tiled=True) if devices > 1 else x


def device_share(tree: Any, devices: int, axis: int) -> Any:
    """The part for the environments of this device, of leaves that have all E environments along `axis`.

    Used for random numbers: every device samples those of all environments and takes its part, so that an environment
    gets the same numbers on any number of devices. XLA computes only the part that is taken, for most of the samples.
    """
    if devices == 1:
        return tree

    def select(x: Array) -> Array:
        size = x.shape[axis] // devices
        return jax.lax.dynamic_slice_in_dim(x, jax.lax.axis_index(DATA) * size, size, axis)

    return jax.tree.map(select, tree)


def device_key(key: Key, devices: int) -> Key:
    """A key for this device, different from those of the other devices. `key` is consumed."""
    return jax.random.fold_in(key, jax.lax.axis_index(DATA)) if devices > 1 else key


def standardized(x: Float[Array, "*axes"], devices: int) -> Float[Array, "*axes"]:
    """(x - mean) / (std + 1e-8), with the mean and the standard deviation over the samples of all devices."""
    centered = x - mean_over(jnp.mean(x), devices)
    return centered / (jnp.sqrt(mean_over(jnp.mean(centered**2), devices)) + 1e-8)
