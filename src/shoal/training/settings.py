"""A setting: the agent and the environment that a member trains, and the paths that name their hyperparameters.

A path names a field: `learning_rate` is one of the agent, `env.gravity` one of the environment. A field of a value
inside another follows after a dot: `env.env.gravity` where a wrapper holds the environment, `network.width` where an
agent holds a network, `parts.0` where a field is a tuple.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import did_you_mean
from shoal.core.struct import NUMBERS, Range, Struct, leaf_dtypes

ENV = "env"  # the first word of a path that leads into the environment


class Setting(NamedTuple):
    """An agent and an environment: one member's, or with leaves [M] those of a population."""

    agent: Agent
    env: Env


class Hyperparameter(NamedTuple):
    """One field that a path leads to."""

    value: Any
    field: dataclasses.Field
    static: bool  # changing it compiles a new program

    @property
    def search(self) -> Range | None:
        """Where a study looks; None where the field does not say."""
        return self.field.metadata.get("search")


def split(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values by path as (those of the agent, those of the environment), each by a path from there on.

    >>> split({"clip": 0.1, "env.gravity": 5.0})
    ({'clip': 0.1}, {'gravity': 5.0})
    """
    prefix = f"{ENV}."
    agent = {path: value for path, value in values.items() if not path.startswith(prefix)}
    env = {path.removeprefix(prefix): value for path, value in values.items() if path.startswith(prefix)}
    return agent, env


def join(agent: Mapping[str, Any], env: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `split`."""
    return {**agent, **{f"{ENV}.{path}": value for path, value in env.items()}}


def is_of_env(path: str) -> bool:
    """Whether a path leads into the environment."""
    return path.startswith(f"{ENV}.")


def apply(setting: Setting, values: Mapping[str, Any]) -> Setting:
    """The setting with other values, by path. Raises TypeError, naming the nearest paths, for one that does not exist.

    A value may lead with a member axis [M], or be a tree whose leaves do: the field then holds it as it is.
    """
    agent, env = split(values)
    return Setting(replaced(setting.agent, agent), replaced(setting.env, env, f"{ENV}."))


def replaced(value: Any, changes: Mapping[str, Any], prefix: str = "") -> Any:
    """A struct, dataclass, flax module, tuple or dict with other values, by path; every value inside is built once.

    `prefix` is what stands before these paths in messages. Raises TypeError for a path that does not exist.
    """
    if not changes:
        return value
    inside: dict[str, dict[str, Any]] = {}
    whole = {}
    for path, new in changes.items():
        name, _, rest = path.partition(".")
        if rest:
            inside.setdefault(name, {})[rest] = new
        else:
            whole[name] = new
    parts = _parts(value)
    for name in (*whole, *inside):
        if name not in parts:
            raise _unknown(value, name, prefix)
    new_parts = {
        name: replaced(whole.get(name, parts[name]), within, f"{prefix}{name}.") for name, within in inside.items()
    }
    return _with_parts(value, {**whole, **new_parts})


def get(setting: Setting, path: str) -> Any:
    """The value at a path. Raises TypeError, naming the nearest paths, where there is none."""
    if path == ENV or path.startswith(f"{ENV}."):
        return part(setting.env, path.removeprefix(ENV).removeprefix("."), f"{ENV}.")
    return part(setting.agent, path)


def part(value: Any, path: str, prefix: str = "") -> Any:
    """What a path leads to from a value. Raises TypeError, naming the nearest paths, where there is nothing."""
    for name in path.split(".") if path else ():
        parts = _parts(value)
        if name not in parts:
            raise _unknown(value, name, prefix)
        value, prefix = parts[name], f"{prefix}{name}."
    return value


def hyperparameters(setting: Setting) -> dict[str, Hyperparameter]:
    """Every field by its path, those of values inside others too, the agent's first.

    A field that holds such a value is left out: its own fields stand for it. So is what `bind` fills in.
    """
    return dict([*_walk(setting.agent), *_walk(setting.env, f"{ENV}.")])


def hyperparameters_of(value: Any) -> dict[str, Hyperparameter]:
    """Those of an agent or an environment alone, by paths from there on."""
    return dict(_walk(value))


def traced_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The traced fields of an agent or an environment, with the paths that lead to them from there.

    Of values inside it those that are declared as numbers: arrays of another kind, such as recorded steps, are data.
    """
    for path, found in _walk(value):
        if not found.static and ("." not in path or found.field.type in NUMBERS):
            yield path, found.value


def is_static(setting: Setting, path: str) -> bool:
    """Whether a path leads to, or through, a field that shapes the program. Raises TypeError where there is none."""
    get(setting, path)
    agent, env = split({path: None})
    return is_static_part(setting.env, next(iter(env))) if env else is_static_part(setting.agent, path)


def is_static_part(value: Any, path: str) -> bool:
    """Whether a path from a value leads to, or through, a field that shapes the program."""
    name, _, rest = path.partition(".")
    return _is_static(value, name) or bool(rest and is_static_part(_parts(value)[name], rest))


def populate(setting: Setting, values: Mapping[str, Any], members: int) -> Setting:
    """The population of a setting in which some values vary: `values` by path, their leaves [M, ...].

    Every leaf of the result leads with [M], in NumPy and in JAX's default widths; what does not vary is stored once.
    Raises TypeError for a path that does not exist, ValueError for one of another length.
    """

    def member_axis(path: tuple, array: np.ndarray) -> np.ndarray:
        name = _dotted(path)
        if not any(name == varied or name.startswith(f"{varied}.") for varied in values):
            return np.broadcast_to(array, (members, *array.shape))
        if array.shape[:1] != (members,):
            raise ValueError(f"{name} has shape {array.shape}, and a population of {members} needs ({members}, ...).")
        return array

    return jax.tree_util.tree_map_with_path(member_axis, in_numpy(apply(setting, values)))


def in_numpy(setting: Setting) -> Setting:
    """A setting whose leaves are NumPy arrays of the widths that JAX gives them: no device is used for it."""

    def cast(leaf: Any, dtype: Any) -> np.ndarray:
        return np.asarray(leaf).astype(dtype, copy=False)

    return Setting(*(jax.tree.map(cast, value, leaf_dtypes(value)) for value in setting))


def _dotted(path: tuple) -> str:
    """A path of JAX through a setting as a path of ours."""
    words = [str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", key)))) for key in path]
    return ".".join(words[1:] if words[0] == "agent" else words)


def _walk(value: Any, prefix: str = "", static: bool = False) -> Iterator[tuple[str, Hyperparameter]]:
    for name, field in user_fields(value).items():
        given = getattr(value, name)
        if is_filled_in(field, given) or field.metadata.get("stacked"):
            continue  # a stack of values holds several of each number, which is no sweep
        shapes = static or _is_static(value, name)
        if user_fields(given):
            yield from _walk(given, f"{prefix}{name}.", shapes)
        else:
            yield f"{prefix}{name}", Hyperparameter(given, field, shapes)


def is_filled_in(field: dataclasses.Field, given: Any) -> bool:
    """Whether a field is one that `bind` fills in, and has not yet, or an option that was left out."""
    return bool(field.metadata.get("static")) and given is None and field.default is None


def user_fields(value: Any) -> dict[str, dataclasses.Field]:
    """The fields of a value that a user gives, by name; none for what is no value with fields."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return {}
    of_flax = ("parent", "name") if isinstance(value, nn.Module) else ()
    return {f.name: f for f in dataclasses.fields(value) if f.init and f.name not in of_flax}


def _parts(value: Any) -> dict[str, Any]:
    """What is inside a value, by name; nothing for a number."""
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    if isinstance(value, tuple):
        return {str(i): part for i, part in enumerate(value)}
    return {name: getattr(value, name) for name in user_fields(value)}


def _with_parts(value: Any, changes: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return type(value)({name: changes.get(str(name), part) for name, part in value.items()})  # type: ignore[call-arg]  # a dict
    if isinstance(value, tuple):
        return tuple(changes.get(str(i), part) for i, part in enumerate(value))
    if isinstance(value, nn.Module):
        return value.clone(**changes)
    return dataclasses.replace(value, **changes)


def _is_static(value: Any, name: str) -> bool:
    """Whether a part of a value shapes the program: only a struct's fields can be traced."""
    if isinstance(value, (tuple, Mapping)):
        return False
    return not isinstance(value, Struct) or bool(user_fields(value)[name].metadata.get("static"))


def _unknown(value: Any, name: str, prefix: str) -> TypeError:
    """`FrameStack has no field 'gravity'. Did you mean env.env.gravity? ...`, with paths as the user writes them."""
    known = list(_parts(value))
    deeper = [path for path, _ in _walk(value, prefix) if path.rpartition(".")[2] == name]
    near = f" Did you mean {' or '.join(deeper)}?" if deeper else did_you_mean(name, known)
    fields = ", ".join(f"{prefix}{part}" for part in known) or "none"
    return TypeError(f"{type(value).__name__} has no field {name!r}.{near} Its fields are: {fields}.")
