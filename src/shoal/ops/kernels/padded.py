"""Operations on arrays whose axes are padded to the sizes that Triton takes: powers of two, at least 16 in products.

A `Padded` array has a shape, and an array in which every axis is as long as `padded_size` says. What is in the padding
is not specified: operations that combine elements of an axis (sums, products of matrices) replace it first.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from shoal.ops.kernels.flat import CannotLower, Step, Value

LEAST = 16  # rows and columns of a product on tensor cores
MOST_COLUMNS = 16  # of arrays that are joined or sliced column by column
LARGEST_ARRAY = 2**13  # elements with padding: an array is kept in the registers of a block of 4 warps


class Padded(NamedTuple):
    """An array of this shape, inside a padded one. `is_zero`: the padding is known to be 0.

    `array` may also be a function that reads rows of a table which stays in memory: (positions [n], shape of all these
    rows) -> Padded.
    """

    array: Any
    shape: tuple[int, ...]
    is_zero: bool = False


def padded_size(size: int) -> int:
    """The length of an axis with padding: 1 for 1, otherwise the next power of two that is at least 16."""
    return 1 if size == 1 else max(LEAST, 1 << (size - 1).bit_length())


def padded_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape with padding."""
    return tuple(padded_size(n) for n in shape)


def is_padding_free(shape: Sequence[int]) -> bool:
    """Whether an array of this shape has no padding."""
    return padded_shape(shape) == tuple(shape)


def inside(shape: Sequence[int], axes: Sequence[int] | None = None) -> Array | None:
    """True where an element of a padded array is no padding along `axes` (default: all); None if nothing is padding."""
    mask = None
    for axis in range(len(shape)) if axes is None else axes:
        if padded_size(shape[axis]) != shape[axis]:
            part = lax.broadcasted_iota(jnp.int32, padded_shape(shape), axis) < shape[axis]
            mask = part if mask is None else mask & part
    return mask


def run(steps: Sequence[Step], values: dict[Value, Padded], largest: int = LARGEST_ARRAY) -> None:
    """Run steps, and add what they compute to `values`.

    Raises CannotLower for an operation without a rule, and for an array with more than `largest` elements.
    """
    for step in steps:
        if (rule := _rule(step)) is None:
            raise CannotLower(f"the operation {step.primitive.name} has no rule in a kernel")
        if (size := math.prod(padded_shape(step.outputs[0].shape))) > largest:
            raise CannotLower(f"an array {step.outputs[0].shape} has {size:,} elements, more than {largest:,}")
        values[step.outputs[0]] = rule(step, *(read(x, values) for x in step.inputs))


def read(value: Value, values: dict[Value, Padded]) -> Padded:
    """The array of a value: computed, or a literal."""
    if value.number is None:
        return values[value]
    if value.shape:
        raise CannotLower(f"an array of shape {value.shape} is a literal of the function")
    return Padded(value.number[()], ())


def _rule(step: Step) -> Any:
    name = step.primitive.name
    return _elementwise if name in ELEMENTWISE else RULES.get(name)


def _elementwise(step: Step, *inputs: Padded) -> Padded:
    shape = step.outputs[0].shape
    array = _bind(step, [x.array for x in inputs])
    arrays = [x for x in inputs if x.shape]
    keeps = step.primitive.name in KEEP_ZERO and (len(arrays) == len(inputs) or step.primitive.name == "mul")
    return Padded(array, shape, keeps and all(x.is_zero for x in arrays))


def _bind(step: Step, arrays: Sequence[Any]) -> Any:
    name = step.primitive.name
    if name in ("max", "min") and jnp.issubdtype(step.outputs[0].dtype, jnp.floating):
        return _with_nan(step, *arrays)
    if all(isinstance(x, np.generic) for x in arrays):  # numbers only: Triton has no operations on them
        with jax.ensure_compile_time_eval():
            return np.asarray(step.primitive.bind(*arrays, **step.params))[()]
    return step.primitive.bind(*arrays, **step.params)


def _with_nan(step: Step, x: Any, y: Any) -> Array:
    # Triton's max and min ignore NaN, those of XLA return it. A member whose losses are NaN must be seen.
    return jnp.where((x != x) | (y != y), x + y, step.primitive.bind(x, y, **step.params))


def _one_minus_square(step: Step, x: Padded) -> Padded:
    # A multiplication and a subtraction become one instruction with one rounding; XLA's (1 - x) (1 + x) is three.
    return Padded(1 - x.array * x.array, step.outputs[0].shape)


def _same(step: Step, x: Padded) -> Padded:
    del step
    return x


def _broadcast_in_dim(step: Step, x: Padded) -> Padded:
    shape, axes = step.outputs[0].shape, step.params["broadcast_dimensions"]
    array = lax.broadcast_in_dim(x.array, padded_shape(shape), axes)
    kept = {axis for i, axis in enumerate(axes) if x.shape[i] == shape[axis]}
    new_padding = any(padded_size(n) != n for axis, n in enumerate(shape) if axis not in kept)
    return Padded(array, shape, x.is_zero and not new_padding)


