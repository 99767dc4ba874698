"""A loop in one kernel, such as a whole rollout: a block of threads keeps what the loop carries in its registers.

Under `vmap` over M members the kernel is launched once, with a block for each member. XLA's form of the same,
`jax.lax.scan`, launches several kernels in every step of the loop, and each reads and writes the carry.

The step is the caller's own function: in a rollout, the environment's `transition` and `observe` and the agent's
policy. It is traced, and its operations run on padded arrays (`padded.py`). What it closes over is read by the kernel;
a table that it looks up by index, such as a reset bank, stays in memory, and only the rows that it needs are read.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from shoal.ops.kernels.flat import CannotLower, Program, Step, Value, evaluate, flatten, needed, reads
from shoal.ops.kernels.memory import launch, load, store
from shoal.ops.kernels.padded import Padded, padded_shape, read, run, table_of

# A warp (32 threads) keeps in its registers so many elements of an array of a step, and so many weights. Measured on an
# H200: 2,048 rollouts of CartPole with 64 units take 1.0 ms with 1 warp, 1.8 with 2, 3.5 with 4. Compiled for an H100,
# up to 128 environments or 128 units: with this many warps at most 72 bytes of registers spill.
STEP_OF_WARP, FIXED_OF_WARP = 1024, 6144
MOST_WARPS = 8

Scanned = Callable[[Any, Any], tuple[Any, Any]]


class Plan(NamedTuple):
    """The program of one step, sorted into computations before the loop and in it."""

    program: Program  # of one step: from (carry, x) to (carry, y)
    fixed: dict[Value, Array]  # the arrays that are the same in every step
    tables: set[Value]  # those of them that stay in memory, because rows are looked up
    before: list[Step]  # what follows from them alone; computed once
    steps: list[Step]  # of one step of the loop
    num_carry: int  # arrays
    length: int


def kernel_scan(
    step: Scanned, carry: Any, xs: Any, *, warps: int | None = None, interpret: bool = False
) -> tuple[Any, Any]:
    """The same as `jax.lax.scan(step, carry, xs)`, for one member, in one kernel.

    `warps` is the number of 32 threads that run it; None: by the sizes of its arrays. Arrays that `step` closes over,
    such as weights, may be traced. `interpret` runs the operations of the kernel one by one, on any device. Raises
    CannotLower where the kernel does not apply.
    """
    plan, structure = _plan(step, carry, xs)
    inputs = [jnp.asarray(x) for x in (*plan.fixed.values(), *jax.tree.leaves((carry, xs)))]
    last, ys = plan.program.outputs[: plan.num_carry], plan.program.outputs[plan.num_carry :]
    outputs = [*last, *(Value((plan.length, *y.shape), y.dtype) for y in ys)]
    warps = _warps(plan) if warps is None else warps
    results = launch(partial(_kernel, plan), inputs, outputs, "loop", warps=warps, interpret=interpret)
    return jax.tree.unflatten(structure, results)


def _plan(step: Scanned, carry: Any, xs: Any) -> tuple[Plan, Any]:
    x = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), xs)
    program, structure = flatten(step, carry, x)
    varying = _varying(program)
    tables = {table for step in program.steps if (table := table_of(step)) is not None}
    if tables & varying:
        raise CannotLower("a step looks up rows of an array that it computes")
    constants = dict(program.constants)
    computed = evaluate(program.steps, constants, tables)  # such as a reset bank [R, E], reshaped to [R E]
    steps = needed([s for s in program.steps if s.outputs[0] in varying], program.outputs)
    before = [s for s in program.steps if s.outputs[0] not in varying and s.outputs[0] not in computed]
    before = needed(before, reads(steps, program.outputs), computed)
    used = reads([*before, *steps], program.outputs)
    fixed = {x: array for x, array in {**constants, **computed}.items() if x in used}
    length, num_carry = jax.tree.leaves(xs)[0].shape[0], len(jax.tree.leaves(carry))
    plan = Plan(program, fixed, tables, before, steps, num_carry, length)
    jax.eval_shape(partial(_one_step_of_zeros, plan))  # raises CannotLower for an operation without a rule
    return plan, structure


def _warps(plan: Plan) -> int:
    def size(x: Value) -> int:
        return math.prod(padded_shape(x.shape))

    largest = max(size(x) for step in plan.steps for x in step.outputs)
    fixed = sum(size(x) for x in plan.fixed if x not in plan.tables)
    warps = 1
    while warps * STEP_OF_WARP < largest or warps * FIXED_OF_WARP < fixed - STEP_OF_WARP:
        warps *= 2
    if warps > MOST_WARPS:
        raise CannotLower(f"the arrays of a step, up to {largest:,} elements, and {fixed:,} weights are too large")
    return warps


def _varying(program: Program) -> set[Value]:
    # The values that differ between the steps of the loop.
    varying = set(program.inputs)
    for step in program.steps:
        if any(x in varying for x in step.inputs):
            varying.update(step.outputs)
    return varying


def _one_step_of_zeros(plan: Plan) -> list[Any]:
    def zeros(shape: tuple[int, ...], dtype: Any) -> Padded:
        return Padded(jnp.zeros(padded_shape(shape), dtype), shape)

    values = {x: zeros(x.shape, x.dtype) for x in (*plan.fixed, *plan.program.inputs)}
    for table in plan.tables:
        values[table] = Padded(lambda _, shape, table=table: zeros(shape, table.dtype), table.shape)
    run(plan.before, values)
    run(plan.steps, values)
    return [read(x, values).array for x in plan.program.outputs]


def _kernel(plan: Plan, *refs: Any) -> None:
    inputs = refs[: len(plan.fixed) + len(plan.program.inputs)]
    fixed, varying = inputs[: len(plan.fixed)], inputs[len(plan.fixed) :]
    outputs = refs[len(inputs) :]
    carries, xs = plan.program.inputs[: plan.num_carry], plan.program.inputs[plan.num_carry :]
    new_carries, ys = plan.program.outputs[: plan.num_carry], plan.program.outputs[plan.num_carry :]
    constants = {x: _fixed_array(plan, x, ref) for x, ref in zip(plan.fixed, fixed, strict=True)}
    run(plan.before, constants)

    def step(t: Any, carry: list[Array]) -> list[Array]:
        values = dict(constants)
        values.update((x, Padded(array, x.shape)) for x, array in zip(carries, carry, strict=True))
        values.update((x, load(ref, x.shape, row=t)) for x, ref in zip(xs, varying[plan.num_carry :], strict=True))
        run(plan.steps, values)
        for y, ref in zip(ys, outputs[plan.num_carry :], strict=True):
            store(ref, y.shape, _array(y, values), row=t)
        return [_array(x, values) for x in new_carries]

    first = [load(ref, x.shape).array for x, ref in zip(carries, varying, strict=False)]
    last = lax.fori_loop(0, plan.length, step, first)
    for x, ref, array in zip(carries, outputs, last, strict=False):
        store(ref, x.shape, array)


def _fixed_array(plan: Plan, value: Value, ref: Any) -> Padded:
    if value not in plan.tables:
        return load(ref, value.shape)
    return Padded(lambda positions, shape: load(ref, shape, row=positions), value.shape)


def _array(value: Value, values: dict[Value, Padded]) -> Array:
    return jnp.asarray(read(value, values).array, value.dtype)
