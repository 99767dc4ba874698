"""How each primitive of JAX is written as operations: `RULES`, from its name to a function that writes the steps.

Arrays of complex numbers are two real ones (`Pair`), because not every format has complex numbers.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.portable.numpy_code import computed
from shoal.portable.program import Step, Unportable, Value

Rule = Callable[..., Any]  # rule(writer, form of the result, parameters, *values) -> value or list of values
LARGEST_WINDOW = 256  # elements under a pooling window, which are read one after another
RULES: dict[str, Rule] = {}
UNARY = (
    *("neg", "exp", "log", "log1p", "expm1", "tanh", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"),
    *("sqrt", "abs", "sign", "floor", "ceil", "erf", "is_finite", "not", "logistic"),
)
BINARY = (
    *("add", "sub", "mul", "div", "max", "min", "pow", "rem", "atan2", "and", "or", "xor"),
    *("eq", "ne", "lt", "le", "gt", "ge"),
)
REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or")
KEEPS_NUMBERS = ("reshape", "transpose", "broadcast", "slice")  # a constant keeps its name
IDENTITIES = ("copy", "copy_p", "reduce_precision", "name", "stop_gradient", "sharding_constraint", "pvary")


class Form(NamedTuple):
    """The shape and dtype of a result."""

    shape: tuple[int, ...]
    dtype: Any


class Pair(NamedTuple):
    """The real and the imaginary part of complex numbers."""

    real: Value
    imaginary: Value


class Writer:
    """Writes steps, and leaves out those that change nothing."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self._made: dict[int, Step] = {}  # the step that made a value

    def write(self, operation: str, form: Form, *values: Any, origin: Value | None = None, **options: Any) -> Value:
        """Write one step whose inputs are whole arrays."""
        return self._append(operation, form, tuple(map(self.whole, values)), options, origin)

    def elementwise(self, operation: str, form: Form, *values: Any) -> Value:
        """Write one step whose inputs broadcast: an input that only repeats a smaller array is read as that one."""
        anchor = next((v for v in values if v.shape == form.shape and not v.is_constant and v.origin is None), None)
        if anchor is None:
            anchor = next((v for v in values if v.shape == form.shape and not v.is_constant), values[0])
        inputs = tuple(self.whole(v) if v is anchor else self._compact(v) for v in values)
        if np.broadcast_shapes(*(v.shape for v in inputs)) != form.shape:  # the constants gave it its shape
            inputs = tuple(map(self.whole, values))
        return self._append(operation, form, inputs, {}, None)

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The elements in another shape."""
        value = (*self._inputs(value, "reshape"), value)[0]
        if value.shape == shape:
            return value
        origin = value if shape[len(shape) - len(value.shape) :] == value.shape and math.prod(shape) else None
        return self.write("reshape", Form(shape, value.dtype), value, origin=origin, shape=shape)

    def transpose(self, value: Value, axes: Sequence[int]) -> Value:
        """The axes in another order."""
        if tuple(axes) == tuple(range(len(value.shape))):
            return value
        return self.write("transpose", Form(tuple(value.shape[a] for a in axes), value.dtype), value, axes=tuple(axes))

    def cast(self, value: Value, dtype: Any) -> Value:
        """The elements in another dtype."""
        return value if value.dtype == dtype else self.write("cast", Form(value.shape, dtype), value, dtype=dtype)

    def slice(self, value: Value, starts: Sequence[int], stops: Sequence[int], strides: Sequence[int]) -> Value:
        """The elements from `starts` up to `stops`, every so many."""
        shape = tuple(-(-(b - a) // s) for a, b, s in zip(starts, stops, strides, strict=True))
        if shape == value.shape:
            return value
        parts = tuple(zip(starts, stops, strides, strict=True))
        return self.write("slice", Form(shape, value.dtype), value, slices=parts)

    def row(self, value: Value, t: int) -> Value:
        """One row of an array."""
        zeros, ones = [0] * (len(value.shape) - 1), [1] * len(value.shape)
        row = self.slice(value, [t, *zeros], [t + 1, *value.shape[1:]], ones)
        return self.reshape(row, value.shape[1:])

    def stacked(self, values: Sequence[Value], axis: int = 0) -> Value:
        """Arrays of one shape side by side along a new axis."""
        before, after = values[0].shape[:axis], values[0].shape[axis:]
        parts = [self.reshape(value, (*before, 1, *after)) for value in map(self.whole, values)]
        form = Form((*before, len(parts), *after), values[0].dtype)
        return parts[0] if len(parts) == 1 else self.write("concatenate", form, *parts, axis=axis)

    def index(self, value: Value, size: int) -> Value:
        """An index of an array with `size` rows: without the steps that let a negative one count from the end.

        In every format negative indices do so.
        """
        match = self._inputs(value, "where")
        if match:
            below, added = self._inputs(match[0], "lt"), self._inputs(match[1], "add")
            is_one = below and added and below[0] is match[2] is added[0]
            if is_one and below[1].is_filled(0) and added[1].is_filled(size):
                return match[2]
        return value

    def _inputs(self, value: Value, operation: str) -> tuple[Value, ...]:
        """The inputs of the step that made a value, if it was this operation."""
        made = self._made.get(id(value))
        return made.inputs if made is not None and made.operation == operation else ()

    def choice(self, which: Value, cases: Sequence[Value]) -> Value:
        """The case with the number `which`, an integer or one for each element."""
        found, form = cases[0], Form(cases[0].shape, cases[0].dtype)
        for number, case in enumerate(cases[1:], 1):
            is_it = self.elementwise("eq", Form(which.shape, np.dtype(bool)), which, _number(number, which))
            found = self.elementwise("where", form, is_it, case, found)
        return found

    def whole(self, value: Any) -> Value:
        """A value that a step can read as an array of its whole shape."""
        if isinstance(value, Pair) or jnp.issubdtype(value.dtype, np.complexfloating):
            raise Unportable("complex numbers")
        if jnp.issubdtype(value.dtype, jax.dtypes.extended):
            raise Unportable("random numbers")
        return value

    def _compact(self, value: Value) -> Value:
        while value.origin is not None:
            value = value.origin
        if value.is_filled():
            return Value((), value.dtype, data=np.asarray(value.data.flat[0]))
        ones = next((i for i, n in enumerate(value.shape) if n != 1), len(value.shape))
        if value.is_constant and ones:
            return Value(value.shape[ones:], value.dtype, value.name, value.data.reshape(value.shape[ones:]))
        return value

    def _append(self, operation: str, form: Form, inputs: tuple, options: dict, origin: Value | None) -> Value:
        if all(value.is_constant for value in inputs):
            array = computed(operation, inputs, form.dtype, options)
            name = max(inputs, key=lambda value: (bool(value.name), value.size)).name
            suffix = f".{operation}" if name and operation not in KEEPS_NUMBERS else ""
            name = f"{name.partition('.')[0]}{suffix}"
            return Value(form.shape, np.dtype(form.dtype), name, np.broadcast_to(array, form.shape), origin)
        output = Value(form.shape, np.dtype(form.dtype), origin=origin)
        step = Step(operation, inputs, output, options)
        self._made[id(output)] = step
        self.steps.append(step)
        return output


def rule(*names: str, named: bool = False) -> Callable[[Rule], Rule]:
    """Declare the rule of primitives with these names. If `named`, it gets the name as `operation`."""

    def declare(function: Rule) -> Rule:
        RULES.update({name: functools.partial(function, operation=name) if named else function for name in names})
        return function

    return declare


@rule(*UNARY, *BINARY, named=True)
def _elementwise(w: Writer, form: Form, params: Mapping, *values: Value, operation: str) -> Value:
    return w.elementwise(operation, form, *values)


@rule(*IDENTITIES)
def _same(w: Writer, form: Any, params: Mapping, *values: Any) -> Any:
    return values[0]


@rule("optimization_barrier")
def _all_same(w: Writer, form: Any, params: Mapping, *values: Any) -> list:
    return list(values)


@rule("square")
def _square(w: Writer, form: Form, params: Mapping, x: Value) -> Value:
    return w.elementwise("mul", form, x, x)


@rule("integer_pow")
def _integer_pow(w: Writer, form: Form, params: Mapping, x: Value) -> Value:
    if params["y"] == 2:
        return w.elementwise("mul", form, x, x)
    return w.elementwise("pow", form, x, _number(params["y"], form))


@rule("rsqrt")
def _rsqrt(w: Writer, form: Form, params: Mapping, x: Value) -> Value:
    return w.elementwise("div", form, _number(1, form), w.elementwise("sqrt", form, x))


@rule("exp2")
def _exp2(w: Writer, form: Form, params: Mapping, x: Value) -> Value:
    return w.elementwise("exp", form, w.elementwise("mul", form, x, _number(math.log(2), form)))


@rule("erfc")
def _erfc(w: Writer, form: Form, params: Mapping, x: Value) -> Value:
    return w.elementwise("sub", form, _number(1, form), w.elementwise("erf", form, x))


@rule("add", "add_any")
def _add(w: Writer, form: Form, params: Mapping, x: Value, y: Value) -> Value:
    for one, other in ((x, y), (y, x)):
        if one.is_filled(0) and other.shape == form.shape:
            return other
    return w.elementwise("add", form, x, y)


@rule("max")
def _max(w: Writer, form: Form, params: Mapping, x: Value, y: Value) -> Value:
    for one, other in ((x, y), (y, x)):
        if one.is_filled(0) and np.issubdtype(form.dtype, np.floating):
            return w.elementwise("relu", form, other)
    return w.elementwise("max", form, x, y)


@rule("clamp")
def _clamp(w: Writer, form: Form, params: Mapping, low: Value, x: Value, high: Value) -> Value:
    return w.elementwise("min", form, w.elementwise("max", form, x, low), high)


@rule("select_n")
def _select(w: Writer, form: Form, params: Mapping, which: Value, *cases: Value) -> Value:
    if which.is_filled():
        return cases[int(which.data.flat[0])]
    if which.dtype == bool:
        return w.elementwise("where", form, which, cases[1], cases[0])
    return w.choice(which, cases)


@rule("convert_element_type")
def _cast(w: Writer, form: Form, params: Mapping, x: Value) -> Value:
    return w.cast(x, form.dtype)


@rule("reshape", "squeeze", "expand_dims")
def _reshape(w: Writer, form: Form, params: Mapping, x: Value) -> Value:
    return w.reshape(x, form.shape)


@rule("transpose")
def _transpose(w: Writer, form: Form, params: Mapping, x: Value) -> Value:
    return w.transpose(x, params["permutation"])


@rule("broadcast_in_dim")
def _broadcast(w: Writer, form: Form, params: Mapping, x: Value) -> Value:
    if math.prod(form.shape) == x.size:
        return w.reshape(x, form.shape)
    dimensions = list(params["broadcast_dimensions"])
    after = range(min(dimensions, default=len(form.shape)), len(form.shape))
    smaller = w.reshape(x, tuple(x.shape[dimensions.index(i)] if i in dimensions else 1 for i in after))
    return w.write("broadcast", form, smaller, origin=smaller, shape=form.shape)


@rule("tile")
def _tile(w: Writer, form: Form, params: Mapping, x: Value) -> Value:
    for axis, count in enumerate(params["reps"]):
        shape = tuple(n * count if i == axis else n for i, n in enumerate(x.shape))
        x = w.write("concatenate", Form(shape, x.dtype), *[x] * count, axis=axis) if count > 1 else x
    return x


@rule("rev")
def _reverse(w: Writer, form: Form, params: Mapping, x: Value) -> Value:
    return w.write("flip", form, x, axes=tuple(params["dimensions"]))


@rule("slice")
def _slice(w: Writer, form: Form, params: Mapping, x: Value) -> Value:
    strides = params["strides"] or (1,) * len(x.shape)
    return w.slice(x, params["start_indices"], params["limit_indices"], strides)


@rule("split")
def _split(w: Writer, forms: Any, params: Mapping, x: Value) -> list[Value]:
    axis, sizes, parts = params["axis"], [int(n) for n in params["sizes"]], []
    for size, end in zip(sizes, itertools.accumulate(sizes), strict=True):
        starts, stops = [0] * len(x.shape), list(x.shape)
        starts[axis], stops[axis] = end - size, end
        parts.append(w.slice(x, starts, stops, [1] * len(x.shape)))
    return parts


@rule("unstack")
def _unstack(w: Writer, forms: Any, params: Mapping, x: Value) -> list[Value]:
    parts = _split(w, forms, {"axis": params["axis"], "sizes": [1] * len(forms)}, x)
    return [w.reshape(part, form.shape) for part, form in zip(parts, forms, strict=True)]


@rule("pad")
def _pad(w: Writer, form: Form, params: Mapping, x: Value, filling: Value) -> Value:
    low, high, between = ([int(n) for n in side] for side in zip(*params["padding_config"], strict=True))
    if any(between):
        raise Unportable("pad, with gaps between the elements,")
    if not filling.is_constant:
        raise Unportable("pad, with a number that is not constant,")
    starts = [max(0, -n) for n in low]
    x = w.slice(x, starts, [size - max(0, -n) for size, n in zip(x.shape, high, strict=True)], [1] * len(low))
    widths = tuple((max(0, a), max(0, b)) for a, b in zip(low, high, strict=True))
    if not any(map(any, widths)):
        return x
    return w.write("pad", form, x, widths=widths, value=np.asarray(filling.data).item())


@rule("concatenate")
def _concatenate(w: Writer, form: Form, params: Mapping, *values: Value) -> Value:
    return values[0] if len(values) == 1 else w.write("concatenate", form, *values, axis=params["dimension"])


@rule("stack")
def _stack(w: Writer, form: Form, params: Mapping, *values: Value) -> Value:
    return w.stacked(values, params["axis"])


@rule("dynamic_slice")
def _dynamic_slice(w: Writer, form: Form, params: Mapping, x: Value, *starts: Value) -> Value:
    if all(start.is_constant for start in starts):
        spare = [n - size for n, size in zip(x.shape, form.shape, strict=True)]
        first = [min(max(int(start.data), 0), most) for start, most in zip(starts, spare, strict=True)]
        return w.slice(x, first, [a + n for a, n in zip(first, form.shape, strict=True)], [1] * len(first))
    moving = [i for i, (n, size) in enumerate(zip(x.shape, form.shape, strict=True)) if n != size]
    if len(moving) == 1 and form.shape[moving[0]] == 1:
        axis = moving[0]
        rest = [i for i in range(len(x.shape)) if i != axis]
        index = w.index(starts[axis], x.shape[axis])
        if index is starts[axis]:  # not the index of an element of the user's array, which is within it
            scalar, last = Form((), index.dtype), x.shape[axis] - 1
            index = w.elementwise("max", scalar, index, _number(0, scalar))
            index = w.elementwise("min", scalar, index, _number(last, scalar))
        row = w.write("rows", Form(tuple(x.shape[i] for i in rest), x.dtype), w.transpose(x, [axis, *rest]), index)
        return w.reshape(row, form.shape)
    return w.write("dynamic_slice", form, x, *starts, sizes=form.shape)


@rule(*REDUCTIONS, named=True)
def _reduce(w: Writer, form: Form, params: Mapping, x: Value, *, operation: str) -> Value:
    return w.write(operation, form, x, axes=tuple(params["axes"]))


@rule("argmax", "argmin", named=True)
def _argmax(w: Writer, form: Form, params: Mapping, x: Value, *, operation: str) -> Value:
    x = w.cast(x, np.dtype(np.int32)) if x.dtype == bool else x
    return w.write(operation, form, x, axis=params["axes"][0])


@rule("cumsum", "cumprod", "cummax", "cummin", named=True)
def _cumulate(w: Writer, form: Form, params: Mapping, x: Value, *, operation: str) -> Value:
    axis = params["axis"]
    if x.shape[axis] == 1:
        return x
    x = w.write("flip", form, x, axes=(axis,)) if params["reverse"] else x
    x = w.write(operation, form, x, axis=axis)
    return w.write("flip", form, x, axes=(axis,)) if params["reverse"] else x


@rule("dot_general")
def _product(w: Writer, form: Form, params: Mapping, x: Value, y: Value) -> Value:
    (x_sum, y_sum), (x_batch, y_batch) = params["dimension_numbers"]
    x_rows = [i for i in range(len(x.shape)) if i not in (*x_sum, *x_batch)]
    y_columns = [i for i in range(len(y.shape)) if i not in (*y_sum, *y_batch)]
    x, y = w.cast(x, form.dtype), w.cast(y, form.dtype)

    def joined(value: Value, *groups: Sequence[int]) -> Value:  # a group of axes becomes one
        sizes = [math.prod(value.shape[i] for i in group) for group in groups if group]
        return w.reshape(w.transpose(value, [i for group in groups for i in group]), tuple(sizes))

    x_rows_of = x_rows if x_batch or y_batch or len(x_rows) != len(x.shape) - 1 or len(x_sum) != 1 else None
    if x_rows_of is None and len(y.shape) <= 2 and len(y_sum) == 1:  # any leading axes, and a matrix or a vector
        left, right = w.transpose(x, [*x_rows, *x_sum]), w.transpose(y, [*y_sum, *y_columns])
    else:
        left, right = joined(x, x_batch, x_rows, x_sum), joined(y, y_batch, y_sum, y_columns)
        if x_batch and not x_rows:
            left = w.reshape(left, (left.shape[0], 1, left.shape[1]))
        if y_batch and not y_columns:
            right = w.reshape(right, (*right.shape, 1))
    rows = left.shape[:-1]
    columns = right.shape[len(right.shape) - 1 :] if len(right.shape) > 1 else ()
    return w.reshape(w.write("matmul", Form((*rows, *columns), form.dtype), left, right), form.shape)


@rule("conv_general_dilated")
def _convolution(w: Writer, form: Form, params: Mapping, images: Value, kernel: Value) -> Value:
    if any(n != 1 for n in params["lhs_dilation"]) or params["batch_group_count"] != 1:
        raise Unportable("conv_general_dilated, transposed or with groups in the batch,")
    axes = params["dimension_numbers"]
    images, kernel = w.transpose(images, axes.lhs_spec), w.transpose(kernel, axes.rhs_spec)
    shape = tuple(form.shape[i] for i in axes.out_spec)
    padding = [(max(a, 0), max(b, 0)) for a, b in params["padding"]]
    if padding != [tuple(border) for border in params["padding"]]:
        raise Unportable("conv_general_dilated, with a border cut off,")
    result = w.write(
        "convolution",
        Form(shape, form.dtype),
        images,
        kernel,
        strides=tuple(params["window_strides"]),
        padding=tuple(padding),
        dilation=tuple(params["rhs_dilation"]),
        groups=params["feature_group_count"],
    )
    return w.transpose(result, np.argsort(axes.out_spec).tolist())


def _pool(w: Writer, form: Form, params: Mapping, x: Value, *, operation: str, filling: Any) -> Value:
    """The largest element, or the sum, of every window: of so many strided slices as a window has elements."""
    window, strides = params["window_dimensions"], params["window_strides"]
    dilation, gaps = params.get("window_dilation", ()), params.get("base_dilation", ())
    if math.prod(window) > LARGEST_WINDOW or any(n != 1 for n in gaps):
        raise Unportable("reduce_window, with a large window or a dilated image,")
    dilation = dilation or (1,) * len(window)
    padding = [(low, high, 0) for low, high in params["padding"]]
    padded = Form(tuple(n + a + b for n, (a, b, _) in zip(x.shape, padding, strict=True)), x.dtype)
    x = _pad(w, padded, {"padding_config": padding}, x, _number(filling, padded))
    parts = []
    for offset in itertools.product(*map(range, window)):
        starts = [i * d for i, d in zip(offset, dilation, strict=True)]
        stops = [a + (n - 1) * s + 1 for a, n, s in zip(starts, form.shape, strides, strict=True)]
        parts.append(w.slice(x, starts, stops, strides))
    return functools.reduce(lambda one, other: w.elementwise(operation, form, one, other), parts)


RULES["reduce_window_max"] = functools.partial(_pool, operation="max", filling=-np.inf)
RULES["reduce_window_min"] = functools.partial(_pool, operation="min", filling=np.inf)
RULES["reduce_window_sum"] = functools.partial(_pool, operation="add", filling=0)


@rule("gather")
def _gather(w: Writer, form: Form, params: Mapping, table: Value, indices: Value) -> Value:
    """Elements or whole rows of a table, at indices that are computed."""
    axes, sizes = params["dimension_numbers"], params["slice_sizes"]
    batching = tuple(getattr(axes, "operand_batching_dims", ()))
    chosen = (*batching, *axes.start_index_map)
    rest = [i for i in range(len(table.shape)) if i not in chosen]
    if any(sizes[i] != 1 for i in chosen) or any(sizes[i] != table.shape[i] for i in rest):
        raise Unportable("gather, of windows,")
    places = indices.shape[:-1]
    if batching:
        numbers = [np.arange(places[d], dtype=indices.dtype) for d in axes.start_indices_batching_dims]
        grids = [
            np.broadcast_to(n.reshape([-1 if i == d else 1 for i in range(len(places))]), places)[..., None]
            for n, d in zip(numbers, axes.start_indices_batching_dims, strict=True)
        ]
        added = [Value(grid.shape, indices.dtype, "range", np.ascontiguousarray(grid)) for grid in grids]
        indices = w.write("concatenate", Form((*places, len(chosen)), indices.dtype), *added, indices, axis=len(places))
    limits = np.asarray([table.shape[i] - 1 for i in chosen], indices.dtype)
    mode, within = params["mode"], None
    if mode == jax.lax.GatherScatterMode.FILL_OR_DROP:
        within = _is_within(w, indices, limits)
    if mode != jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS:
        form_of_indices = Form(indices.shape, indices.dtype)
        low, high = _number(0, form_of_indices), Value(limits.shape, limits.dtype, "limits", limits)
        indices = w.elementwise("min", form_of_indices, w.elementwise("max", form_of_indices, indices, low), high)
    table = w.transpose(table, [*chosen, *rest])
    found = Form((*places, *(table.shape[len(chosen) :])), table.dtype)
    if len(chosen) == 1:
        result = w.write("rows", found, table, w.index(w.reshape(indices, places), table.shape[0]))
    else:
        result = w.write("elements", found, table, indices)
    if within is not None and not within.is_filled(True):
        missing = _number(_missing(table.dtype), found)
        within = w.reshape(within, (*places, *(1 for _ in rest)))
        result = w.elementwise("where", found, within, result, missing)
    kept = [i for i in range(len(sizes)) if i not in (*axes.collapsed_slice_dims, *batching)]
    result = w.reshape(result, (*places, *(sizes[i] for i in kept)))
    order = [i for i in range(len(form.shape)) if i not in axes.offset_dims] + list(axes.offset_dims)
    return w.transpose(result, np.argsort(order).tolist())


def _is_within(w: Writer, indices: Value, limits: np.ndarray) -> Value:
    """Whether every index is one of the table."""
    form = Form(indices.shape, np.dtype(bool))
    above = w.elementwise("ge", form, indices, _number(0, Form((), indices.dtype)))
    below = w.elementwise("le", form, indices, Value(limits.shape, limits.dtype, "limits", limits))
    both = w.elementwise("and", form, above, below)
    return w.write("reduce_and", Form(indices.shape[:-1], form.dtype), both, axes=(len(indices.shape) - 1,))


def _missing(dtype: Any) -> Any:
    if np.issubdtype(dtype, np.floating):
        return np.nan
    if np.issubdtype(dtype, np.unsignedinteger):
        return np.iinfo(dtype).max
    return np.iinfo(dtype).min if np.issubdtype(dtype, np.integer) else True


def on_parts(rule: Rule) -> Rule:
    """A rule that does the same to the real and to the imaginary parts."""

    def of_pair(w: Writer, form: Form, params: Mapping, *values: Any) -> Pair:
        real = Form(form.shape, np.dtype(np.float32))
        parts = zip(*(_parts(value) for value in values), strict=True)
        return Pair(*(rule(w, real, params, *part) for part in parts))

    return of_pair


def _parts(value: Any) -> tuple[Value, Value]:
    """The real and imaginary part; twice the value itself if it is real, such as the condition of a selection."""
    if isinstance(value, Pair):
        return value.real, value.imaginary
    if not np.issubdtype(value.dtype, np.complexfloating):
        return value, value
    real, imaginary = np.real(value.data), np.imag(value.data)
    return (
        Value(value.shape, real.dtype, f"{value.name}.real", np.ascontiguousarray(real)),
        Value(value.shape, imaginary.dtype, f"{value.name}.imaginary", np.ascontiguousarray(imaginary)),
    )


COMPLEX: dict[str, Rule] = {  # the rules of primitives with complex inputs or results
    name: on_parts(RULES[name])
    for name in (
        "add",
        "sub",
        "neg",
        "reshape",
        "squeeze",
        "expand_dims",
        "transpose",
        "broadcast_in_dim",
        "slice",
        "concatenate",
        "select_n",
        "rev",
        "reduce_sum",
        "copy",
    )
}
COMPLEX["complex"] = lambda w, form, params, real, imaginary: Pair(real, imaginary)
COMPLEX["real"] = lambda w, form, params, x: _parts(x)[0]
COMPLEX["imag"] = lambda w, form, params, x: _parts(x)[1]


def _complex_product(w: Writer, form: Form, params: Mapping, x: Any, y: Any) -> Pair:
    real = Form(form.shape, np.dtype(np.float32))
    (a, b), (c, d) = _parts(x), _parts(y)
    ac, bd, ad, bc = (w.elementwise("mul", real, *pair) for pair in ((a, c), (b, d), (a, d), (b, c)))
    return Pair(w.elementwise("sub", real, ac, bd), w.elementwise("add", real, ad, bc))


COMPLEX["mul"] = _complex_product


def _number(number: Any, form: Form | Value) -> Value:
    return Value((), np.dtype(form.dtype), data=np.asarray(number, form.dtype))
