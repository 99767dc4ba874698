"""Operations on arrays whose axes are padded to the sizes that Triton takes: powers of two, at least 16 in products.

A `Padded` array has a shape, and an array in which every axis is as long as `padded_size` says. What is in the padding
is not specified: operations that combine elements of an axis (sums, products of matrices) replace it first.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from shoal.ops.kernels.flat import CannotLower, Step, Value

LEAST = 16  # rows and columns of a product on tensor cores


class Padded(NamedTuple):
    """An array of this shape, inside a padded one. `is_zero`: the padding is known to be 0."""

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
    """True where an element of a padded array is not padding along `axes` (default: all); None if there is no padding."""
    mask = None
    for axis in range(len(shape)) if axes is None else axes:
        if padded_size(shape[axis]) != shape[axis]:
            part = lax.broadcasted_iota(jnp.int32, padded_shape(shape), axis) < shape[axis]
            mask = part if mask is None else mask & part
    return mask


def run(steps: Sequence[Step], values: dict[Value, Padded]) -> None:
    """Run steps, and add what they compute to `values`. Raises CannotLower for an operation without a rule."""
    for step in steps:
        if (rule := _rule(step)) is None:
            raise CannotLower(f"the operation {step.primitive.name} has no rule in a kernel")
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


def _bind(step: Step, arrays: Sequence[Any]) -> Array:
    name = step.primitive.name
    if name in ("max", "min") and jnp.issubdtype(step.outputs[0].dtype, jnp.floating):
        return _with_nan(step, *arrays)
    if all(isinstance(x, np.generic) for x in arrays):
        arrays = [jnp.asarray(arrays[0]), *arrays[1:]]
    return step.primitive.bind(*arrays, **step.params)


def _with_nan(step: Step, x: Any, y: Any) -> Array:
    # Triton's max and min ignore NaN, those of XLA return it. A member whose losses are NaN must be seen.
    return jnp.where((x != x) | (y != y), x + y, step.primitive.bind(x, y, **step.params))


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
    floats = jnp.issubdtype(x.array.dtype, jnp.floating)
    if not floats and step.primitive.name != "reduce_sum":
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


def _thin_product(left: Array, right: Array, rows: int, inner: int, columns: int) -> Array:
    # A product with an axis of length 1 is elementwise: exact, and without padding to 16.
    if inner == 1:
        return left * right
    if columns == 1:
        return jnp.expand_dims(jnp.sum(left * right.T, axis=1), 1)
    return jnp.expand_dims(jnp.sum(left.T * right, axis=0), 0)


ELEMENTWISE = frozenset(
    "abs add add_any and ceil clamp convert_element_type cos div eq erf exp exp2 expm1 floor ge gt integer_pow is_finite "
    "le log log1p logistic lt max min mul ne neg not or pow rem rsqrt select_n sign sin sqrt square sub tan tanh "
    "xor".split()
)
KEEP_ZERO = frozenset("abs add add_any convert_element_type mul neg sub tanh".split())  # of zeros they are 0
REDUCTIONS = {
    "reduce_sum": (jnp.sum, 0),
    "reduce_max": (jnp.max, -np.inf),
    "reduce_min": (jnp.min, np.inf),
    "argmax": (jnp.argmax, -np.inf),
    "argmin": (jnp.argmin, np.inf),
}
RULES = {
    "broadcast_in_dim": _broadcast_in_dim,
    "copy": _same,
    "dot_general": _dot_general,
    "iota": _iota,
    "reshape": _reshape,
    "squeeze": _reshape,
    "stop_gradient": _same,
    "transpose": _transpose,
    **dict.fromkeys(REDUCTIONS, _reduce),
}
