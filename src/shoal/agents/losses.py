"""Check a loss function that a user has set in a field of an agent: it is traced before a run compiles."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from shoal.core.struct import Struct
from shoal.core.user_functions import call_of, field_and_name, result_in_words, result_shapes


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
    examples = {name: jax.ShapeDtypeStruct((), jnp.float32) if name == "clip" else sample for name in names}
    result = result_shapes(field, choice, examples)
    if getattr(result, "shape", None) != sample.shape:
        raise ValueError(
            f"{field_and_name(field, choice)} returns {result_in_words(result)} for a minibatch [7]: "
            f"{call_of(field, names)} returns one loss for each sample, without mean() or sum(). The agent averages."
        )
    return choice


def check_term(field: str, term: Any, examples: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError unless a term of a loss makes one number of its arguments.

    `examples` are trees of the shapes of its arguments, by name. A struct with `__call__` is such a function too.
    """
    _check_callable(field, term)
    if not callable(term):
        raise TypeError(f"{field}={term!r:.60} is no function: write {call_of(field, [*examples])}.")
    result = result_shapes(field, term, examples)
    if getattr(result, "shape", None) != () or not jnp.issubdtype(result.dtype, jnp.floating):
        raise ValueError(
            f"{field_and_name(field, term)} returns {result_in_words(result)}: {call_of(field, [*examples])} returns "
            f"one number for the whole minibatch, such as a mean over its samples."
        )


def _check_callable(field: str, choice: Any) -> None:
    if isinstance(choice, Struct) and not callable(choice):
        raise TypeError(f"{field}={type(choice).__name__} cannot be called: its class needs `__call__`.")
