"""Where members run, so that every core or accelerator is busy and a member's numbers are its own.

On a CPU a population is trained block by block, each block one call of the same compiled program; as many calls run at
a time as there are cores. A block is one member: its weights, optimizer and minibatch stay in the core's cache, and
small matrix products run as fast alone as in a batch (docs/how-it-is-fast.md). Because everyone runs the same program,
a member's bits do not depend on how many others there are. Nor do they on the number of cores or threads, over which
no kernel is split, unless the network reads pictures (docs/correctness.md). An agent whose update is next to nothing
may ask for larger blocks (`members_per_call`), and must see to it that its bits do not depend on them.

On accelerators, where only wide kernels are fast, all members run in one call: side by side on each device, and sharded
over devices, which exchange nothing while they train; between chunks a turnover may copy members from one to another.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from shoal.core.keys import is_key
from shoal.training.host import SMALL_LOOP, usable_cores

MEMBERS = PartitionSpec("members")
SAME = PartitionSpec()
SMALLEST_BLOCK = 32
# One call must not split its small kernels over the threads that other members run on: the pieces wait.
# How it splits them follows from the number of threads, and decides in which order numbers are summed.
ONE_CORE_A_CALL = {"xla_cpu_multi_thread_eigen": False, "xla_disable_hlo_passes": "cpu-parallel-task-assigner"}
BY_LIBRARY = "xla_cpu_experimental_ynn_fusion_type"
# Small products belong to XLA's own code, not to a library, or a short loop around them cannot be one kernel
# (`host.SMALL_LOOP`). Sums stay with the library.
CPU_OPTIONS = {**ONE_CORE_A_CALL, BY_LIBRARY: "LIBRARY_FUSION_TYPE_REDUCE"}
# Where no loop can be one kernel, the library computes whole layers at once: product, bias and activation.
CPU_OPTIONS_OF_LARGE_LOOPS = {**ONE_CORE_A_CALL, BY_LIBRARY: "LIBRARY_FUSION_TYPE_DOT"}


class Placement(NamedTuple):
    """M members in blocks of `block`, `workers` calls at a time; or, on a mesh of accelerators, one call for all."""

    members: int
    block: int
    workers: int
    mesh: Mesh | None = None
    has_large_loops: bool = False  # on a CPU

    @property
    def padded(self) -> int:
        """Members including those that fill the last block or the mesh up; they repeat the last one and are dropped."""
        step = self.mesh.size if self.mesh else self.block
        return math.ceil(self.members / step) * step

    @property
    def compiler_options(self) -> dict[str, Any] | None:
        """What the compiler needs to know."""
        if self.mesh:
            return None
        return CPU_OPTIONS_OF_LARGE_LOOPS if self.has_large_loops else CPU_OPTIONS

    def describe(self) -> str:
        """`2 CPU cores, one member at a time on each`."""
        if self.mesh:
            device = self.mesh.devices.flat[0]
            return f"{self.mesh.size} x {device.device_kind}, all members at a time"
        cores = f"{self.workers} CPU core{'s' * (self.workers > 1)}"
        if self.members == 1:
            return cores
        return f"{cores}, {'one member' if self.block == 1 else f'{self.block} members'} at a time on each"

    def spread(self, tree: Any, count: int = 0) -> list[Any]:
        """Leaves [M] as the arguments of each call. `count` is M, for a tree without any (a world of no numbers)."""
        leaves, structure = jax.tree.flatten(tree)
        impls = [jax.random.key_impl(x) if is_key(x) else None for x in leaves]
        arrays = [key_words(x) for x in leaves]

        def part(rows: Any) -> Any:
            chosen = [
                a[rows] if impl is None else _as_keys(a[rows], impl) for a, impl in zip(arrays, impls, strict=True)
            ]
            return jax.tree.unflatten(structure, chosen)

        last = (len(arrays[0]) if arrays else count) - 1
        if self.mesh:
            everyone = part(np.minimum(np.arange(self.padded), last))
            return [jax.device_put(everyone, self._sharding)]
        if self.block == 1:
            return [part(m) for m in range(last + 1)]
        starts = range(0, last + 1, self.block)
        return [part(np.minimum(np.arange(start, start + self.block), last)) for start in starts]

    def gather(self, parts: Sequence[Any], count: int) -> Any:
        """The results of all calls on the host, leaves [count]; typed keys stay keys."""
        join = np.stack if self.block == 1 and not self.mesh else np.concatenate

        def one(*leaves: Any) -> Any:
            joined = join([key_words(x) for x in leaves])[:count]
            return _as_keys(joined, jax.random.key_impl(leaves[0])) if is_key(leaves[0]) else joined

        return jax.tree.map(one, *parts)

    def exchange(self, parts: Sequence[Any], source: np.ndarray) -> list[Any]:
        """The parts after every member m was replaced by a copy of member `source[m]`; m itself stays where it is.

        On a mesh members travel between devices, and never by way of the host.
        """
        count = len(source)
        if self.mesh:
            rows = np.concatenate([source, np.full(self.padded - count, source[-1])])
            return [_take(self._sharding)(parts[0], rows)]
        if self.block == 1:
            copies = {m: jax.tree.map(jax.numpy.copy, parts[of]) for m, of in enumerate(source) if of != m}
            return [copies.get(m, part) for m, part in enumerate(parts)]
        return self.spread(jax.tree.map(lambda x: x[source], self.gather(parts, count)))

    def merge(self, parts: Sequence[Any], new: Sequence[Any], is_new: np.ndarray) -> list[Any]:
        """The parts with the members `is_new` [M] taken from `new`, and all others as they are."""
        if self.block == 1 and not self.mesh:
            return [after if flag else before for before, after, flag in zip(parts, new, is_new, strict=True)]
        padded = np.concatenate([is_new, np.full(self.padded - len(is_new), is_new[-1])])
        flags = padded.reshape(len(parts), -1)
        return [_choose(flag, after, before) for flag, before, after in zip(flags, parts, new, strict=True)]

    def shapes(self, part: Any) -> Any:
        """Shapes of the argument of a call, with the sharding that a compiled program is to expect of it."""
        if not self.mesh:
            return part
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._sharding), part)

    @property
    def _sharding(self) -> NamedSharding:
        assert self.mesh is not None
        return NamedSharding(self.mesh, MEMBERS)

    def over_members(self, function: Callable, per_member: int) -> Callable:
        """A function of one member as the function that one call runs; its first `per_member` arguments are its own.

        The same function each time it is asked for, so that JAX compiles it once a process.
        """
        if self.block == 1 and not self.mesh:
            return function
        return _over_members(function, per_member, self.mesh)

    def call(
        self, program: Any, mine: Sequence[list[Any]], shared: Sequence[Any] = (), *, in_threads: bool = False
    ) -> list[Any]:
        """Run a compiled program for everyone: `mine` are lists from `spread`, `shared` is the same for all.

        `in_threads` leaves the caller's thread free for Ctrl-C, even where there is a single call to make.
        """

        def one(args: tuple) -> Any:
            return jax.block_until_ready(program(*args, *shared))

        calls = list(zip(*mine, strict=True))
        if not in_threads and (self.workers == 1 or len(calls) == 1):
            return [one(args) for args in calls]
        pool = ThreadPoolExecutor(self.workers)
        try:
            return list(pool.map(one, calls))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # all is done, or the user will not wait


def place(
    members: int,
    block: int = 0,
    devices: int = 0,
    on_mesh: bool | None = None,
    members_per_call: int = 1,
    weights_per_step: int = 0,
) -> Placement:
    """A placement for M members.

    `block=0` is one member on a CPU, or up to `members_per_call` where the share of every core is `SMALLEST_BLOCK` or
    more (below, one at a time is as fast); accelerators take all at once. `devices=0` is every core or accelerator
    there is. `weights_per_step`: see `Agent`.
    `on_mesh` forces one way or the other; by default CPUs run blocks. Raises ValueError for more devices than exist.
    """
    seen = jax.local_devices()
    if on_mesh is None:
        on_mesh = seen[0].platform != "cpu"
    available = len(seen) if on_mesh else usable_cores()
    if devices > available:
        raise ValueError(f"devices={devices} were asked for, but JAX sees {available} ({seen[0].platform}).")
    count = devices or available
    if not on_mesh:
        share = math.ceil(members / count)
        together = min(members_per_call, share)
        block = block or (together if together >= SMALLEST_BLOCK else 1)
        has_large_loops = 4 * weights_per_step > SMALL_LOOP
        return Placement(members, block, min(count, math.ceil(members / block)), has_large_loops=has_large_loops)
    mesh = Mesh(np.asarray(seen[: min(count, members)]), ("members",), axis_types=(AxisType.Auto,))
    return Placement(members, members, 1, mesh)


def accelerators(devices: int = 0) -> int:
    """How many devices with memory of their own a run spreads over; 1 on CPUs, whose cores share theirs."""
    seen = jax.local_devices()
    return 1 if seen[0].platform == "cpu" else min(devices or len(seen), len(seen))


def key_words(x: Any) -> np.ndarray:
    """An array on the host; typed keys as their words, for NumPy cannot hold them."""
    return np.asarray(jax.random.key_data(x)) if is_key(x) else np.asarray(x)


def _as_keys(words: np.ndarray, impl: Any) -> jax.Array:
    return jax.random.wrap_key_data(jax.numpy.asarray(words), impl=impl)


@lru_cache(maxsize=64)
def _over_members(function: Callable, per_member: int, mesh: Mesh | None) -> Callable:
    def together(*args: Any) -> Any:
        mine, shared = args[:per_member], args[per_member:]
        return jax.vmap(lambda *one: function(*one, *shared))(*mine)

    def everywhere(*args: Any) -> Any:
        specs = tuple(MEMBERS if i < per_member else SAME for i in range(len(args)))
        return jax.shard_map(together, mesh=mesh, in_specs=specs, out_specs=MEMBERS, check_vma=False)(*args)

    return everywhere if mesh and mesh.size > 1 else together


@lru_cache(maxsize=8)
def _take(sharding: NamedSharding) -> Callable:
    return jax.jit(lambda tree, rows: jax.tree.map(lambda x: x[rows], tree), out_shardings=sharding)


@jax.jit
def _choose(flag: Any, new: Any, old: Any) -> Any:
    def leaf(n: Any, o: Any) -> Any:
        return jax.numpy.where(flag.reshape(flag.shape + (1,) * (n.ndim - 1)), n, o)

    return jax.tree.map(leaf, new, old)
