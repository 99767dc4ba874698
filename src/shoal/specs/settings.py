"""Pairs of an agent and an environment, and the paths that name their fields.

`learning_rate` is a field of the agent, `env.gravity` one of the environment. A dot leads into a field's value:
`env.env.gravity` where a wrapper holds the environment, `network.width` where an agent holds a network, `parts.0` where
a field is a tuple.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import did_you_mean
from shoal.core.ranges import Range
from shoal.core.schedules import Scheduled
from shoal.core.struct import NUMBERS, Struct, info_of, is_static_field, leaf_dtypes

ENV = "env"  # the first word of a path that leads into the environment


class AgentEnv(NamedTuple):
    """An agent and an environment: those of one member, or with leaves [M, ...] those of a population."""

    agent: Agent
    env: Env


class Hyperparameter(NamedTuple):
    """A field that a path names."""

    value: Any
    field: dataclasses.Field
    static: bool  # whether changing it compiles a new program

    @property
    def search(self) -> Range | None:
        """The range that a search samples from; None where the field declares none."""
        return info_of(self.field).search

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole number."""
        return isinstance(self.field.default, int) and not isinstance(self.field.default, bool)


def setting_in_words(values: Mapping[str, Any]) -> str:
    """Return the values of a setting as a text: `learning_rate=0.001 env.gravity=5.0`."""
    return " ".join(f"{path}={value}" for path, value in values.items())


