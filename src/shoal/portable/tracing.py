"""Read a function of JAX as a list of array operations: `program_of`.

The function is traced to a jaxpr, and the jaxpr is interpreted: calls are opened, and each other primitive becomes a
few operations (`primitives.RULES`). What depends on weights alone is computed now.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from shoal.portable.primitives import COMPLEX, RULES, Form, Pair, Writer
from shoal.portable.program import Loop, Program, Unportable, Value, needed

CALLS = {  # primitives that call a function: the name of the parameter that holds it
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
}
LIBRARIES = {"jax", "flax", "jaxtyping", "beartype"}  # whose lines say nothing to a user
MOST_UNROLLED = 1000  # repetitions of a loop that are written one after another


def program_of(
    function: Callable, weights: Mapping[str, Any], inputs: Mapping[str, Any], *, unroll: bool = False
) -> Program:
    """The program of `function(weights, inputs) -> list of arrays`.

    `weights` are arrays by name, whose names its constants get; `inputs` are shapes and dtypes by name. Loops stay
    loops, or are written repetition by repetition (`unroll`). Raises Unportable, which names the part, for a function
    with an operation that has no rule.
    """
    closed = jax.make_jaxpr(function)(dict(weights), dict(inputs))
    constants = [Value(x.shape, x.dtype, name, x) for name, x in sorted(weights.items())]
    names = [Value(tuple(x.shape), np.dtype(x.dtype), name) for name, x in sorted(inputs.items())]
    reader = _Reader(unroll)
    results = reader.read(closed.jaxpr, [_constant(x) for x in closed.consts], [*constants, *names])
    outputs = tuple(reader.writer.whole(value) for value in results)
    ordered = {value.name: value for value in names}
    return Program(tuple(ordered[name] for name in inputs), needed(reader.writer.steps, outputs), outputs)


def _constant(data: Any) -> Value:
    data = data if _is_key(data) else np.asarray(data)
    return Value(data.shape, data.dtype, data=data)


def _is_key(array: Any) -> bool:
    return jnp.issubdtype(array.dtype, jax.dtypes.extended)


class _Reader:
    """Interprets jaxprs; the steps go to `writer`."""

    def __init__(self, unroll: bool) -> None:
        self.unroll = unroll
        self.writer = Writer()

    def read(self, jaxpr: Any, constants: Sequence[Value], arguments: Sequence[Any]) -> list[Any]:
        """Return the values of a jaxpr for values of its arguments."""
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments), strict=True))

        def value_of(atom: Any) -> Any:
            if isinstance(atom, Literal):
                aval: Any = atom.aval
                return _constant(np.asarray(atom.val, aval.dtype))
            return values[atom]

        for equation in jaxpr.eqns:
            try:
                found = self._equation(equation, [value_of(atom) for atom in equation.invars])
            except Unportable as error:  # the lines of a function that JAX has compiled before are its caller's
                raise Unportable(error.part, error.line or _line_of(equation)) from None
            values.update(zip(equation.outvars, found, strict=True))
        return [value_of(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, values: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        if name in CALLS:
            return self._call(params[CALLS[name]], values)
        if name == "platform_index":  # the branch of `jax.lax.platform_dependent` for other platforms stands last
            return [_constant(np.int32(len(params["platforms"]) - 1))]
        if name == "cond":
            return self._branches(params["branches"], values)
        known = all(isinstance(value, Value) and value.is_constant for value in values)
        if known and (name not in RULES or any(map(_is_key, values))):
            return self._computed(equation, values)  # random numbers, which a greedy policy does not use, for example
        if name == "scan":
            return self._scan(equation, values)
        return self._written(equation, values)

    def _call(self, function: Any, values: list[Any]) -> list[Any]:
        is_closed = hasattr(function, "consts")
        constants = [_constant(x) for x in function.consts] if is_closed else []
        return self.read(function.jaxpr if is_closed else function, constants, values)

    def _computed(self, equation: Any, values: list[Value]) -> list[Value]:
        found = equation.primitive.bind(*(value.data for value in values), **equation.params)
        return [_constant(x) for x in (found if equation.primitive.multiple_results else [found])]

    def _branches(self, branches: Sequence[Any], values: list[Any]) -> list[Any]:
        """Read the branch that a constant chooses, or all branches, and select among their results."""
        which, *arguments = values
        if which.is_constant:
            return self._call(branches[min(max(int(which.data), 0), len(branches) - 1)], arguments)
        results = [self._call(branch, arguments) for branch in branches]
        return [self.writer.choice(which, cases) for cases in zip(*results, strict=True)]

    def _scan(self, equation: Any, values: list[Any]) -> list[Any]:
        # Counted by shapes: releases of JAX differ in how the parameters of a scan say what is what.
        params, body = equation.params, getattr(equation.params["jaxpr"], "jaxpr", equation.params["jaxpr"])
        length = params["length"]
        inputs = zip(equation.invars, body.invars, strict=True)
        outputs = zip(equation.outvars, body.outvars, strict=True)
        rows = sum(len(outer.aval.shape) > len(inner.aval.shape) for outer, inner in inputs)
        carried = sum(len(outer.aval.shape) == len(inner.aval.shape) for outer, inner in outputs)
        first, second = len(values) - rows - carried, len(values) - rows
        outer, carry, arrays = values[:first], values[first:second], values[second:]
        if any(isinstance(value, Pair) for value in (*carry, *arrays)):
            raise Unportable("a loop over complex numbers")
        order = range(length)[::-1] if params["reverse"] else range(length)
        if length == 1 or self.unroll and length <= MOST_UNROLLED:
            return self._unrolled(params["jaxpr"], order, outer, carry, arrays)
        return self._loop(params, outer, carry, arrays)

    def _unrolled(self, body: Any, order: range, outer: list, carry: list, arrays: list) -> list[Any]:
        rows: list[list[Any]] = []
        for t in order:
            results = self._call(body, [*outer, *carry, *(self.writer.row(array, t) for array in arrays)])
            carry, stacked = results[: len(carry)], results[len(carry) :]
            rows.append(stacked)
        if order.step < 0:
            rows.reverse()
        return [*carry, *(self.writer.stacked(column) for column in zip(*rows, strict=True))]

    def _loop(self, params: Mapping[str, Any], outer: list, carry: list, arrays: list) -> list[Any]:
        inside = [Value(value.shape, value.dtype) for value in carry]
        rows = [Value(array.shape[1:], array.dtype) for array in arrays]
        outside, self.writer = self.writer, Writer()
        results = [self.writer.whole(value) for value in self._call(params["jaxpr"], [*outer, *inside, *rows])]
        steps, self.writer = self.writer.steps, outside
        after, stacked = results[: len(carry)], results[len(carry) :]
        last = [Value(value.shape, value.dtype) for value in carry]
        written = [Value((params["length"], *value.shape), value.dtype) for value in stacked]
        first = [outside.whole(value) for value in carry]
        carries = tuple(zip(first, inside, after, last, strict=True))
        loop = Loop(
            params["length"],
            params["reverse"],
            carries,
            tuple(zip((outside.whole(array) for array in arrays), rows, strict=True)),
            tuple(zip(stacked, written, strict=True)),
            tuple(steps),
        )
        outside.steps.append(loop)
        return [*last, *written]

    def _written(self, equation: Any, values: list[Any]) -> list[Any]:
        name, outs = equation.primitive.name, [out.aval for out in equation.outvars]
        is_complex = any(map(_is_complex, (*values, *outs)))
        rule = COMPLEX.get(name) if is_complex else RULES.get(name)
        if rule is None:
            raise Unportable(f"{name}{' of complex numbers' * is_complex}")
        forms = [Form(tuple(out.shape), out.dtype) for out in outs]
        has_several = equation.primitive.multiple_results
        found = rule(self.writer, forms if has_several else forms[0], equation.params, *values)
        return found if isinstance(found, list) else [found]


def _is_complex(value: Any) -> bool:
    return isinstance(value, Pair) or jnp.issubdtype(value.dtype, np.complexfloating)


def _line_of(equation: Any) -> str:
    """The line of the user's or shoal's code that an operation comes from, if it is known."""
    frames = getattr(equation.source_info.traceback, "frames", ())
    own = (frame for frame in frames if not LIBRARIES & {*Path(frame.file_name).parts})
    frame = next(own, None)
    return "" if frame is None else f"{frame.function_name} ({Path(frame.file_name).name}:{frame.line_num})"
