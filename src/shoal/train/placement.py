"""Where members run: in blocks, one after another on each device, side by side across devices.

On a CPU a block is one member: its weights, optimizer and minibatch stay in the core's cache, and small matrix products
run as fast alone as in a batch (docs/how-it-is-fast.md). A member's numbers therefore do not depend on how many others
there are. On an accelerator a block is as large as memory allows, because there only wide kernels are fast.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

MEMBERS = PartitionSpec("members")
SAME = PartitionSpec()


class Placement(NamedTuple):
    """M members on a mesh of devices, in blocks of `block` members, padded to fill the last ones."""

    members: int
    block: int
    mesh: Mesh

    @property
    def padded(self) -> int:
        """Members including padding, which repeats the last one and is dropped from every result."""
        step = self.block * self.mesh.size
        return math.ceil(self.members / step) * step

    def spread(self, tree: Any) -> Any:
        """Pad leaves [M, ...] and place them on their devices."""
        sharding = NamedSharding(self.mesh, MEMBERS)
        return jax.tree.map(lambda x: jax.device_put(self._pad(x), sharding), tree)

    def index(self) -> np.ndarray:
        """Which member each padded place holds."""
        return np.minimum(np.arange(self.padded), self.members - 1)

    def collect(self, tree: Any) -> Any:
        """Bring leaves [padded, ...] to the host and drop the padding."""
        return jax.tree.map(lambda x: np.asarray(x)[: self.members], tree)

    def over_members(self, function: Callable, per_member: int) -> Callable:
        """`function` of one member's arguments as a function of everyone's.

        The first `per_member` arguments lead with [padded]; the others are the same for all.
        """

        def on_device(*args: Any) -> Any:
            mine, shared = args[:per_member], args[per_member:]
            return _in_blocks(lambda *one: function(*one, *shared), self.block, mine)

        if self.mesh.size == 1:
            return on_device

        def everywhere(*args: Any) -> Any:
            specs = tuple(MEMBERS if i < per_member else SAME for i in range(len(args)))
            return jax.shard_map(on_device, mesh=self.mesh, in_specs=specs, out_specs=MEMBERS, check_vma=False)(*args)

        return everywhere

    def _pad(self, x: Any) -> Any:
        if x.shape[0] == self.padded:
            return x
        return x[self.index()]


def place(members: int, block: int = 0, devices: int = 0) -> Placement:
    """A placement for M members. `block=0` chooses by platform, `devices=0` uses as many as there are members for.

    Raises ValueError when more devices are asked for than JAX sees.
    """
    seen = jax.local_devices()
    if devices > len(seen):
        raise ValueError(f"devices={devices} were asked for, but JAX sees {len(seen)} ({seen[0].platform}).")
    block = block or (1 if seen[0].platform == "cpu" else members)
    count = min(devices or len(seen), math.ceil(members / block))
    if seen[0].platform != "cpu":
        block = min(block, math.ceil(members / count))
    mesh = Mesh(np.asarray(seen[:count]), ("members",), axis_types=(AxisType.Auto,))
    return Placement(members, block, mesh)


def _in_blocks(function: Callable, block: int, args: tuple) -> Any:
    """Map over the leading axis: blocks one after another, the members of a block together."""
    if block == 1:
        return jax.lax.map(lambda one: function(*one), args)
    size = jax.tree.leaves(args)[0].shape[0]
    if size == block:
        return jax.vmap(function)(*args)
    blocks = jax.tree.map(lambda x: x.reshape(size // block, block, *x.shape[1:]), args)
    out = jax.lax.map(lambda some: jax.vmap(function)(*some), blocks)
    return jax.tree.map(lambda x: x.reshape(size, *x.shape[2:]), out)
