"""Errors for arguments of `train` and its relatives that have the wrong name or kind: they say what to write."""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import Field
from typing import Any, ParamSpec, TypeVar

from shoal.core.agent import Agent
from shoal.core.aliases import OTHER_ARGUMENTS, alias_of, meaning_of
from shoal.core.env import Env
from shoal.core.errors import did_you_mean
from shoal.core.foreign import FOREIGN, gymnasium_name, library_of
from shoal.core.process import check_process
from shoal.core.registry import AGENTS, ENVS, Registry
from shoal.core.struct import is_static_field
from shoal.specs.selector import Selector
from shoal.specs.settings import static_sweep_error
from shoal.tracking.events import Sink

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def explaining_arguments(
    function: Callable[Arguments, Returned], also: Collection[str] = ()
) -> Callable[Arguments, Returned]:
    """A function like `train` that raises TypeError in plain words for arguments of the wrong name or kind.

    For a keyword that the function does not have, the error names the argument or the field that is meant. A class, or
    an environment of another library, is not a value of an agent or environment; a sweep needs a list of values. `also`
    names the keywords that the function takes as `**options`.
    """
    signature = inspect.signature(function)
    own = signature.parameters.values()
    known = [*(parameter.name for parameter in own if parameter.kind is not inspect.Parameter.VAR_KEYWORD), *also]

    @functools.wraps(function)
    def explaining(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        check_process()
        valid = {name: value for name, value in kwargs.items() if name in known}
        given = signature.bind_partial(*args, **valid).arguments
        for name, value in kwargs.items():
            if name not in known:
                raise _unknown_argument(function.__name__, name, value, given, known)
        _check_value(function.__name__, "agent", given.get("agent"), Agent, AGENTS)
        if isinstance(given.get("env"), (list, tuple)):
            several = "shoal.train_all takes a list of them" if "agent" in known else "call it once for each"
            raise TypeError(f"{function.__name__} takes one environment: {several}.")
        for env in _several(given.get("env", given.get("envs"))):
            _check_value(function.__name__, "env", env, Env, ENVS)
        _check_options(valid)
        for name in ("sweep", "env_sweep"):
            _check_sweep(name, valid.get(name))
        for name in ("fields", "sweep"):
            _check_owner(name, given, name, "agent")
            _check_owner(name, given, f"env_{name}", "env")
        if function.__name__ == "train":
            _check_static(given, "sweep", "agent")
            _check_static(given, "env_sweep", "env")
        return function(*args, **kwargs)

    return explaining


def _several(envs: Any) -> Sequence[Any]:
    return envs if isinstance(envs, (list, tuple)) else [envs]


def _check_options(given: Mapping[str, Any]) -> None:
    """Raise TypeError for fields and sweeps that are no dict, sinks that are no list of sinks, and no selector."""
    for name, example in (("fields", "{'discount': 0.9}"), ("sweep", "{'discount': [0.9, 0.99]}")):
        for own in (name, f"env_{name}"):
            if given.get(own) is not None and not isinstance(given[own], Mapping):
                raise TypeError(f"{own}={given[own]!r} is no dict: write names with values, as in {name}={example}.")
    sinks = given.get("sinks", ())
    if not isinstance(sinks, (list, tuple)) or not all(isinstance(sink, Sink) for sink in sinks):
        raise TypeError(
            f"sinks={sinks!r} is no list of sinks: give values of a class that derives from shoal.Sink and receives "
            f"events, as in sinks=[MySink()]."
        )
    if not isinstance(selector := given.get("selector"), (Selector, str, type(None))):
        raise TypeError(
            f"selector={selector!r} is no selector: give a name (`shoal selectors` lists them) or a value of a class "
            f"that derives from shoal.Selector, such as shoal.PBT()."
        )


def _check_sweep(name: str, sweep: Any) -> None:
    for field, values in (sweep or {}).items():
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
            raise TypeError(
                f"{name}={{{field!r}: {values!r}}} needs a list of values, such as [{values!r}]. For one value write "
                f"{name.replace('sweep', 'fields')}={{{field!r}: {values!r}}}."
            )


def _check_owner(suffix: str, given: Mapping[str, Any], argument: str, kind: str) -> None:
    """Raise TypeError for a name in `sweep` that is a field of the environment, and the like in the other arguments."""
    own, other = (_given_fields(owner, given) for owner in (kind, "agent" if kind == "env" else "env"))
    for name, value in (given.get(argument) or {}).items():
        first, _, rest = str(name).partition(".")
        if kind == "env" and first == "env" and "env" not in own and rest.partition(".")[0] in own:
            raise TypeError(f"{argument} names fields of the environment as they are: write {rest!r}, not {name!r}.")
        if first in own or alias_of(first, own):
            continue
        if meant := first if first in other else alias_of(first, other):
            owner, right = ("agent", suffix) if kind == "env" else ("environment", f"env_{suffix}")
            raise TypeError(f"{meant} is a field of the {owner}: write {right}={{{meant!r}: {value!r}}}.")


def _check_static(given: Mapping[str, Any], argument: str, kind: str) -> None:
    """Raise ValueError for a list of values of a static field, before the list is taken for a value of it."""
    fields = _given_fields(kind, given)
    for name, values in (given.get(argument) or {}).items():
        if name in fields and any(is_static_field(fields[name], value) for value in _several(values)):
            raise static_sweep_error(name, values)


def _given_fields(kind: str, given: Mapping[str, Any]) -> dict[str, Field]:
    """The fields of the agent or environment that is given, of the first if there are several."""
    first = next(iter(_several(given.get(kind, given.get(f"{kind}s")))), None)
    return _fields_of(first, AGENTS if kind == "agent" else ENVS)


def _check_value(function: str, kind: str, value: Any, base: type, registry: Registry) -> None:
    if value is None or isinstance(value, (str, base)):
        return
    an = "an agent" if kind == "agent" else "an environment"
    if library := library_of(value):
        theirs = getattr(getattr(value, "spec", None), "id", "")
        same = f' Shoal has its own, compiled one: "{theirs}".' if kind == "env" and theirs in registry else ""
        instead = "`shoal envs` lists them, and docs/write-your-own-environment.md shows how to write one"
        if by_name := gymnasium_name(value) if kind == "env" else "":
            instead = f"{by_name} (docs/gymnasium.md)"
        elif not function.startswith("train"):
            instead = "for other environments write the loop yourself, with action = policy(observation)"
        raise TypeError(
            f"{kind} is {FOREIGN[library]} environment. {function} takes environments of shoal's own kind, or "
            f"names: {instead}.{same}"
        )
    if isinstance(value, type):
        found = sorted(
            (entry for entry in registry.values() if entry.cls is value), key=lambda entry: len(entry.preset)
        )
        by_name = f'"{found[0].name}", with its preset where there is one, or ' if found else ""
        raise TypeError(f"{kind}={value.__name__} is a class, not {an}: give {by_name}a value, {value.__name__}().")
    raise TypeError(
        f"{kind} is a value of {type(value).__name__}, not {an}: give a name (`shoal {kind}s` lists them) or a value "
        f"of a class that derives from shoal.{base.__name__}."
    )


def _unknown_argument(
    function: str, name: str, value: Any, given: Mapping[str, Any], parameters: list[str]
) -> TypeError:
    """The error for a keyword that a function does not have; `given` are those of its other arguments that it has."""
    start = f"{function}() has no argument {name!r}."
    if alias := alias_of(name, parameters):
        meaning = meaning_of(name, alias)
        return TypeError(f"{start} Did you mean {f'{alias}? {meaning}' if meaning else f'{alias}={value!r}?'}")
    for kind, argument in (("agent", "fields"), ("env", "env_fields")):
        fields = _given_fields(kind, given)
        if field := name if name in fields else alias_of(name, fields):
            called = "It is" if field == name else f"shoal calls it {field},"
            whose = "agent" if kind == "agent" else "environment"
            if meaning := meaning_of(name, field):
                return TypeError(f"{start} {called} a field of the {whose}, which is given in {argument}. {meaning}")
            return TypeError(f"{start} {called} a field of the {whose}: write {argument}={{{field!r}: {value!r}}}.")
    if name in OTHER_ARGUMENTS and "sinks" in parameters:
        return TypeError(f"{start[:-1]}: {OTHER_ARGUMENTS[name]}.")
    return TypeError(f"{start}{did_you_mean(name, parameters)}")


def _fields_of(value: Any, registry: Registry) -> dict[str, Field]:
    try:
        cls = registry[value].cls if isinstance(value, str) else value
    except (ValueError, FileNotFoundError):
        return {}
    return {name: field for name, field in getattr(cls, "__dataclass_fields__", {}).items() if field.init}
