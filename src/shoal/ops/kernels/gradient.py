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
# Measured on an H200, in updates of PPO (2,048 members, two layers of 64 units, minibatches of 128), the fastest of 9
# pairs: one chunk of 128 rows and 4 warps take 9.9 ms, chunks of 64 rows 11.5, chunks of 32 rows and 8 warps 18.5.
# In a loop the sum of the gradient takes registers, too: compiled for an H100, chunks of 64 then spill the least.
ONE_CHUNK, CHUNK = 128, 64  # most rows of a minibatch that is one chunk, and of one that is several
WARPS = 4  # groups of 32 threads in a block
LARGEST_PART = 2**13  # padded weights of a network: with more, registers spill by kilobytes


class Plan(NamedTuple):
    """The program of loss and gradient, and the chunks of rows in which the kernel computes it."""

    program: Program
    parts: list[Part]
    structure: Any  # of the results of `jax.grad`: the gradient, and the losses
    num_weights: int  # arrays
    chunk: int  # rows
    num_chunks: int


def kernel_gradient(
    loss: Loss, weights: Any, rows: Any, *, chunk: int | None = None, warps: int = WARPS, interpret: bool = False
) -> tuple[Any, Any]:
    """The same as `jax.grad(loss, has_aux=True)(weights, rows)`, for one member, in kernels.

    `loss(weights, rows)` returns (a scalar, a tree of scalars), all of them means over the rows, or sums of such means.
    The leaves of `rows` are arrays [B, ...], of which the kernel works on up to `chunk` rows at a time. Arrays that
    `loss` closes over, such as hyperparameters, may be traced. `interpret` runs the operations of the kernel one by
    one, on any device. Raises CannotLower where the kernel does not apply.
    """
    plan = _plan(loss, weights, rows, chunk)
    arrays = {**dict(plan.program.constants), **_leaves_of(plan.program, weights, rows)}
    values = {}
    for part in plan.parts:
        wanted = (*part.gradient, *part.means)
        inputs = {x: jnp.asarray(array) for x, array in arrays.items() if x in reads(part.steps, wanted)}
        kernel = partial(_kernel, plan, part, list(inputs))
        results = launch(kernel, list(inputs.values()), wanted, "gradient", warps=warps, interpret=interpret)
        values.update(zip(wanted, results, strict=True))
    gradient = [values[x] for x in plan.program.outputs[: plan.num_weights]]
    return jax.tree.unflatten(plan.structure, [*gradient, *total_losses(plan.program, plan.num_weights, values)])


def _leaves_of(program: Program, *trees: Any) -> dict[Value, Array]:
    return dict(zip(program.inputs, jax.tree.leaves(trees), strict=True))


def _plan(loss: Loss, weights: Any, rows: Any, most_rows: int | None) -> Plan:
    leaves = jax.tree.leaves(weights)
    for leaf in leaves:
        if leaf.dtype != jnp.float32:
            raise CannotLower(f"an array of weights is {leaf.dtype}, not float32")
    sizes = {x.shape[:1] for x in jax.tree.leaves(rows)}
    if len(sizes) != 1 or () in sizes:
        raise CannotLower("the arrays of the minibatch do not share a first axis")
    ((size,),) = sizes
    widest = max((padded_size(n) for leaf in leaves for n in leaf.shape), default=1)
    most_rows = most_rows or (ONE_CHUNK if size <= ONE_CHUNK else CHUNK)
    chunk = _chunk_size(size, min(most_rows, LARGEST_ARRAY // widest))
    chunk_of = jax.tree.map(lambda x: jax.ShapeDtypeStruct((chunk, *x.shape[1:]), x.dtype), rows)
    program, structure = flatten(jax.grad(loss, has_aux=True), weights, chunk_of)
    plan = Plan(program, apart(program, len(leaves)), structure, len(leaves), chunk, size // chunk)
    for part in plan.parts:
        _check(program, part)
    return plan


def _chunk_size(size: int, most: int) -> int:
    # The largest divisor of the minibatch that fills at least half of its padded chunk.
    for chunk in range(min(size, most), 0, -1):
        if size % chunk == 0 and 2 * chunk >= padded_size(chunk) > 1:
            return chunk
    raise CannotLower(f"no number of rows from 8 to {most} divides the minibatch of {size} rows")


def _check(program: Program, part: Part) -> None:
    # Raise CannotLower if the part is too large, or has an operation without a rule.
    size = sum(math.prod(padded_shape(program.inputs[i].shape)) for i in part.leaves)
    if size > LARGEST_PART:
        raise CannotLower(f"one network has {size:,} weights (with padding), more than {LARGEST_PART:,}")

    def compute() -> list[Any]:
        values = {x: Padded(jnp.zeros(padded_shape(x.shape), x.dtype), x.shape) for x in program.arrays}
        run(part.steps, values)
        return [read(x, values).array for x in (*part.gradient, *part.means)]

    jax.eval_shape(compute)


def _kernel(plan: Plan, part: Part, inputs: Sequence[Value], *refs: Any) -> None:
    wanted, rows = (*part.gradient, *part.means), set(plan.program.inputs[plan.num_weights :])

    def add_chunk(number: Any, totals: list[Array]) -> list[Array]:
        first_row = number * plan.chunk
        values = {
            x: load(ref, x.shape, first_row=first_row if x in rows else None)
            for x, ref in zip(inputs, refs, strict=False)
        }
        run(part.steps, values)
        return [total + read(x, values).array for total, x in zip(totals, wanted, strict=True)]

    totals = [jnp.zeros(padded_shape(x.shape), x.dtype) for x in wanted]
    totals = lax.fori_loop(0, plan.num_chunks, add_chunk, totals) if plan.num_chunks > 1 else add_chunk(0, totals)
    for x, ref, total in zip(wanted, refs[len(inputs) :], totals, strict=True):
        store(ref, x.shape, total * (1 / plan.num_chunks))  # all chunks have equally many rows
