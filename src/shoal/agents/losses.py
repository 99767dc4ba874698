"""Check a loss function that a user has set in a field of an agent: it is traced before a run compiles."""

import inspect
from collections.abc import Callable, Mapping

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
        if isinstance(choice, Struct):
            raise TypeError(f"{field}={type(choice).__name__} cannot be called: its class needs `__call__`.")
        return table[choice]
    if choice in table.values():
        return choice
    names = [*inspect.signature(next(iter(table.values()))).parameters]
    at = line_of_function(choice)
    given = f"{field}={getattr(choice, '__name__', type(choice).__name__)}{f' in {at}' if at else ''}"
    call = f"{field}({', '.join(names)})"
    _check_signature(choice, names, given, call)
    sample = jax.ShapeDtypeStruct((7,), jnp.float32)
    examples = [jax.ShapeDtypeStruct((), jnp.float32) if name == "clip" else sample for name in names]
    try:
        result = jax.eval_shape(choice, *examples)
    except Exception as error:
        where = line_raised(error)
        raise TypeError(f"{given}: {_cause(error)}{f' ({where})' if where else ''}. Write {call}.") from error
    if getattr(result, "shape", None) != sample.shape:
        kind = f"an array {list(result.shape)}" if getattr(result, "shape", ()) else "one number"
        kind = kind if hasattr(result, "shape") else f"a {type(result).__name__}"
        raise ValueError(
            f"{given} returns {kind} for a minibatch [7]: {call} returns one loss for each sample, without mean() or "
            "sum(). The agent averages."
        )
    return choice


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
