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

from shoal.ops.kernels.flat import CannotLower, Program, Value, flatten
from shoal.ops.kernels.padded import Padded, inside, padded_shape, padded_size, read, run
from shoal.ops.kernels.parts import Part, apart, total_losses

Loss = Callable[[Any, Any], tuple[Float[Array, ""], Any]]
LARGEST_PART = 2**14  # padded weights of one part: their gradient must fit into the registers of a block


class Launch(NamedTuple):
    """How the kernel is launched. The defaults were the fastest of 24 on an H200: 2,048 members, two layers of 64."""

    chunk: int = 64  # most rows of the minibatch that a block works on at a time
    warps: int = 4  # groups of 32 threads in a block


class Plan(NamedTuple):
    """What the kernel computes, and how."""

    program: Program
    parts: list[Part]
    structure: Any  # of the results of `jax.grad`: the gradient, and the losses
    num_weights: int  # arrays
    chunk: int  # rows
    num_chunks: int


def kernel_gradient(
    loss: Loss, weights: Any, rows: Any, *, launch: Launch = Launch(), interpret: bool = False
) -> tuple[Any, Any]:
    """The same as `jax.grad(loss, has_aux=True)(weights, rows)`, for one member, in one kernel.

    `loss(weights, rows)` returns (a scalar, a tree of scalars), all of them means over the rows, or sums of such means.
    The leaves of `rows` are arrays [B, ...]. Arrays that `loss` closes over, such as hyperparameters, may be traced.
    `interpret` runs the operations of the kernel one by one, on any device. Raises CannotLower where the kernel does
    not apply; `why_not` says so before.
    """
    plan = _plan(loss, weights, rows, launch)
    inputs = [jnp.asarray(x) for x in (*dict(plan.program.constants).values(), *jax.tree.leaves((weights, rows)))]
    gradient, means = _call(plan, inputs, launch, interpret)
    losses = total_losses(plan.program, plan.num_weights, means)
    return jax.tree.unflatten(plan.structure, [*gradient, *losses])


def why_not(loss: Loss, weights: Any, rows: Any, *, launch: Launch = Launch()) -> str | None:
    """Why the kernel cannot compute this gradient; None if it can. Nothing is computed, and no device is asked."""
    try:
        _plan(loss, weights, rows, launch)
    except CannotLower as reason:
        return str(reason)
    return None


def _plan(loss: Loss, weights: Any, rows: Any, launch: Launch) -> Plan:
    leaves = jax.tree.leaves(weights)
    for leaf in leaves:
        if leaf.dtype != jnp.float32:
            raise CannotLower(f"an array of weights is {leaf.dtype}, not float32")
    sizes = {x.shape[:1] for x in jax.tree.leaves(rows)}
    if len(sizes) != 1 or () in sizes:
        raise CannotLower("the arrays of the minibatch do not share a first axis")
    ((size,),) = sizes
    chunk = _chunk_size(size, launch.chunk)
    chunk_of = jax.tree.map(lambda x: jax.ShapeDtypeStruct((chunk, *x.shape[1:]), x.dtype), rows)
    program, structure = flatten(jax.grad(loss, has_aux=True), weights, chunk_of)
    plan = Plan(program, apart(program, len(leaves)), structure, len(leaves), chunk, size // chunk)
    for part in plan.parts:
        _check(plan, part)
    return plan


def _chunk_size(size: int, most: int) -> int:
    # The largest divisor of the minibatch that fills at least half of its padded chunk.
    for chunk in range(min(size, most), 0, -1):
        if size % chunk == 0 and 2 * chunk >= padded_size(chunk) > 1:
            return chunk
    raise CannotLower(f"no number of rows from 8 to {most} divides the minibatch of {size} rows well")


def _check(plan: Plan, part: Part) -> None:
    # Raise CannotLower if the part is too large, or has an operation without a rule.
    size = sum(math.prod(padded_shape(plan.program.inputs[i].shape)) for i in part.leaves)
    if size > LARGEST_PART:
        raise CannotLower(f"one network has {size:,} weights (with padding), more than {LARGEST_PART:,}")

    def compute() -> list[Any]:
        values = {x: Padded(jnp.zeros(padded_shape(x.shape), x.dtype), x.shape) for x in _inputs(plan)}
        run(part.steps, values)
        return [read(x, values).array for x in (*part.gradient, *part.means)]

    jax.eval_shape(compute)


def _inputs(plan: Plan) -> list[Value]:
    return [*dict(plan.program.constants), *plan.program.inputs]


def _call(plan: Plan, inputs: Sequence[Array], launch: Launch, interpret: bool) -> tuple[list[Array], dict[Value, Array]]:
    from jax.experimental import pallas as pl  # here: importing Pallas takes half a second
    from jax.experimental.pallas import triton

    means = [x for part in plan.parts for x in part.means]
    outputs = [*plan.program.inputs[: plan.num_weights], *means]
    results = pl.pallas_call(
        partial(_kernel, plan),
        grid=(len(plan.parts),),
        in_specs=[_whole(pl, x.shape) for x in inputs],
        out_specs=[_whole(pl, x.shape) for x in outputs],
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in outputs],
        compiler_params=triton.CompilerParams(num_warps=launch.warps, num_stages=1),
        interpret=interpret,
        name="kernel_gradient",
    )(*inputs)
    return results[: plan.num_weights], dict(zip(means, results[plan.num_weights :], strict=True))


