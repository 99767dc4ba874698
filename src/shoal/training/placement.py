"""How members are spread over the cores of a CPU or over accelerators.

On a CPU, each call of the compiled program trains one block of members, and there is one call at a time on each core.
A block is mostly one member: its weights, optimizer and minibatch then stay in the core's cache, and small matrix
products are as fast alone as in a batch (docs/how-it-is-fast.md). All members run the same program, so the results of
a member are bitwise the same for any number of members. They are also the same for any number of cores or threads,
because no kernel is split over threads, unless the network reads images (docs/correctness.md). An agent whose update
is very short may declare larger blocks (`members_per_call`); its results must not depend on them.

On accelerators, where only wide kernels are fast, one call trains all members: batched on each device, and sharded over
devices. Devices exchange nothing while they train; between chunks a turnover may copy members to another device.
If members are split, several devices share the environments of each, and average gradients and statistics among them.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from shoal.core.form import CPU, KEPT_FUNCTIONS, Form, chosen, in_form
from shoal.core.keys import is_key, key_words
from shoal.ops.devices import DATA
from shoal.training.host import SMALL_LOOP, usable_cores
from shoal.training.program import Member, Split

MEMBERS = PartitionSpec("members")
REPLICATED = PartitionSpec()
SMALLEST_BLOCK = 32  # members; smaller blocks are not faster than one member at a time
# XLA must not split the small kernels of a call over threads: the threads are busy with other members, so that parts of
# a kernel would wait for them. Also, the number of threads would decide how kernels are split, and so in which order
# numbers are summed.
ONE_CORE_PER_CALL = {"xla_cpu_multi_thread_eigen": False, "xla_disable_hlo_passes": "cpu-parallel-task-assigner"}
LIBRARY_FUSIONS = "xla_cpu_experimental_ynn_fusion_type"  # which operations a library computes instead of XLA's code
# XLA's own code computes matrix products: with library calls in it a short loop cannot become one kernel
# (`host.SMALL_LOOP`). The library computes sums.
CPU_OPTIONS = {**ONE_CORE_PER_CALL, LIBRARY_FUSIONS: "LIBRARY_FUSION_TYPE_REDUCE"}
# Where loops are too large to become one kernel, the library computes whole layers: product, bias and activation.
CPU_OPTIONS_OF_LARGE_LOOPS = {**ONE_CORE_PER_CALL, LIBRARY_FUSIONS: "LIBRARY_FUSION_TYPE_DOT"}


class Placement(NamedTuple):
    """M members in blocks of `block`, with `workers` calls at a time; or one call for all on a mesh of accelerators.

    Trees of members are kept as `parts`: a list with the argument of each call (`spread`).
    """

    members: int
    block: int
    workers: int
    mesh: Mesh | None = None  # None on a CPU
    has_large_loops: bool = False  # whether the CPU options for large loops are used
    split: Split | None = None  # how several devices of the mesh share the environments of each member
    form: Form = CPU  # of the programs

    @property
    def padded(self) -> int:
        """M rounded up to whole blocks, or to a multiple of the mesh. Copies of the last member fill the rest."""
        step = self.mesh.shape["members"] if self.mesh else self.block
        return math.ceil(self.members / step) * step

    @property
    def compiler_options(self) -> dict[str, Any] | None:
        """The options for XLA's compiler; None for its defaults."""
        if self.mesh:
            return self.form.compiler_options or None
        return CPU_OPTIONS_OF_LARGE_LOOPS if self.has_large_loops else CPU_OPTIONS

    def describe(self) -> str:
        """Return a text such as `2 CPU cores, one member at a time on each`."""
        if self.mesh:
            device = self.mesh.devices.flat[0]
            shared = f", {self.split.devices} for each member" if self.split else ""
            return f"{self.mesh.size} x {device.device_kind}{shared}, all members at a time"
        cores = f"{self.workers} CPU core{'s' * (self.workers > 1)}"
        if self.members == 1:
            return cores
        return f"{cores}, {'one member' if self.block == 1 else f'{self.block} members'} at a time on each"

    def spread(self, tree: Any, count: int = 0, calls: Sequence[int] | None = None) -> list[Any]:
        """Split a tree with leaves [M, ...] into the arguments of each call, or of some calls only.

        `count` is M; it is used for a tree without leaves, such as an environment without constants.
        """
        leaves, structure = jax.tree.flatten(tree)
        impls = [jax.random.key_impl(x) if is_key(x) else None for x in leaves]
        arrays = [np.asarray(key_words(x)) for x in leaves]

        def part(rows: Any) -> Any:
            selected = [
                a[rows] if impl is None else _as_keys(a[rows], impl) for a, impl in zip(arrays, impls, strict=True)
            ]
            return jax.tree.unflatten(structure, selected)

        last = (len(arrays[0]) if arrays else count) - 1
        if self.mesh:
            all_members = part(np.minimum(np.arange(self.padded), last))
            return [jax.device_put(all_members, self._shardings(all_members))]
        if self.block == 1:
            return [part(m) for m in (range(last + 1) if calls is None else calls)]
        starts = range(0, last + 1, self.block) if calls is None else [call * self.block for call in calls]
        return [part(np.minimum(np.arange(start, start + self.block), last)) for start in starts]

    def gather(self, parts: Sequence[Any], count: int) -> Any:
        """Join the results of all calls to one tree on the host, with leaves [count, ...]. Keys stay typed keys."""
        join = np.stack if self.block == 1 and not self.mesh else np.concatenate

        return jax.tree.map(lambda *leaves: joined_leaves(join, leaves, count), *parts)

    def exchange(self, parts: Sequence[Any], source: np.ndarray) -> list[Any]:
        """Return the parts with every member m replaced by member `source[m]`.

        The arrays of a copy may be those of its original, so no program may be given both to keep (`donate_argnums`)
        before one of them was copied. On a mesh, members are copied directly between devices, not through the host.
        """
        count = len(source)
        if self.mesh:
            rows = np.concatenate([source, np.full(self.padded - count, source[-1])])
            return [_take(self.mesh, self.split)(parts[0], rows)]
        if self.block == 1:
            return [parts[of] for of in source]
        return self.spread(jax.tree.map(lambda x: x[source], self.gather(parts, count)))

    def calls_with(self, flag: np.ndarray) -> list[int]:
        """Return the numbers of the calls that have a member where `flag` [M] is true; a mesh has one call."""
        size = len(flag) if self.mesh else self.block
        return [call for call, start in enumerate(range(0, len(flag), size)) if flag[start : start + size].any()]

    def merge(self, parts: Sequence[Any], new: Sequence[Any], is_new: np.ndarray) -> list[Any]:
        """Return the parts with the members where `is_new` [M] is true taken from `new`, and all others unchanged.

        `new` has None for calls without a new member.
        """
        if self.block == 1 and not self.mesh:
            return [after if flag else before for before, after, flag in zip(parts, new, is_new, strict=True)]
        slots = self.padded if self.mesh else len(parts) * self.block  # the last wave may have fewer calls
        padded = np.concatenate([is_new, np.full(slots - len(is_new), is_new[-1])])
        flags = padded.reshape(len(parts), -1)
        return [
            before if after is None else _where_flagged(flag, after, before)
            for flag, before, after in zip(flags, parts, new, strict=True)
        ]

    def shapes(self, part: Any) -> Any:
        """Return the shapes of an argument of a call, on a mesh with the sharding that it will have."""
        if not self.mesh:
            return part
        return jax.tree.map(
            lambda x, to: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=to), part, self._shardings(part)
        )

    def _shardings(self, tree: Any) -> Any:
        """Return the sharding of every leaf of an argument of a call."""
        assert self.mesh is not None
        if self.split and isinstance(tree, Member):
            return _of_members(self.mesh, self.split)
        sharding = NamedSharding(self.mesh, MEMBERS)
        return jax.tree.map(lambda _: sharding, tree)

    def over_members(
        self, function: Callable, per_member: int, returns: Any = object, kind: Hashable = None
    ) -> Callable:
        """Return the batched version of a function of one member, which a call runs, traced in the form of the plan.

        The first `per_member` arguments have a member axis; the others are shared. `returns` says where a `Member` is
        in the result: it is this type, or a tuple of types. Equal arguments give the same function, so that JAX
        compiles it once in a process, as long as `in_form` keeps functions of this `kind`.
        """
        formed = in_form(function, self.form, kind)
        if self.block == 1 and not self.mesh:
            return formed
        return _over_members(formed, per_member, returns, self.mesh, self.split)

    def call(
        self, program: Any, per_call: Sequence[list[Any]], shared: Sequence[Any] = (), *, in_threads: bool = False
    ) -> list[Any]:
        """Run a compiled program for all members and return the result of each call.

        `per_call` are lists from `spread`; `shared` are arguments that are the same for all calls. With `in_threads`
        the caller's thread never runs the program, so it can react to Ctrl-C, even if there is only one call.
        """

        def one(args: tuple) -> Any:
            return jax.block_until_ready(program(*args, *shared))

        calls = list(zip(*per_call, strict=True))
        if not in_threads and (self.workers == 1 or len(calls) == 1):
            return [one(args) for args in calls]
        pool = ThreadPoolExecutor(self.workers)
        try:
            return list(pool.map(one, calls))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # all calls are done, or the user interrupted them