def _reshape(step: Step, x: Padded) -> Padded:
    # Axes of length 1 may come and go; anything else would move elements between padded axes.
    shape = step.outputs[0].shape
    free = is_padding_free(shape) and is_padding_free(x.shape)
    if not free and [n for n in shape if n > 1] != [n for n in x.shape if n > 1]:
        raise CannotLower(f"reshape from {x.shape} to {shape} would move elements between padded axes")
    if shape == x.shape:
        return x
    return Padded(lax.reshape(x.array, padded_shape(shape)), shape, x.is_zero)


def _transpose(step: Step, x: Padded) -> Padded:
    return Padded(lax.transpose(x.array, step.params["permutation"]), step.outputs[0].shape, x.is_zero)


def _iota(step: Step) -> Padded:
    shape = step.outputs[0].shape
    return Padded(lax.broadcasted_iota(step.params["dtype"], padded_shape(shape), step.params["dimension"]), shape)


def _reduce(step: Step, x: Padded) -> Padded:
    reduce, fill = REDUCTIONS[step.primitive.name]
    axes = tuple(step.params["axes"])
    if x.array.dtype == jnp.bool_:
        x = x._replace(array=x.array.astype(jnp.int32))
    if not jnp.issubdtype(x.array.dtype, jnp.floating) and abs(fill) > 1:
        raise CannotLower(f"the operation {step.primitive.name} has a rule for floats only, not for {x.array.dtype}")
    array = x.array if fill == 0 and x.is_zero else _filled(x, axes, fill)
    result = reduce(array, axis=axes[0]) if step.primitive.name.startswith("arg") else reduce(array, axis=axes)
    return Padded(result.astype(step.outputs[0].dtype), step.outputs[0].shape, fill == 0 and x.is_zero)


def _filled(x: Padded, axes: Sequence[int], fill: float) -> Array:
    mask = inside(x.shape, axes)
    return x.array if mask is None else jnp.where(mask, x.array, jnp.asarray(fill, x.array.dtype))


def _dot_general(step: Step, a: Padded, b: Padded) -> Padded:
    contract, batch = step.params["dimension_numbers"]
    if any(batch) or len(contract[0]) != 1 or max(len(a.shape), len(b.shape)) > 2:
        raise CannotLower(f"a product of arrays {a.shape} and {b.shape} is not one of two matrices")
    a, i = _as_matrix(a, contract[0][0], 0)
    b, j = _as_matrix(b, contract[1][0], 1)
    left, right = (x.array if x.is_zero else _filled(x, (axis,), 0) for x, axis in ((a, i), (b, j)))
    rows, inner, columns = a.shape[1 - i], a.shape[i], b.shape[1 - j]
    if min(rows, inner, columns) == 1:
        array = _thin_product(left if i else left.T, right.T if j else right, rows, inner, columns)
    else:
        numbers = (((i,), (j,)), ((), ()))
        array = lax.dot_general(left, right, numbers, step.params["precision"], preferred_element_type=jnp.float32)
    result = Padded(array, (rows, columns), a.is_zero and b.is_zero)
    return result._replace(array=lax.reshape(array, padded_shape(step.outputs[0].shape)), shape=step.outputs[0].shape)


def _as_matrix(x: Padded, contract: int, side: int) -> tuple[Padded, int]:
    # (x as a matrix, its axis that is summed over): a vector is one row on the left, one column on the right.
    if len(x.shape) == 2:
        return x, contract
    axis = side
    return Padded(jnp.expand_dims(x.array, axis), (x.shape + (1,)) if side else (1, *x.shape), x.is_zero), 1 - axis


def table_of(step: Step) -> Value | None:
    """The table whose rows a step looks up: `table.at[positions].get(mode=...)`. None for other steps."""
    if step.primitive.name != "gather":
        return None
    numbers, (table, positions) = step.params["dimension_numbers"], step.inputs
    whole_rows = tuple(step.params["slice_sizes"]) == (1, *table.shape[1:])
    by_row = (
        numbers.start_index_map == (0,) and numbers.collapsed_slice_dims in ((), (0,)) and len(positions.shape) == 2
    )
    first = numbers.offset_dims == tuple(range(1, len(step.outputs[0].shape)))
    return table if whole_rows and by_row and first and _lookup_mode(step) else None


def _lookup_mode(step: Step) -> Any:
    modes = (lax.GatherScatterMode.PROMISE_IN_BOUNDS, lax.GatherScatterMode.CLIP)
    return step.params["mode"] if step.params["mode"] in modes else None


def _gather(step: Step, table: Padded, positions: Padded) -> Padded:
    if table_of(step) is None or not callable(table.array):
        raise CannotLower("the operation gather has a rule for rows of an array that no step changes only")
    rows = lax.reshape(positions.array, padded_shape(positions.shape[:1])).astype(jnp.int32)
    if _lookup_mode(step) == lax.GatherScatterMode.CLIP:
        rows = jnp.clip(rows, 0, table.shape[0] - 1)
    shape, look_up = step.outputs[0].shape, cast(Any, table.array)
    if step.params["dimension_numbers"].collapsed_slice_dims:
        return look_up(rows, shape)
    found = look_up(rows, (shape[0], *shape[2:]))
    return Padded(jnp.expand_dims(found.array, 1), shape, found.is_zero)


