"""Check a function that a user has set in a field: its arguments are bound and it is traced, before a run compiles."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from shoal.core.user_code import in_short, line_of_function, line_raised


def result_shapes(field: str, function: Callable, examples: Mapping[str, Any]) -> Any:
    """Return the shapes and dtypes of the result of a function; `examples` are trees of shapes, by argument.

    Raises TypeError for a function with other arguments, and for code that cannot be traced.
    """
    check_signature(field, function, [*examples])
    try:
        return jax.eval_shape(function, *examples.values())
    except Exception as error:
        where, call = line_raised(error), call_of(field, [*examples])
        raise TypeError(
            f"{field_and_name(field, function)}: {_cause(error)}{f' ({where})' if where else ''}. Write {call}."
        ) from error


def check_signature(field: str, function: Callable, names: Sequence[str]) -> None:
    """Raise TypeError for a function that cannot be called with so many arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a compiled function
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        given = field_and_name(field, function)
        raise TypeError(
            f"{given}: write {call_of(field, names)}. It has the arguments {signature}: {error}."
        ) from error


def field_and_name(field: str, function: Callable) -> str:
    """Return the field with the name of its function, and its file and line where they are known."""
    at = line_of_function(function)
    return f"{field}={getattr(function, '__name__', type(function).__name__)}{f' in {at}' if at else ''}"


def call_of(field: str, names: Sequence[str]) -> str:
    """Return how the function of a field is called: `reward(before, after, action)`."""
    return f"{field}({', '.join(names)})"


def result_in_words(result: Any) -> str:
    """Return what a traced function returns, in words."""
    if not hasattr(result, "shape"):
        return f"a {type(result).__name__}"
    if result.shape:
        return f"an array {list(result.shape)}"
    return "one number" if jnp.issubdtype(result.dtype, jnp.floating) else f"a number of {result.dtype}"


def _cause(error: Exception) -> str:
    """Return why a function cannot be traced."""
    if isinstance(error, jax.errors.TracerBoolConversionError) or "truth value of an array" in str(error).lower():
        return "`if`, `and` and `while` cannot read arrays here: use jnp.where"
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return "a NumPy function cannot read arrays of JAX here: use jnp in place of np"
    return f"it raises {in_short(error).rstrip('.')}"
