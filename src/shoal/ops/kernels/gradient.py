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
from shoal.ops.kernels.padded import Padded, padded_shape, padded_size, read, run
from shoal.ops.kernels.parts import Part, apart, total_losses

Loss = Callable[[Any, Any], tuple[Float[Array, ""], Any]]
CHUNK = 64  # most rows of the minibatch that a block works on at a time. With 4 warps, the fastest of 24 on an H200
WARPS = 4  # (2,048 members, two layers of 64 units, minibatches of 128): 0.37 ms; 16 rows and 8 warps: 0.87 ms
LARGEST_PART = 2**14  # padded weights of one part: their gradient must fit into the registers of a block


class Plan(NamedTuple):
    """What the kernel computes, and in which chunks."""

    program: Program
    parts: list[Part]
    structure: Any  # of the results of `jax.grad`: the gradient, and the losses
    num_weights: int  # arrays
    chunk: int  # rows
    num_chunks: int


def kernel_gradient(
    loss: Loss, weights: Any, rows: Any, *, chunk: int = CHUNK, warps: int = WARPS, interpret: bool = False
) -> tuple[Any, Any]:
    """The same as `jax.grad(loss, has_aux=True)(weights, rows)`, for one member, in kernels.

    `loss(weights, rows)` returns (a scalar, a tree of scalars), all of them means over the rows, or sums of such means.
    The leaves of `rows` are arrays [B, ...]. Arrays that `loss` closes over, such as hyperparameters, may be traced.
    `interpret` runs the operations of the kernel one by one, on any device. Raises CannotLower where the kernel does
    not apply.
    """
    plan = _plan(loss, weights, rows, chunk)
    arrays = {**dict(plan.program.constants), **_leaves_of(plan.program, weights, rows)}
    values = {}
    for part in plan.parts:
        wanted = (*part.gradient, *part.means)
        inputs = {x: jnp.asarray(array) for x, array in arrays.items() if x in reads(part.steps, wanted)}
        kernel = partial(_kernel, plan, part, list(inputs))
        results = launch(kernel, list(inputs.values()), wanted, warps=warps, interpret=interpret)
        values.update(zip(wanted, results, strict=True))
    gradient = [values[x] for x in plan.program.outputs[: plan.num_weights]]
    return jax.tree.unflatten(plan.structure, [*gradient, *total_losses(plan.program, plan.num_weights, values)])


def _leaves_of(program: Program, *trees: Any) -> dict[Value, Array]:
    return dict(zip(program.inputs, jax.tree.leaves(trees), strict=True))


def _plan(loss: Loss, weights: Any, rows: Any, most_rows: int) -> Plan:
    leaves = jax.tree.leaves(weights)
    for leaf in leaves:
        if leaf.dtype != jnp.float32:
            raise CannotLower(f"an array of weights is {leaf.dtype}, not float32")
    sizes = {x.shape[:1] for x in jax.tree.leaves(rows)}
    if len(sizes) != 1 or () in sizes:
        raise CannotLower("the arrays of the minibatch do not share a first axis")
    ((size,),) = sizes
    chunk = _chunk_size(size, most_rows)
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