def make_placement(
    members: int,
    block: int = 0,
    devices: int = 0,
    on_mesh: bool | None = None,
    members_per_call: int = 1,
    weights_per_step: int = 0,
    split: Split | None = None,
) -> Placement:
    """Return a placement for M members.

    `block=0` means one member on a CPU, or up to `members_per_call` if every core has at least `SMALLEST_BLOCK`
    members; accelerators always train all members in one call. `devices=0` means all cores or accelerators.
    `weights_per_step`: see `Agent`. `on_mesh` chooses between a mesh and blocks; by default CPUs use blocks.
    With `split`, several devices share each member, on a CPU too. Raises ValueError for more devices than exist.
    """
    local = jax.local_devices()
    if on_mesh is None:
        on_mesh = split is not None or local[0].platform != "cpu"
    available = len(local) if on_mesh else usable_cores()
    if devices > available:
        has = f"JAX sees {available} ({local[0].platform})" if on_mesh else f"this process has {available} (CPU cores)"
        raise ValueError(f"devices={devices} were asked for, but {has}.")
    count = devices or available
    if not on_mesh:
        members_per_core = math.ceil(members / count)
        together = min(members_per_call, members_per_core)
        block = block or (together if together >= SMALLEST_BLOCK else 1)
        has_large_loops = 4 * weights_per_step > SMALL_LOOP
        workers = min(count, math.ceil(members / block))
        form = chosen(local[0].platform, block)
        return Placement(members, block, workers, has_large_loops=has_large_loops, form=form)
    if split is None:
        mesh = Mesh(np.asarray(local[: min(count, members)]), ("members",), axis_types=(AxisType.Auto,))
        form = chosen(local[0].platform, math.ceil(members / mesh.size))
        return Placement(members, members, 1, mesh, form=form)
    shape = min(_groups(count, split.devices, local[0].platform), members), split.devices
    grid = np.asarray(local[: math.prod(shape)]).reshape(shape)
    mesh = Mesh(grid, ("members", DATA), axis_types=(AxisType.Auto,) * 2)
    return Placement(members, members, 1, mesh, split=split, form=split.form)


