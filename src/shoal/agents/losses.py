"""Check a loss function that a user has set in a field of an agent: it is traced before a run compiles."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from shoal.core.struct import Struct
from shoal.core.user_code import in_short, line_of_function, line_raised


def chosen_loss(field: str, choice: str | Callable | Struct, table: Mapping[str, Callable]) -> Callable:
    """Return the function that `table` has for a name. A function of the user is checked and returned.

    The function takes the arguments of those in the table: arrays [B], and `clip`, a number. A struct with `__call__`
    is such a function too. Raises TypeError for another number of arguments or for code that cannot be traced, and
    ValueError if the result is not [B].
    """
    if not callable(choice):
        _check_callable(field, choice)
        return table[choice]  # type: ignore[index]  # a name
    if choice in table.values():
        return choice
    names = [*inspect.signature(next(iter(table.values()))).parameters]
    sample = jax.ShapeDtypeStruct((7,), jnp.float32)
    examples = [jax.ShapeDtypeStruct((), jnp.float32) if name == "clip" else sample for name in names]
    result = _traced(field, choice, names, examples)
    if getattr(result, "shape", None) != sample.shape:
        raise ValueError(
            f"{_given(field, choice)} returns {_kind(result)} for a minibatch [7]: {_call(field, names)} returns one "
            "loss for each sample, without mean() or sum(). The agent averages."
        )
    return choice


def check_term(field: str, term: Any, examples: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError unless a term of a loss makes one number of its arguments.

    `examples` are trees of the shapes of its arguments, by name. A struct with `__call__` is such a function too.
    """
    _check_callable(field, term)
    if not callable(term):
        raise TypeError(f"{field}={term!r:.60} is no function: write {_call(field, [*examples])}.")
    result = _traced(field, term, [*examples], [*examples.values()])
    if getattr(result, "shape", None) != () or not jnp.issubdtype(result.dtype, jnp.floating):
        raise ValueError(
            f"{_given(field, term)} returns {_kind(result)}: {_call(field, [*examples])} returns one number for the "
            f"whole minibatch, such as a mean over its samples."
        )


def _traced(field: str, function: Callable, names: list[str], examples: list[Any]) -> Any:
    """Return the shapes of the result of a function of the user. Raises TypeError if it cannot be traced."""
    given, call = _given(field, function), _call(field, names)
    _check_signature(function, names, given, call)
    try:
        return jax.eval_shape(function, *examples)
    except Exception as error:
        where = line_raised(error)
        raise TypeError(f"{given}: {_cause(error)}{f' ({where})' if where else ''}. Write {call}.") from error


def _check_callable(field: str, choice: Any) -> None:
    if isinstance(choice, Struct) and not callable(choice):
        raise TypeError(f"{field}={type(choice).__name__} cannot be called: its class needs `__call__`.")


def _given(field: str, function: Callable) -> str:
    """Return the field with the name of its function, and its file and line where they are known."""
    at = line_of_function(function)
    return f"{field}={getattr(function, '__name__', type(function).__name__)}{f' in {at}' if at else ''}"


def _call(field: str, names: list[str]) -> str:
    return f"{field}({', '.join(names)})"


def _kind(result: Any) -> str:
    """Return what a traced function returns, in words."""
    if not hasattr(result, "shape"):
        return f"a {type(result).__name__}"
    if result.shape:
        return f"an array {list(result.shape)}"
    return "one number" if jnp.issubdtype(result.dtype, jnp.floating) else f"a number of {result.dtype}"


def _check_signature(function: Callable, names: list[str], given: str, call: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a compiled function
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        raise TypeError(f"{given}: write {call}. It has the arguments {signature}: {error}.") from error


def _cause(error: Exception) -> str:
    """Return why a loss cannot be traced."""
    if isinstance(error, jax.errors.TracerBoolConversionError) or "truth value of an array" in str(error).lower():
        return "`if`, `and` and `while` cannot read arrays here: use jnp.where"
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return "a NumPy function cannot read arrays of JAX here: use jnp in place of np"
    return f"it raises {in_short(error).rstrip('.')}"
