"""Check the kinds of the arguments of public functions by their annotations, so that errors are in words.

Otherwise a wrong kind raises from inside of pathlib, NumPy or JAX, in terms that say nothing to the caller.
"""

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ParamSpec, SupportsIndex, TypeVar, Union, get_args, get_origin

import jax
import numpy as np

from shoal.core.errors import in_digits

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

TEXTS = Sequence[str]
WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    Path: "a path",
    Mapping: "a dict",
    Sequence: "a list",
    TEXTS: "a list of texts",
    Callable: "a function",
    SupportsIndex: "a whole number",
    jax.Array: "a random key, such as make_key(0)",
    type(None): "None",
}


def checked_kinds(*own: str) -> Callable[[Callable[Arguments, Returned]], Callable[Arguments, Returned]]:
    """A decorator: the function raises TypeError, in words, for an argument of another kind than its annotation says.

    It checks the arguments `own` itself, with better words.

    Numbers of NumPy, also arrays without axes, become Python's. Numbers of any kind fit where a number is wanted: the
    function checks their values. The kinds are those of `WORDS`, classes of shoal, and unions of these; an annotation
    with another kind is not checked.
    """

    def decorate(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
        signature = inspect.signature(function)
        several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        parameters = (each for each in signature.parameters.values() if each.kind not in several)
        kinds = {each.name: tuple(_kinds(each.annotation)) for each in parameters if each.name not in own}

        @functools.wraps(function)
        def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
            bound = signature.bind(*args, **kwargs)
            for name in kinds.keys() & bound.arguments.keys():
                bound.arguments[name] = _fitted(name, bound.arguments[name], kinds[name])
            return function(*bound.args, **bound.kwargs)

        return checked

    return decorate


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the kinds that an annotation allows, as keys of `WORDS`; other kinds as they are."""
    if get_origin(annotation) in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _kinds(part)
    else:
        origin = None if annotation == TEXTS else get_origin(annotation)
        yield type(None) if annotation is None else annotation if origin is None else origin


def _fitted(name: str, value: Any, kinds: tuple[Any, ...]) -> Any:
    """Return a value as Python has it. Raises TypeError if it is of none of these kinds."""
    is_single = isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 and value.dtype.kind in "biuf"
    plain = value.item() if is_single else value
    is_whole = {*kinds} <= {int, type(None)} and name != "seed"  # which make_key refuses
    if is_whole and isinstance(plain, float):
        if not plain.is_integer():
            raise ValueError(f"{name}={value!r} must be a whole number.")
        value = plain = int(plain)
    if is_whole and isinstance(plain, int) and not -(2**63) <= plain < 2**63:
        raise ValueError(f"{name}={in_digits(plain)} does not fit in 64 bits.")
    if Path in kinds and isinstance(value, (str, PathLike)) and "\0" in str(value):
        raise ValueError(f"{name}={str(value)!r:.60} contains the character NUL, which no path can contain.")
    if any(not _word(kind) or _fits(plain, kind) for kind in kinds):
        return plain if is_single and not {*kinds}.isdisjoint((int, float, bool, SupportsIndex)) else value
    allowed = " or ".join(dict.fromkeys(_word(kind) for kind in kinds if kind is not type(None)))
    raise TypeError(f"{name}={value!r:.60} is of type {type(value).__name__}: it must be {allowed}.")


def _word(kind: Any) -> str:
    """Return the word for a kind in messages; empty for a kind that is not checked."""
    is_ours = isinstance(kind, type) and kind.__module__.startswith("shoal.")
    return WORDS.get(kind) or (f"a value of {kind.__name__}" if is_ours else "")


def _fits(value: Any, kind: Any) -> bool:
    if kind in (int, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is SupportsIndex:
        return isinstance(value, SupportsIndex) and not isinstance(value, (bool, np.ndarray))
    if kind is Path:
        return isinstance(value, PathLike)
    if kind == TEXTS:
        return _fits(value, Sequence) and all(isinstance(part, str) for part in value)
    if kind is Sequence:
        is_list = isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (str, bytes))
        return is_list or (isinstance(value, np.ndarray) and value.ndim > 0)
    return isinstance(value, kind)