def _whole(pl: Any, shape: tuple[int, ...]) -> Any:
    # Every block of threads sees the whole array.
    return pl.BlockSpec(shape, lambda part: (0,) * len(shape))


def _kernel(plan: Plan, *refs: Any) -> None:
    # One block of threads: one part.
    from jax.experimental import pallas as pl

    values = _inputs(plan)
    inputs = dict(zip(values, refs, strict=False))
    outputs = refs[len(values) :]
    means = iter(outputs[plan.num_weights :])
    for number, part in enumerate(plan.parts):
        results = [outputs[i] for i in part.leaves] + [next(means) for _ in part.means]
        pl.when(pl.program_id(0) == number)(partial(_compute, plan, part, inputs, results))


def _compute(plan: Plan, part: Part, inputs: dict[Value, Any], results: Sequence[Any]) -> None:
    wanted = (*part.gradient, *part.means)
    used = {x for step in part.steps for x in step.inputs} | set(wanted)
    rows = set(plan.program.inputs[plan.num_weights :])

    def add_chunk(number: Any, totals: list[Array]) -> list[Array]:
        values = {
            x: _load(ref, x.shape, number * plan.chunk if x in rows else None) for x, ref in inputs.items() if x in used
        }
        run(part.steps, values)
        return [total + read(x, values).array for total, x in zip(totals, wanted, strict=True)]

    zeros = [jnp.zeros(padded_shape(x.shape), x.dtype) for x in wanted]
    totals = lax.fori_loop(0, plan.num_chunks, add_chunk, zeros) if plan.num_chunks > 1 else add_chunk(0, zeros)
    for x, ref, total in zip(wanted, results, totals, strict=True):
        _store(ref, x.shape, total / plan.num_chunks)


def _load(ref: Any, shape: tuple[int, ...], first_row: Any = None) -> Padded:
    # The array with zeros as padding; from this row on, for arrays of rows.
    from jax.experimental.pallas import triton

    if not shape:
        return Padded(ref[...], ())
    mask = inside(shape)
    other = None if mask is None else jnp.zeros((), ref.dtype)
    return Padded(triton.load(ref.at[_index(shape, first_row)], mask=mask, other=other), shape, True)


def _store(ref: Any, shape: tuple[int, ...], array: Array) -> None:
    from jax.experimental.pallas import triton

    if not shape:
        ref[...] = array
    else:
        triton.store(ref.at[_index(shape)], array, mask=inside(shape))


def _index(shape: tuple[int, ...], first_row: Any = None) -> tuple[Array, ...]:
    # The positions of all elements of the padded array, axis by axis.
    axes = [lax.broadcasted_iota(jnp.int32, padded_shape(shape), axis) for axis in range(len(shape))]
    if first_row is not None:
        axes[0] = axes[0] + first_row
    return tuple(axes)
