"""The gradient of a mean of sample losses in one kernel: a block of threads reads the weights of a member once.

Under `vmap` over M members the kernel is launched once, with a block of threads for each member and for each part of
the loss that has weights of its own (actor and critic). A block goes through the minibatch in chunks of rows; the
weights, the activations and the sum of the gradient stay inside it. XLA's form of the same, `jax.grad`, launches about
25 kernels, which write and read the activations of all layers.

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
from shoal.ops.kernels.memory import block_index, launch, load, only_if, store
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
    """The same as `jax.grad(loss, has_aux=True)(weights, rows)`, for one member, in one kernel.

    `loss(weights, rows)` returns (a scalar, a tree of scalars), all of them means over the rows, or sums of such means.
    The leaves of `rows` are arrays [B, ...]. Arrays that `loss` closes over, such as hyperparameters, may be traced.
    `interpret` runs the operations of the kernel one by one, on any device. Raises CannotLower where the kernel does
    not apply; `why_no_gradient` says so before.
    """
    plan = _plan(loss, weights, rows, chunk)
    inputs = [jnp.asarray(x) for x in (*dict(plan.program.constants).values(), *jax.tree.leaves((weights, rows)))]
    means = [x for part in plan.parts for x in part.means]
    outputs = [*plan.program.inputs[: plan.num_weights], *means]
    kernel = partial(_kernel, plan)
    results = launch(kernel, inputs, outputs, blocks=len(plan.parts), warps=warps, interpret=interpret)
    gradient, means = results[: plan.num_weights], dict(zip(means, results[plan.num_weights :], strict=True))
    return jax.tree.unflatten(plan.structure, [*gradient, *total_losses(plan.program, plan.num_weights, means)])


def why_no_gradient(loss: Loss, weights: Any, rows: Any, *, chunk: int = CHUNK) -> str | None:
    """Why the kernel cannot compute this gradient; None if it can. Nothing is computed, and no device is asked."""
    try:
        _plan(loss, weights, rows, chunk)
    except CannotLower as reason:
        return str(reason)
    return None


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


def _kernel(plan: Plan, *refs: Any) -> None:
    # One block of threads computes one part.
    inputs = dict(zip(plan.program.arrays, refs, strict=False))
    outputs = refs[len(inputs) :]
    means = iter(outputs[plan.num_weights :])
    for number, part in enumerate(plan.parts):
        results = [outputs[i] for i in part.leaves] + [next(means) for _ in part.means]
        only_if(block_index() == number, partial(_compute, plan, part, inputs, results))


def _compute(plan: Plan, part: Part, inputs: dict[Value, Any], results: Sequence[Any]) -> None:
    wanted = (*part.gradient, *part.means)
    used = [(x, inputs[x]) for x in inputs if x in reads(part.steps, wanted)]
    rows = set(plan.program.inputs[plan.num_weights :])

    def add_chunk(number: Any, totals: list[Array]) -> list[Array]:
        first_row = number * plan.chunk
        values = {x: load(ref, x.shape, first_row=first_row if x in rows else None) for x, ref in used}
        run(part.steps, values)
        return [total + read(x, values).array for total, x in zip(totals, wanted, strict=True)]

    totals = [jnp.zeros(padded_shape(x.shape), x.dtype) for x in wanted]
    totals = lax.fori_loop(0, plan.num_chunks, add_chunk, totals) if plan.num_chunks > 1 else add_chunk(0, totals)
    for x, ref, total in zip(wanted, results, totals, strict=True):
        store(ref, x.shape, total * (1 / plan.num_chunks))  # all chunks have equally many rows
