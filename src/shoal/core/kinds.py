"""Check the kinds of the arguments of public functions by their annotations, so that errors are in words.

Otherwise a wrong kind raises from inside of pathlib, NumPy or JAX, in terms that say nothing to the caller.
"""

import functools
import inspect
import os
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, SupportsIndex, TypeVar, Union, get_args, get_origin

import jax
import numpy as np
from jax.core import Tracer

from shoal.core.errors import in_digits
from shoal.core.keys import is_key

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
LONGEST_NAME = 255  # bytes of the name of a file


def checked_kinds(
    *own: str, like: Callable | None = None
) -> Callable[[Callable[Arguments, Returned]], Callable[Arguments, Returned]]:
    """A decorator: the function raises TypeError, in words, for an argument of another kind than its annotation says.

    It checks the arguments `own` itself, with better words. Its `**options` are keywords of the function `like`.

    Numbers of NumPy and JAX, also arrays without axes, become Python's. Numbers of any kind fit where a number is
    wanted: the function checks their values. The kinds are those of `WORDS`, classes of shoal, lists and dicts of
    these, and unions; an annotation with another kind is not checked.
    """

    def decorate(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
        signature = inspect.signature(function)
        annotations, rest = {}, ""
        for name, parameter in signature.parameters.items():
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                annotations[name] = parameter.annotation
            elif like is not None:
                others = inspect.signature(like).parameters.items()
                annotations |= {other: found.annotation for other, found in others if other not in annotations}
                rest = name

        @functools.wraps(function)
        def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
            bound = signature.bind(*args, **kwargs)
            for values in (bound.arguments, bound.arguments.get(rest, {})):
                for name in annotations.keys() & values.keys() - {*own}:
                    values[name] = fitted(name, values[name], annotations[name])
            return function(*bound.args, **bound.kwargs)

        return checked

    return decorate


def fitted(name: str, value: Any, annotation: Any) -> Any:
    """Return a value as Python has it. Raises TypeError, or ValueError, if it is not what the annotation says."""
    kinds = tuple(_kinds(annotation))
    plain = python_number(value)
    is_single = plain is not value
    is_whole = {*kinds} <= {int, type(None)} and name != "seed"  # which make_key refuses
    if is_whole and isinstance(plain, float):
        if not plain.is_integer():
            raise ValueError(f"{name}={value!r} must be a whole number.")
        value = plain = int(plain)
    if is_whole and isinstance(plain, int) and not -(2**63) <= plain < 2**63:
        raise ValueError(f"{name}={in_digits(plain)} does not fit in 64 bits.")
    if Path in kinds and isinstance(value, (str, os.PathLike)):
        check_path(value, f"{name}=")
    fitting = next((kind for kind in kinds if not _word(kind) or _fits(plain, kind)), None)
    if fitting is None:
        allowed = " or ".join(dict.fromkeys(_word(kind) for kind in kinds if kind is not type(None)))
        raise TypeError(f"{name}={shown(value)} is of type {type(value).__name__}: it must be {allowed}.")
    for part_name, part, of_part in _parts(name, value, fitting):
        fitted(part_name, part, of_part)
    return plain if is_single and not {*kinds}.isdisjoint((int, float, bool, SupportsIndex)) else value


def python_number(value: Any) -> Any:
    """Return a scalar of NumPy or JAX as a Python number; anything else, also a random key, as it is."""
    is_single = isinstance(value, (np.generic, np.ndarray, jax.Array)) and value.ndim == 0
    if not is_single or is_key(value) or isinstance(value, Tracer):
        return value
    array = np.asarray(value)
    number = float(array) if array.dtype.kind == "f" else array.item()  # a long double stays one in `item`
    return number if isinstance(number, (bool, int, float)) else value


def python_numbers(value: Any) -> Any:
    """Return scalars and arrays as Python's numbers and lists, also within lists and dicts; anything else as it is."""
    if isinstance(value, Mapping):
        return {name: python_numbers(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(python_numbers(part) for part in value)
    if isinstance(value, (np.ndarray, jax.Array)) and value.ndim and not is_key(value):
        return np.asarray(value).tolist()
    return python_number(value)


def with_tuples(value: Any) -> Any:
    """Return a value with tuples in the place of its lists, also within lists and dicts."""
    if isinstance(value, dict):
        return {name: with_tuples(part) for name, part in value.items()}
    return tuple(map(with_tuples, value)) if isinstance(value, list) else value


def check_path(path: str | os.PathLike, start: str = "") -> None:
    """Raise ValueError, which begins with `start`, for a path that no file can have."""
    text = str(path)
    try:
        longest = max((len(os.fsencode(part)) for part in Path(text).parts), default=0)
    except UnicodeEncodeError:
        longest = -1
    if longest < 0 or "\0" in text:
        raise ValueError(f"{start}{text!r:.60} contains a character that no path can contain.")
    if longest > LONGEST_NAME:
        raise ValueError(f"{start}{text!r:.60} has a name of {longest:,} bytes, and files at most {LONGEST_NAME}.")


def shown(value: Any) -> str:
    """Return a value as a text of at most 60 characters."""
    return in_digits(value) if type(value) is int else f"{value!r:.60}"


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the kinds that an annotation allows."""
    if get_origin(annotation) in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _kinds(part)
    else:
        yield type(None) if annotation is None else annotation


def _parts(name: str, value: Any, kind: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, value, annotation) of the items of a list, or the names and values of a dict."""
    annotations = get_args(kind)
    if isinstance(value, Mapping) and len(annotations) == 2:
        for key, part in value.items():
            yield f"a name in {name}", key, annotations[0]
            yield f"{name}[{key!r:.60}]", part, annotations[1]
    elif get_origin(kind) is Sequence and annotations != (Any,):
        for index, part in enumerate(value):
            yield f"{name}[{index}]", part, annotations[0]


def _word(kind: Any) -> str:
    """Return the word for a kind in messages; empty for a kind that is not checked."""
    kind = kind if kind in WORDS else get_origin(kind) or kind
    is_ours = isinstance(kind, type) and kind.__module__.startswith("shoal.")
    return WORDS.get(kind) or (f"a value of {kind.__name__}" if is_ours else "")


def _fits(value: Any, kind: Any) -> bool:
    kind = get_origin(kind) or kind
    if kind in (int, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is SupportsIndex:
        return isinstance(value, SupportsIndex) and not isinstance(value, (bool, np.ndarray))
    if kind is Path:
        return isinstance(value, os.PathLike)
    if kind is Sequence:
        is_list = isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (str, bytes))
        return is_list or (isinstance(value, (np.ndarray, jax.Array)) and value.ndim > 0 and not is_key(value))
    return isinstance(value, kind)
