"""Samplers and pruners as users write them: a name or the path of a function, with options.

    hyperband(min_resource=2, eta=4)               of shoal, by name
    optuna.samplers:TPESampler(n_ei_candidates=48) any function or class that can be imported
    my_file.py:make(width=3)                       one of a file of the user's own

Another process makes the same object from such a text, so nothing is pickled. The function is called with the options,
and with `seed` (a sampler) or `records` (a pruner) if it has a parameter of this name.
"""

import inspect
import json
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler

from shoal.core.calls import read_arguments
from shoal.core.errors import did_you_mean, unknown_name
from shoal.core.user_code import in_short, line_raised
from shoal.specs.describe import Described, find, path_of

CLASSES: dict[str, type] = {"sampler": BaseSampler, "pruner": BasePruner}
CALL = re.compile(r"\s*(.*?)\s*(?:\(([^()]*)\)\s*)?", re.DOTALL)

Known = Mapping[str, Callable[..., Any]]  # the functions that have names


def written(kind: str, value: Any) -> str:
    """Return the text of a sampler or a pruner, with the absolute path of a file.

    `value` is such a text, or a function that another process can import. Raises TypeError for anything else, such as
    a sampler that is made already.
    """
    if isinstance(value, str):
        name, options = name_of(value), value.strip()[len(name_of(value)) :].strip()
        source, _, function = name.rpartition(":")
        name = f"{Path(source).resolve()}:{function}" if source.endswith(".py") else name
        return name if options == "()" else f"{name}{options}"
    if callable(value) and (path := path_of(value)):
        return path
    why = "is neither a text nor a function"
    if isinstance(value, CLASSES[kind]):
        why = "is made already, and a resumed study or another worker could not make it again"
    elif callable(value):
        why = "cannot be imported by another process"
    raise TypeError(
        f"{kind}={value!r:.60} {why}: write a function that returns the {kind} into a file of its own, and name it, as "
        f'in {kind}="my_file.py:make".'
    )


def name_of(text: str) -> str:
    """Return the name or the path of the function in the text of a sampler or a pruner, without the options."""
    found = CALL.fullmatch(text)
    return found[1] if found else text


def own_functions(*texts: str) -> dict[str, Described]:
    """Return descriptions of the functions that texts name by their path, by text."""
    return {text: Described("function", name_of(text)) for text in texts if ":" in name_of(text)}


def function_of(kind: str, text: str, known: Known, *, is_named: bool = False) -> Callable[..., Any]:
    """Return the function that a text names. Raises ValueError where there is none.

    is_named: the user named it on this command. Otherwise the code of its file or module needs the user's consent.
    """
    name = name_of(text)
    if name in known:
        return known[name]
    if ":" not in name:
        own = f"The {kind}s are: {', '.join(known)}, or one of your own as FILE.py:FUNCTION."
        raise unknown_name(kind, name, known, own)
    found = find(name, is_named=is_named)
    if not callable(found):
        raise ValueError(f"{name} is no function: name one that returns a {kind} of Optuna.")
    return found


def takes(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function has a parameter of this name."""
    return name in inspect.signature(function).parameters


def make(kind: str, text: str, known: Known, **given: Any) -> Any:
    """Return the sampler or the pruner that a text describes. `given`: what its function also gets, if it takes it.

    Raises TypeError for an option that the function does not have, and for what is no sampler or pruner; ValueError,
    with the line, where a function of the user's own raises an error.
    """
    name, function, options = name_of(text), function_of(kind, text, known), _options(text)
    parameters = inspect.signature(function).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        allowed = [parameter for parameter in parameters if parameter not in given]
        for option in options:
            if option not in allowed:
                near = did_you_mean(option, allowed) or f" Its options are: {', '.join(allowed) or 'none'}."
                raise TypeError(f"the {kind} {name} has no option {option!r}.{near}")
    try:
        with warnings.catch_warnings():  # Optuna calls some of them experimental
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            made = function(**{option: value for option, value in given.items() if option in parameters}, **options)
    except Exception as error:
        if name in known:
            raise
        raise ValueError(f"{line_raised(error) or name}: {in_short(error)}") from error
    if not isinstance(made, CLASSES[kind]):
        raise TypeError(
            f"{name} returned {made!r:.60}, which is no {kind} of Optuna: return a {CLASSES[kind].__name__}."
        )
    return made


def _options(text: str) -> dict[str, Any]:
    """Return the options in a text by name: numbers, true, false, or texts."""
    found = CALL.fullmatch(text)
    words, named = read_arguments(text, (found[2] if found else "") or "")
    if words:
        raise ValueError(f"{text} has {words[0]!r} without the name of an option: write NAME(OPTION=VALUE).")
    return {option: _value(word) for option, word in named.items()}


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        return word