def _round(step: Step, x: Padded) -> Padded:
    if step.params["rounding_method"] != lax.RoundingMethod.TO_NEAREST_EVEN or x.array.dtype != jnp.float32:
        raise CannotLower("the operation round has a rule for float32 and the nearest even number only")
    below = jnp.floor(x.array)  # Triton has no operation that rounds
    rest, is_odd = x.array - below, below != 2 * jnp.floor(below * 0.5)
    return Padded(below + ((rest > 0.5) | ((rest == 0.5) & is_odd)).astype(jnp.float32), x.shape)


def _stack(step: Step, *parts: Padded) -> Padded:
    axis = step.params["axis"]
    columns = [Padded(jnp.expand_dims(x.array, axis), (*x.shape[:axis], 1, *x.shape[axis:]), x.is_zero) for x in parts]
    return _joined(step, axis, columns)


def _concatenate(step: Step, *parts: Padded) -> Padded:
    axis = step.params["dimension"]
    if step.outputs[0].shape[axis] > MOST_COLUMNS:
        raise CannotLower(f"the operation concatenate has a rule for at most {MOST_COLUMNS} positions only")
    return _joined(step, axis, [_column(x, axis, n) for x in parts for n in range(x.shape[axis])])


def _joined(step: Step, axis: int, columns: Sequence[Padded]) -> Padded:
    # The n-th column, whose length along the axis is 1, at the position n.
    shape = step.outputs[0].shape
    position = lax.broadcasted_iota(jnp.int32, padded_shape(shape), axis)
    array = jnp.zeros(padded_shape(shape), step.outputs[0].dtype)
    for n, column in enumerate(columns):
        array = jnp.where(position == n, jnp.broadcast_to(column.array, array.shape), array)
    return Padded(array, shape, all(x.is_zero for x in columns))


def _column(x: Padded, axis: int, n: int) -> Padded:
    # The n-th position of an axis, which keeps the length 1: the sum over the axis with zeros elsewhere.
    if x.shape[axis] == 1:
        return x
    numbers = x.array.astype(jnp.int32) if x.array.dtype == jnp.bool_ else x.array
    position = lax.broadcasted_iota(jnp.int32, numbers.shape, axis) == n
    column = jnp.sum(jnp.where(position, numbers, jnp.zeros_like(numbers)), axis=axis, keepdims=True)
    return Padded(column.astype(x.array.dtype), (*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.is_zero)


def _slice(step: Step, x: Padded) -> Padded:
    shape, start = step.outputs[0].shape, step.params["start_indices"]
    changed = [axis for axis, n in enumerate(shape) if n != x.shape[axis]]
    if any(n != 1 for n in (step.params["strides"] or ())) or any(shape[axis] > MOST_COLUMNS for axis in changed):
        raise CannotLower(f"the operation slice has a rule for at most {MOST_COLUMNS} positions in a row only")
    for axis in changed:
        columns = [_column(x, axis, start[axis] + n) for n in range(shape[axis])]
        between = (*x.shape[:axis], shape[axis], *x.shape[axis + 1 :])
        x = _joined(step._replace(outputs=(Value(between, step.outputs[0].dtype),)), axis, columns)
    return x


def _thin_product(left: Array, right: Array, rows: int, inner: int, columns: int) -> Array:
    # A product with an axis of length 1 is elementwise: exact, and without padding to 16.
    if inner == 1:
        return left * right
    if columns == 1:
        return jnp.expand_dims(jnp.sum(left * right.T, axis=1), 1)
    return jnp.expand_dims(jnp.sum(left.T * right, axis=0), 0)


# fmt: off
ELEMENTWISE = frozenset((
    "abs", "add", "add_any", "and", "bitcast_convert_type", "ceil", "clamp", "convert_element_type", "cos", "div", "eq",
    "erf", "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p", "log2",
    "logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "pow", "rem", "rsqrt", "select_n", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sqrt", "square", "sub", "tan", "tanh", "xor",
))
KEEP_ZERO = frozenset(("abs", "add", "add_any", "convert_element_type", "mul", "neg", "sub", "tanh"))  # 0 for zeros
# fmt: on
REDUCTIONS = {
    "reduce_sum": (jnp.sum, 0),
    "reduce_max": (jnp.max, -np.inf),
    "reduce_min": (jnp.min, np.inf),
    "argmax": (jnp.argmax, -np.inf),
    "argmin": (jnp.argmin, np.inf),
    "reduce_and": (jnp.min, 1),  # of booleans as numbers
    "reduce_or": (jnp.max, 0),
}
RULES = {
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _concatenate,
    "copy": _same,
    "dot_general": _dot_general,
    "gather": _gather,
    "iota": _iota,
    "one_minus_square": _one_minus_square,
    "reshape": _reshape,
    "round": _round,
    "slice": _slice,
    "squeeze": _reshape,
    "stack": _stack,
    "stop_gradient": _same,
    "transpose": _transpose,
    **dict.fromkeys(REDUCTIONS, _reduce),
}
