"""One preset of a preset file of the user's own, read and checked piece by piece.

A file has the format of the files in `agents/presets`, and may hold more:

["FrameStack(CartPole-v1)"]                   the environment, and after a colon the name of a variant
agent = "ppo"                                 it is then for this agent only
steps = 500_000                               steps, seeds, records and other options of a run (`OPTIONS`)
evidence = "4 seeds: mean 497.5"              where the values come from
num_envs = 8                                  any other name is a field of the agent
max_steps = { none = true }                   None, which TOML lacks
network.hidden = [64, 64]                     a dot leads into a value: this changes one field of it
network.class = "shoal.nn.torsos:MLP"         with a kind of `specs.describe` it is a whole value: its class
network.fields.hidden = [64, 64]              and its fields
env.gravity = 5                               a field of the environment
env.class = "my_env.py:MyEnv"                 the class of an environment without a registered name, or of a wrapper;
env.fields.n = 4                              its fields are then under `fields`
found = "runs/evolved"                        what the selector of this run has found; values given here replace it
sources."/home/me/my_env.py" = "ab12..."      SHA-256 of files of the user's own when the file was written
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from shoal.core.errors import unknown_field
from shoal.core.registry import AGENTS, ENVS
from shoal.core.schedules import is_written
from shoal.core.struct import info_of
from shoal.specs import options
from shoal.specs.describe import KINDS, Described, build, from_json, inside
from shoal.specs.settings import replaced
from shoal.specs.sources import check_sources
from shoal.specs.spec import NAMED

WORDS: dict[Any, str] = {
    int: "a whole number",
    str: "a text",
    bool: "true or false",
    float | None: "a number",
    (str, dict): "the folder of a run",
}
OPTIONS = {  # what a preset may say about the run, with the type of each
    **{name: options.OPTIONS[name].type for name in options.GIVEN},
    "init": (str, dict),
    "found": str,
}
OTHERS = ("agent", "env", "evidence", "sources", *OPTIONS)  # what is no field of the agent
OF_SEVERAL = ("sweep", "settings", "random", "search", "selector")  # of runs with several settings
NONE = {"none": True}


class Table:
    """One preset: its values as TOML has them, and what they mean. Nothing is built or imported before it is asked."""

    def __init__(self, values: Mapping[str, Any], label: str, path: Path) -> None:
        """Use the table named `label` of the file at `path`."""
        self.values, self.label, self.path = values, label, path
        self.folder = path.parent
        self.where = f"preset [{label}] of {path}"

    @property
    def agent(self) -> str:
        """The name of its agent, or the path of its class; empty if it names none. Raises TypeError for no text."""
        agent = self.values.get("agent", "")
        if not isinstance(agent, str):
            raise TypeError(f'{self.where}: agent={agent!r} must be a name, such as "ppo".')
        return _absolute(agent, self.folder)

    @property
    def env(self) -> Described | None:
        """The description of its environment, if it has one; None if the name of the table is that of the environment.

        Raises TypeError for an environment that is no table, or whose fields are not under `fields`.
        """
        env = self.values.get("env", {})
        if not isinstance(env, Mapping):
            raise TypeError(
                f"{self.where}: env={env!r} must hold fields, as in env.gravity = 5. The environment itself is named "
                f'in brackets: ["CartPole-v1"].'
            )
        if not isinstance(env.get("class"), str):
            return None
        if others := [name for name in env if name not in ("class", "fields")]:
            raise TypeError(f"{self.where}: beside env.class, fields are under env.fields: env.fields.{others[0]}.")
        return self._described(env)

    @property
    def env_parts(self) -> dict[str, Any]:
        """The described values of fields of the environment, by path."""
        env = self.env
        if env is not None:
            return dict(env.fields)
        return {path: self._described(data) for path, data in _paths(self.values.get("env", {}))}

    def fields(self, cls: type) -> dict[str, Any]:
        """The values of fields of the agent, by path. Raises TypeError for a name that is no field of its class."""
        parts = self._agent_parts()
        for name in parts:
            if name in OF_SEVERAL:
                raise ValueError(
                    f"{self.where}: {name} is for several settings, and a preset has one value of each field: give "
                    f"{name} to `train`."
                )
        return self._built(parts, cls, "", OTHERS)

    def env_fields(self, cls: type) -> dict[str, Any]:
        """The values of fields of the environment, by path. Raises TypeError for a name that is no field of it."""
        return self._built(self.env_parts, cls, "env.")

    @property
    def options(self) -> dict[str, Any]:
        """The options of the run. Raises TypeError for a value of another type."""
        given = {}
        for name, kind in OPTIONS.items():
            if name not in self.values:
                continue
            value = self.values[name]
            wanted = (int, float) if kind == float | None else kind
            if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
                raise TypeError(f"{self.where}: {name}={value!r} must be {WORDS[kind]}.")
            given[name] = value
        if "found" in given:
            given["found"] = self._run(given["found"])
        if isinstance(init := given.get("init"), str):
            given["init"] = self._run(init)
        elif init is not None:
            given["init"] = {**init, **({"run": self._run(init["run"])} if isinstance(init.get("run"), str) else {})}
        return given

    def check_code(self, named: Collection[str], trust_source: bool) -> None:
        """Raise UntrustedError if the preset would execute code without consent.

        Code is executed if the user names its file as that of the agent or of the environment (`named`), if it has
        the user's consent (`specs/consent.py`), or if `trust_source` gives it.
        """
        values = [*self._agent_parts().values(), *self.env_parts.values(), self.env]
        parts = [part for value in values for _, part in inside(value)]
        parts += [Described("class", self.agent)] if ":" in self.agent else []
        listed = self.values.get("sources", {})
        if not isinstance(listed, Mapping):
            raise TypeError(f"{self.where}: sources={listed!r:.60} must be a table of files with their SHA-256.")
        check_sources(parts, self.where, trust_source, named, listed)

    def try_out(self, agent: str, fields: Mapping[str, Any], env: str, env_fields: Mapping[str, Any]) -> None:
        """Build agent and environment, so that an error in a value names the preset. An empty name is left out."""
        for registry, name, values, prefix in ((AGENTS, agent, fields, ""), (ENVS, env, env_fields, "env.")):
            if not name:
                continue
            own = {path: value for path, value in values.items() if "." not in path}
            try:
                made = registry[name].build(**own)
                replaced(made, {path: value for path, value in values.items() if "." in path}, prefix)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{self.where}: {error}") from error

    def _agent_parts(self) -> dict[str, Any]:
        own = {name: value for name, value in self.values.items() if name not in OTHERS}
        return {path: self._described(data) for path, data in _paths(own)}

    def _built(self, parts: Mapping[str, Any], cls: type, prefix: str, others: Collection[str] = ()) -> dict[str, Any]:
        known = {field.name: field for field in dataclasses.fields(cls) if field.init}
        values = {}
        for path, part in parts.items():
            name, _, inner = path.partition(".")
            if name not in known:
                raise unknown_field(self.where, f"{prefix}{name}", [*(f"{prefix}{field}" for field in known), *others])
            try:
                values[path] = build(part)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{self.where}: {prefix}{path}: {error}") from error
            if not inner:
                values[path] = _of_type(values[path], known[name], f"{self.where}: {prefix}{name}")
        return values

    def _described(self, data: Any) -> Any:
        """Return the description of a value as TOML has it."""
        if isinstance(data, list):
            return tuple(self._described(part) for part in data)
        if data == NONE:
            return None
        if isinstance(data, Mapping) and _is_description(data):
            fields = data.get("fields", {})
            kind = next(kind for kind in KINDS if isinstance(data.get(kind), str))
            if not isinstance(fields, Mapping):
                raise TypeError(f"{self.where}: the fields of {data[kind]} must be a table.")
            if kind == "array":
                return from_json(data)
            described = {name: self._described(part) for name, part in fields.items()}
            return Described(kind, _absolute(data[kind], self.folder), described)
        if isinstance(data, (str, bool, int, float)):
            return data
        raise TypeError(f"{self.where}: {data!s:.60} is no value: write a number, a text, true, false or a list.")

    def _run(self, run: str) -> str:
        """Return a run, named relative to the file, or a policy of the zoo."""
        return run if run.startswith(NAMED) else str(self.folder / run)


def _of_type(value: Any, field: dataclasses.Field, where: str) -> Any:
    """Return the value of a field. Raises TypeError if it plainly is of another type than the field's default."""
    default, names = field.default, info_of(field).names
    if value == "none" and not isinstance(default, str) and (default is None or type(None) in get_args(field.type)):
        return None
    wanted = ""
    if isinstance(default, bool):
        wanted = "" if isinstance(value, bool) else "true or false"
    elif isinstance(default, (int, float)) and not (names and isinstance(value, str)):
        if isinstance(value, tuple) and not info_of(field).static:
            wanted = "one number; a preset holds no sweep"
        elif isinstance(value, (bool, str, tuple)) and not is_written(value):  # the field checks a schedule
            wanted = "a number"
        elif isinstance(default, int) and isinstance(value, float) and info_of(field).static:
            wanted = "a whole number"
    elif isinstance(default, tuple):
        wanted = "" if isinstance(value, tuple) else "a list, such as [64, 64]"
    elif isinstance(default, str):
        wanted = "a text" if isinstance(value, (bool, int, float, tuple)) else ""
    if wanted:
        raise TypeError(f"{where}={list(value) if isinstance(value, tuple) else value!r} must be {wanted}.")
    return value


def _paths(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value as TOML has it). What describes a whole value stays together."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value != NONE and not _is_description(value):
            yield from _paths(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _is_description(value: Mapping[str, Any]) -> bool:
    return any(isinstance(value.get(kind), str) for kind in KINDS)


def _absolute(name: str, folder: Path) -> str:
    """Return `file.py:Name` with the whole path of a file that lies relative to `folder`; other names as they are."""
    file, colon, attribute = name.rpartition(":")
    return f"{(folder / file).resolve()}:{attribute}" if colon and file.endswith(".py") else name
