"""A function as a flat list of primitive operations, so that a kernel can run parts of it.

`flatten` traces a function and writes the bodies of the functions that it calls in their place. What a step of the list
reads and writes are `Value`s. A literal is an input with a number.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal


class CannotLower(Exception):  # noqa: N818  it says why a kernel does not apply; nothing went wrong
    """Raised with the reason why a function cannot run inside a kernel: a sentence that begins with a small letter."""


class Value:
    """An array that a step reads or writes: shape, dtype, and its number if it is a literal."""

    __slots__ = ("dtype", "number", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any, number: Any = None):
        self.shape, self.number = tuple(shape), number
        self.dtype = dtype if jnp.issubdtype(dtype, jax.dtypes.extended) else np.dtype(dtype)  # of keys: extended


class Step(NamedTuple):
    """One primitive operation."""

    primitive: Any
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    params: dict[str, Any]


class Program(NamedTuple):
    """A function of `inputs`; `constants` are arrays that it closes over, each with its value."""

    inputs: list[Value]
    constants: list[tuple[Value, Any]]
    steps: list[Step]
    outputs: list[Value]

    @property
    def arrays(self) -> list[Value]:
        """The constants and the inputs: all arrays that the function reads."""
        return [*dict(self.constants), *self.inputs]


def flatten(function: Callable, *args: Any) -> tuple[Program, Any]:
    """Trace a function: (the program of its leaves, the structure of its results).

    `args` are trees of arrays or of `jax.ShapeDtypeStruct`. Arrays that the function closes over may be traced ones.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
    program = Program([_value(x.aval) for x in closed.jaxpr.invars], [], [], [])
    program.outputs.extend(_append(program, closed.jaxpr, closed.consts, program.inputs))
    return program, jax.tree.structure(shapes)


def needed(steps: Sequence[Step], outputs: Iterable[Value], known: Iterable[Value] = ()) -> list[Step]:
    """The steps from which `outputs` follow, in order, where the values `known` need not be computed."""
    wanted, known, found = set(outputs), set(known), []
    for step in reversed(steps):
        if any(x in wanted and x not in known for x in step.outputs):
            found.append(step)
            wanted.update(step.inputs)
    return found[::-1]


def reads(steps: Iterable[Step], outputs: Iterable[Value] = ()) -> set[Value]:
    """All values that the steps read, and `outputs`."""
    return {x for step in steps for x in step.inputs} | set(outputs)


def evaluate(steps: Sequence[Step], values: dict[Value, Any], outputs: Iterable[Value]) -> dict[Value, Any]:
    """The arrays of `outputs`, computed outside of a kernel from those of `values`. Values are arrays, or literals."""
    values = dict(values)

    def read(value: Value) -> Any:
        return values[value] if value.number is None else value.number

    for step in needed(steps, outputs, values):
        results = step.primitive.bind(*(read(x) for x in step.inputs), **step.params)
        values.update(zip(step.outputs, results if step.primitive.multiple_results else [results], strict=True))
    return {x: read(x) for x in outputs}


def _append(program: Program, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Value]) -> list[Value]:
    # Append the steps of a jaxpr with these inputs; return its outputs.
    values = dict(zip(jaxpr.invars, inputs, strict=True))
    for variable, array in zip(jaxpr.constvars, constants, strict=True):
        values[variable] = _value(variable.aval)
        program.constants.append((values[variable], array))

    def read(atom: Any) -> Value:
        if isinstance(atom, Literal):
            aval: Any = atom.aval  # JAX declares a base class without a dtype
            return Value(aval.shape, aval.dtype, np.asarray(atom.val, aval.dtype))
        return values[atom]

    for equation in jaxpr.eqns:
        arguments = [read(x) for x in equation.invars]
        if (body := _body(equation)) is not None:
            results = _append(program, *body, arguments)
        elif equation.primitive.name in IDENTITIES:
            results = arguments
        else:
            results = [_value(x.aval) for x in equation.outvars]
            program.steps.append(Step(equation.primitive, tuple(arguments), tuple(results), equation.params))
        values.update(zip(equation.outvars, results, strict=True))
    return [read(x) for x in jaxpr.outvars]


def _body(equation: Any) -> tuple[Any, Sequence[Any]] | None:
    # (jaxpr, constants) of a call; None for an operation.
    if equation.primitive.name not in CALLS:
        return None
    closed = next(equation.params[name] for name in ("jaxpr", "call_jaxpr", "fun_jaxpr") if name in equation.params)
    return (closed.jaxpr, closed.consts) if hasattr(closed, "consts") else (closed, ())


def _value(aval: Any) -> Value:
    return Value(aval.shape, aval.dtype)


CALLS = frozenset(("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint"))
# Operations in the programs of a run on a mesh of devices. They say where arrays are, and change no number.
IDENTITIES = ("reshard", "sharding_constraint", "pvary")