def _groups(count: int, devices: int, platform: str) -> int:
    """Return how many members `count` devices can train side by side if `devices` of them share each member."""
    if count >= devices:
        return count // devices
    advice = f"use at most {count}" if count > 1 else "use 1, which does not split it"
    forced = (
        f" To try it on a CPU, set XLA_FLAGS=--xla_force_host_platform_device_count={devices} before the start: JAX "
        f"then shows the CPU as {devices} devices."
    )
    raise ValueError(
        f"devices_per_member={devices} splits each member, but this run has {count} device{'s' * (count > 1)} "
        f"({platform}): {advice}. A run that is resumed can use another number than before."
        f"{forced if platform == 'cpu' else ''}"
    )


def accelerators(devices: int = 0) -> int:
    """Return how many devices with a memory of their own a run uses; 1 on a CPU, where cores share the memory."""
    local = jax.local_devices()
    return 1 if local[0].platform == "cpu" else min(devices or len(local), len(local))


def joined_leaves(join: Callable, leaves: Sequence[Any], count: int | None = None) -> Any:
    """Return leaves joined by a function of NumPy, the first `count` rows; typed keys too, without compiling."""
    joined = join([np.asarray(key_words(x)) for x in leaves])[:count]
    return _as_keys(joined, jax.random.key_impl(leaves[0])) if is_key(leaves[0]) else joined


def _as_keys(words: np.ndarray, impl: Any) -> jax.Array:
    return jax.random.wrap_key_data(jax.numpy.asarray(words), impl=impl)


@lru_cache(maxsize=KEPT_FUNCTIONS)
def _over_members(
    function: Callable, per_member: int, returns: Any, mesh: Mesh | None, split: Split | None
) -> Callable:
    def batched(*args: Any) -> Any:
        batched_args, shared = args[:per_member], args[per_member:]
        return jax.vmap(lambda *one: function(*one, *shared))(*batched_args)

    def sharded(*args: Any) -> Any:
        in_specs = tuple(specs(type(arg)) if i < per_member else REPLICATED for i, arg in enumerate(args))
        out_specs = jax.tree.map(specs, returns)
        return jax.shard_map(batched, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)(*args)

    def specs(kind: Any) -> Any:
        return split.specs if split and kind is Member else MEMBERS

    return sharded if mesh and mesh.size > 1 else batched


@lru_cache(maxsize=8)
def _take(mesh: Mesh, split: Split | None) -> Callable:
    return jax.jit(lambda tree, rows: jax.tree.map(lambda x: x[rows], tree), out_shardings=_of_members(mesh, split))


def _of_members(mesh: Mesh, split: Split | None) -> Any:
    """Return the sharding of members: one for all leaves, or a tree if their environments are split over devices."""
    if split is None:
        return NamedSharding(mesh, MEMBERS)
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), split.specs)


@jax.jit
def _where_flagged(flag: Any, new: Any, old: Any) -> Any:
    def leaf(n: Any, o: Any) -> Any:
        return jax.numpy.where(flag.reshape(flag.shape + (1,) * (n.ndim - 1)), n, o)

    return jax.tree.map(leaf, new, old)