def separate(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate values by path into (those of the agent, those of the environment); the latter lose the prefix `env.`.

    >>> separate({"clip": 0.1, "env.gravity": 5.0})
    ({'clip': 0.1}, {'gravity': 5.0})
    """
    prefix = f"{ENV}."
    agent = {path: value for path, value in values.items() if not path.startswith(prefix)}
    env = {path.removeprefix(prefix): value for path, value in values.items() if path.startswith(prefix)}
    return agent, env


def join(agent: Mapping[str, Any], env: Mapping[str, Any]) -> dict[str, Any]:
    """Join values by path of the agent and of the environment. The inverse of `split`."""
    return {**agent, **{f"{ENV}.{path}": value for path, value in env.items()}}


def is_of_env(path: str) -> bool:
    """Return whether a path names a field of the environment."""
    return path.startswith(f"{ENV}.")


def apply(pair: AgentEnv, values: Mapping[str, Any]) -> AgentEnv:
    """Return the pair with changed values, by path. Raises TypeError, with the nearest paths, for an unknown path.

    A value may be an array [M, ...], or a tree of such arrays: the field then holds it as it is.
    """
    agent, env = separate(values)
    return AgentEnv(replaced(pair.agent, agent), replaced(pair.env, env, f"{ENV}."))


def replaced(value: Any, changes: Mapping[str, Any], prefix: str = "") -> Any:
    """Return a struct, dataclass, flax module, tuple or dict with changed values, by path.

    `prefix` is put before paths in error messages. Raises TypeError for a path that does not exist.
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


def get(pair: AgentEnv, path: str) -> Any:
    """Return the value at a path. Raises TypeError, with the nearest paths, for a path that does not exist."""
    if path == ENV:
        return pair.env
    return part(pair.env, path.removeprefix(f"{ENV}."), f"{ENV}.") if is_of_env(path) else part(pair.agent, path)


def part(value: Any, path: str, prefix: str = "") -> Any:
    """Return what is at a path inside a value. Raises TypeError, with the nearest paths, for an unknown path."""
    for name in path.split("."):
        parts = _parts(value)
        if name not in parts:
            raise _unknown(value, name, prefix)
        value, prefix = parts[name], f"{prefix}{name}."
    return value


def hyperparameters(pair: AgentEnv) -> dict[str, Hyperparameter]:
    """Return every field of a pair by its path, the agent's first.

    A field that holds another struct is not listed; the fields of that struct are. Fields that `bind` fills in are
    not listed.
    """
    return dict([*_walk(pair.agent), *_walk(pair.env, f"{ENV}.")])


def hyperparameters_of(value: Any) -> dict[str, Hyperparameter]:
    """Return every field of an agent or an environment by its path inside it."""
    return dict(_walk(value))


def traced_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of the traced fields of an agent or an environment.

    Inside other structs, only fields that are declared as numbers count: demonstrations, for example, do not.
    """
    for path, found in _walk(value):
        if not found.static and ("." not in path or found.field.type in NUMBERS):
            yield path, found.value


def is_static(pair: AgentEnv, path: str) -> bool:
    """Return whether a path names, or leads through, a static field; also for the environment as a whole.

    Raises TypeError for an unknown path.
    """
    get(pair, path)
    if path == ENV:
        return True
    agent, env = separate({path: None})
    return is_static_part(pair.env, next(iter(env))) if env else is_static_part(pair.agent, path)


def is_static_part(value: Any, path: str) -> bool:
    """Return whether a path inside a value names, or leads through, a static field."""
    name, _, rest = path.partition(".")
    return _is_static(value, name) or bool(rest and is_static_part(_parts(value)[name], rest))


def static_sweep_error(path: str, values: Iterable[Any]) -> ValueError:
    """Return the error for several values of a static field in one run."""
    return ValueError(
        f"{path} shapes the program, so its values {list(values)} need one run each: shoal.train_all, with the same "
        "arguments, makes these runs."
    )


def populate(pair: AgentEnv, values: Mapping[str, Any], members: int) -> AgentEnv:
    """Return the pair of a population: `values` by path vary between members and have leaves [M, ...].

    All leaves of the result are NumPy arrays [M, ...] of JAX's default widths; those that do not vary are broadcast.
    Raises TypeError for a path that does not exist, ValueError for values of another length.
    """

    def member_axis(path: tuple, array: np.ndarray) -> np.ndarray:
        name = _dotted(path)
        if not any(name == varied or name.startswith(f"{varied}.") for varied in values):
            return np.broadcast_to(array, (members, *array.shape))
        if array.shape[:1] != (members,):
            raise ValueError(f"{name} has shape {array.shape}, and a population of {members} needs ({members}, ...).")
        return array

    return jax.tree_util.tree_map_with_path(member_axis, in_numpy(apply(pair, values)))


def in_numpy(pair: AgentEnv) -> AgentEnv:
    """Return a pair whose leaves are NumPy arrays of the dtypes that JAX gives them. No device is used."""

    def cast(leaf: Any, dtype: Any) -> np.ndarray:
        return np.asarray(leaf).astype(dtype, copy=False)

    return AgentEnv(*(jax.tree.map(cast, value, leaf_dtypes(value)) for value in pair))


def _dotted(path: tuple) -> str:
    """Return the path of this module for a path of `jax.tree_util` through a setting."""
    words = [str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", key)))) for key in path]
    return ".".join(words[1:] if words[0] == "agent" else words)


def _walk(value: Any, prefix: str = "", static: bool = False) -> Iterator[tuple[str, Hyperparameter]]:
    for name, field in user_fields(value).items():
        content = getattr(value, name)
        if is_empty_static(field, content) or info_of(field).stacked:
            continue  # in a stack of structs every leaf has an axis, which does not mean a sweep
        is_static_here = static or _is_static(value, name)
        if user_fields(content):
            yield from _walk(content, f"{prefix}{name}.", is_static_here)
        else:
            yield f"{prefix}{name}", Hyperparameter(content, field, is_static_here)


def is_empty_static(field: dataclasses.Field, content: Any) -> bool:
    """Return whether a static field is None by default and still is: `bind` will fill it in, or it is not used."""
    return bool(info_of(field).static) and content is None and field.default is None


def user_fields(value: Any) -> dict[str, dataclasses.Field]:
    """Return the fields of a struct, dataclass or flax module that a user sets, by name; none for other objects.

    A schedule is one value, which is set as a whole.
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, (type, Scheduled)):
        return {}
    of_flax = ("parent", "name") if isinstance(value, nn.Module) else ()
    return {f.name: f for f in dataclasses.fields(value) if f.init and f.name not in of_flax}


def _parts(value: Any) -> dict[str, Any]:
    """Return the fields or items of a value by name; none for a number."""
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
    return value.replace(**changes) if isinstance(value, Struct) else dataclasses.replace(value, **changes)


def _is_static(value: Any, name: str) -> bool:
    """Return whether a part of a value is static: all but traced fields of structs and items of tuples and dicts."""
    if isinstance(value, (tuple, Mapping)):
        return False
    return not isinstance(value, Struct) or is_static_field(user_fields(value)[name], getattr(value, name))


def _unknown(value: Any, name: str, prefix: str) -> TypeError:
    """Return the error `FrameStack has no field 'gravity'. Did you mean env.env.gravity? ...`, with whole paths."""
    known = list(_parts(value))
    deeper = [path for path, _ in _walk(value, prefix) if path.rpartition(".")[2] == name]
    near = f" Did you mean {' or '.join(deeper)}?" if deeper else did_you_mean(name, known)
    every = f" Its fields are: {', '.join(f'{prefix}{part}' for part in known) or 'none'}."
    return TypeError(f"{type(value).__name__} has no field {name!r}.{near or every}")
