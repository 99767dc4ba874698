"""The gradient of a mean of sample losses, in one kernel for each network.

Under `vmap` over M members a kernel is launched once, with a block of threads for each member. The block reads the
weights of its member once and goes through the minibatch in chunks of rows; the weights, the activations and the sum of
the gradient stay inside it. XLA's form of the same, `jax.grad`, launches about 25 kernels, which write and read the
activations of all layers. Networks that share no weights, such as an actor and a critic, have a kernel each
(`parts.py`): the code of one fits into the instruction cache, that of both does not.

The loss is the agent's own function: it is traced, and its operations run on padded arrays (`padded.py`).
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from shoal.ops.kernels.flat import CannotLower, Program, Value, flatten, reads
from shoal.ops.kernels.memory import launch, load, store
from shoal.ops.kernels.padded import LARGEST_ARRAY, Padded, padded_shape, padded_size, read, run
from shoal.ops.kernels.parts import Part, apart, total_losses

Loss = Callable[[Any, Any], tuple[Float[Array, ""], Any]]


class Block(NamedTuple):
    """A block of threads, and what it can hold."""

    warps: int  # groups of 32 threads
    weights: int  # padded weights of a network: with more, registers spill by kilobytes
    array: int  # elements of an array with padding, which is in the registers of the block


# Measured on an H200, in updates of PPO (2,048 members, two layers of 64 units, minibatches of 128), the fastest of 9
# pairs: one chunk of 128 rows and 4 warps take 9.9 ms, chunks of 64 rows 11.5, chunks of 32 rows and 8 warps 18.5.
# In a loop the sum of the gradient takes registers, too: compiled for an H100, chunks of 64 then spill the least.
ONE_CHUNK, CHUNK = 128, 64  # most rows of a minibatch that is one chunk, and of one that is several
SMALL = Block(warps=4, weights=2**13, array=LARGEST_ARRAY)
# Compiled for an H100 only: DQN's loss with layers of 120 and 84 units and its target network takes 139 KB of shared
# memory, and 8,800 instructions of each warp (PPO's two networks of 64 and 64 units take 5,900 and 8,000). In a loop
# over chunks of 16 to 64 rows DQN's needs 255 to 307 KB of shared memory, of which there are 232; PQN's, which has no
# target network, fits, but its warps execute 1.5 to 2 times as many instructions.
LARGE = Block(warps=8, weights=2**15, array=2**14)


class Plan(NamedTuple):
    """The program of loss and gradient, and the chunks of rows in which the kernel computes it."""

    program: Program
    parts: list[Part]
    structure: Any  # of the results of `jax.grad`: the gradient, and the losses
    num_weights: int  # arrays
    chunk: int  # rows
    num_chunks: int
    block: Block

    def size_of(self, part: Part) -> int:
        """The number of weights of a part, with padding."""
        return sum(math.prod(padded_shape(self.program.inputs[i].shape)) for i in part.leaves)


def kernel_gradient(
    loss: Loss,
    weights: Any,
    rows: Any,
    *,
    sums: bool = False,
    only_measured: bool = True,
    chunk: int | None = None,
    interpret: bool = False,
) -> tuple[Any, Any]:
    """The same as `jax.grad(loss, has_aux=True)(weights, rows)`, for one member, in kernels.

    `loss(weights, rows)` returns (a scalar, a tree of scalars), all of them means over the rows, or sums of such means;
    with `sums`, all of them are sums over the rows. The leaves of `rows` are arrays [B, ...], of which the kernel works
    on up to `chunk` rows at a time. Arrays that `loss` closes over, such as hyperparameters, may be traced.
    `only_measured` refuses networks of sizes that were compiled, but never timed on a GPU. `interpret` runs the
    operations of the kernel one by one, on any device. Raises CannotLower where the kernel does not apply.
    """
    plan = _plan(loss, weights, rows, chunk, only_measured)
    arrays = {**dict(plan.program.constants), **_leaves_of(plan.program, weights, rows)}
    values = {}
    for part in plan.parts:
        wanted = (*part.gradient, *part.means)
        inputs = {x: jnp.asarray(array) for x, array in arrays.items() if x in reads(part.steps, wanted)}
        kernel = partial(_kernel, plan, part, list(inputs), 1.0 if sums else 1 / plan.num_chunks)
        results = launch(kernel, list(inputs.values()), wanted, "gradient", warps=plan.block.warps, interpret=interpret)
        values.update(zip(wanted, results, strict=True))
    gradient = [values[x] for x in plan.program.outputs[: plan.num_weights]]
    return jax.tree.unflatten(plan.structure, [*gradient, *total_losses(plan.program, plan.num_weights, values)])


def _leaves_of(program: Program, *trees: Any) -> dict[Value, Array]:
    return dict(zip(program.inputs, jax.tree.leaves(trees), strict=True))


def _plan(loss: Loss, weights: Any, rows: Any, most_rows: int | None, only_measured: bool) -> Plan:
    leaves = jax.tree.leaves(weights)
    for leaf in leaves:
        if leaf.dtype != jnp.float32:
            raise CannotLower(f"an array of weights is {leaf.dtype}, not float32")
    sizes = {x.shape[:1] for x in jax.tree.leaves(rows)}
    if len(sizes) != 1 or () in sizes:
        raise CannotLower("the arrays of the minibatch do not share a first axis")
    ((size,),) = sizes

    def planned(chunk: int, block: Block) -> Plan:
        chunk_of = jax.tree.map(lambda x: jax.ShapeDtypeStruct((chunk, *x.shape[1:]), x.dtype), rows)
        program, structure = flatten(jax.grad(loss, has_aux=True), weights, chunk_of)
        return Plan(program, apart(program, len(leaves)), structure, len(leaves), chunk, size // chunk, block)

    widest = max((padded_size(n) for leaf in leaves for n in leaf.shape), default=1)
    most_rows = most_rows or (ONE_CHUNK if size <= ONE_CHUNK else CHUNK)
    plan = planned(_chunk_size(size, min(most_rows, SMALL.array // widest)), SMALL)
    if (largest := max(plan.size_of(part) for part in plan.parts)) > SMALL.weights:
        _check_large(largest, size, widest, SMALL if only_measured else LARGE)
        plan = planned(size, LARGE)
    for loss_value in plan.program.outputs[len(leaves) :]:
        if loss_value.shape:
            raise CannotLower(f"the loss reports an array of shape {loss_value.shape}, and a kernel numbers only")
    for part in plan.parts:
        _check_rules(plan, part)
    return plan


def _chunk_size(size: int, most: int) -> int:
    # The largest divisor of the minibatch that fills at least half of its padded chunk.
    for chunk in range(min(size, most), 0, -1):
        if size % chunk == 0 and 2 * chunk >= padded_size(chunk) > 1:
            return chunk
    raise CannotLower(f"no number of rows from 8 to {most} divides the minibatch of {size} rows")


def _check_large(num_weights: int, num_rows: int, widest: int, block: Block) -> None:
    # Raise CannotLower if a network is too large for a block of threads, or its minibatch, which must be one chunk.
    if num_weights > block.weights:
        raise CannotLower(f"one network has {num_weights:,} weights (with padding), more than {block.weights:,}")
    most = min(ONE_CHUNK, block.array // widest)
    if num_rows > most:
        raise CannotLower(
            f"one network has {num_weights:,} weights (with padding), for which a minibatch has at most {most} rows, "
            f"not {num_rows}"
        )


def _check_rules(plan: Plan, part: Part) -> None:
    # Raise CannotLower if an operation of the part has no rule.
    def compute() -> list[Any]:
        arrays = [x for x in plan.program.arrays if not jnp.issubdtype(x.dtype, jax.dtypes.extended)]
        values = {x: Padded(jnp.zeros(padded_shape(x.shape), x.dtype), x.shape) for x in arrays}
        run(part.steps, values, plan.block.array)
        return [read(x, values).array for x in (*part.gradient, *part.means)]

    jax.eval_shape(compute)


def _kernel(plan: Plan, part: Part, inputs: Sequence[Value], scale: float, *refs: Any) -> None:
    wanted, rows = (*part.gradient, *part.means), set(plan.program.inputs[plan.num_weights :])

    def add_chunk(number: Any, totals: list[Array]) -> list[Array]:
        first_row = number * plan.chunk
        values = {
            x: load(ref, x.shape, first_row=first_row if x in rows else None)
            for x, ref in zip(inputs, refs, strict=False)
        }
        run(part.steps, values, plan.block.array)
        return [total + read(x, values).array for total, x in zip(totals, wanted, strict=True)]

    totals = [jnp.zeros(padded_shape(x.shape), x.dtype) for x in wanted]
    totals = lax.fori_loop(0, plan.num_chunks, add_chunk, totals) if plan.num_chunks > 1 else add_chunk(0, totals)
    for x, ref, total in zip(wanted, refs[len(inputs) :], totals, strict=True):
        store(ref, x.shape, total * scale)  # all chunks have equally many rows
