"""The preset of a new run: one that comes with shoal, by name, or one of a file of the user's own.

`training/preset_table.py` describes the format of the files.
"""

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shoal.agents import presets
from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import did_you_mean
from shoal.core.registry import AGENTS, ENVS
from shoal.specs.describe import Described, build, describe, in_words, user_file
from shoal.specs.settings import separate
from shoal.training.preset_table import Table
from shoal.training.result import Result

SUFFIX = ".toml"


class Chosen(NamedTuple):
    """The preset of a new run: its agent and environment, and what it sets where the user does not."""

    agent: str | Agent
    env: str | Env
    fields: Mapping[str, Any] = {}  # by path
    env_fields: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}  # of `preset_table.OPTIONS`, without `found`, whose values are among the fields
    title: str = ""  # `its preset for CartPole-v1`, `best.toml`; empty without a preset
    notes: tuple[str, ...] = ()  # sentences for the user


def is_file(preset: Any) -> bool:
    """Return whether a preset is given as a file: a path object, or a text that ends in .toml or has a slash.

    `folder/my_agent.py:MyAgent` is a class.
    """
    if isinstance(preset, os.PathLike):
        return True
    if not isinstance(preset, str) or ".py:" in preset:
        return False
    return preset.endswith(SUFFIX) or f"{SUFFIX}:" in preset or "/" in preset


def preset_for(
    preset: Path | str | None, agent: str | Agent | None, env: str | Env | None, *, trust_source: bool = False
) -> Chosen:
    """Return the preset of a run: none for None or "none", that of the environment for "", a variant, or one of a file.

    `FILE.toml:VARIANT` names one of several presets in a file. A file that names its agent or environment need not
    have it named here. Raises ValueError or TypeError for a preset that is unknown, misspelled or for another agent,
    and for one that would execute a file of the user's own without consent; FileNotFoundError for a missing file.
    """
    preset = None if preset == "none" else preset
    if preset is not None and is_file(preset):
        return _from_file(Path(preset), agent or None, env or None, trust_source)
    if agent is None or env is None:
        raise TypeError('train needs an agent and an environment: shoal.train("ppo", "CartPole-v1").')
    agent = AGENTS[agent].name if isinstance(agent, str) else agent  # first, so that an unknown name raises at once
    env = ENVS[env].name if isinstance(env, str) else env  # an alias becomes the registered name
    if not (isinstance(agent, str) and isinstance(env, str)):
        if preset:
            raise ValueError(f"preset={preset!r} needs agent and environment by name: a value is taken as it is.")
        return Chosen(agent, env)
    try:
        found = None if preset is None else presets.find(agent, env, str(preset))
    except ValueError as error:
        raise ValueError(f"{error}{_file_of_this_name(str(preset))}") from error
    if found is None:
        return Chosen(agent, env)
    return Chosen(agent, env, found.fields, found.env_fields, {"steps": found.steps}, f"its preset for {env}")


def _file_of_this_name(name: str) -> str:
    for path in (f"{name}{SUFFIX}", name):
        if Path(path).is_file():
            return f" For the file write --preset {path if is_file(path) else f'./{path}'}."
    return ""


def _from_file(path: Path, agent: Any, env: Any, trust_source: bool) -> Chosen:
    path, variant = _split_variant(path)
    tables = presets.read_tables(_existing(path, agent, env))
    label, of_another = _label(path, tables, variant, env)
    table = Table(tables[label], label, path)
    agent = _agent(table, agent)
    table.check_code([_file(agent) if agent else "", _file(env)], trust_source)
    agent, given = agent or table.agent, env
    env = _env(table, given)
    fields, env_fields, notes = table.fields(AGENTS[agent].cls), {}, []
    if of_another:
        unused = _listed(f"env.{name}" for name in table.env_parts)
        left_out = f"; {unused} of that environment {'are' if ' and ' in unused else 'is'} not used" if unused else ""
        notes += [f"{path} is for {of_another}, and its values are used for {_words(env)}{left_out}"]
    elif isinstance(env, str):
        env_fields = table.env_fields(ENVS[env].cls)
    elif given is not None and (other := _difference(env, table)):
        notes += [f"the environment is trained as it was given; in {path} it has {other}"]
    options = table.options
    if "found" in options:
        found = separate(Result(options.pop("found"), trust_source=trust_source).found)
        fields = {**found[0], **fields}
        env_fields = {**found[1], **env_fields} if isinstance(env, str) and not of_another else env_fields
    table.try_out(agent, fields, env if isinstance(env, str) else "", env_fields)
    return Chosen(agent, env, fields, env_fields, options, str(path), tuple(notes))


def _split_variant(path: Path) -> tuple[Path, str]:
    """Split `best.toml:fast` into the file and the variant, which is empty without a colon."""
    file, colon, variant = str(path).rpartition(f"{SUFFIX}:")
    return (Path(f"{file}{SUFFIX}"), variant) if colon else (path, "")


def _existing(path: Path, agent: Any, env: Any) -> Path:
    """Return the path of a file that exists. Raises FileNotFoundError or ValueError, which say what may be meant."""
    if path.is_file():
        return path
    if path.is_dir():
        is_run = (path / "spec.json").is_file()
        what = f"`shoal export-config {path}` writes one, and --spec {path} repeats the run" if is_run else "name one"
        raise ValueError(f"{path} is a folder, and a preset is a file: {what}.")
    near = difflib.get_close_matches(path.name, [file.name for file in path.parent.glob(f"*{SUFFIX}")], n=1)
    beside = f" Did you mean {path.parent / near[0]}?" if near else ""
    if isinstance(agent, str) and isinstance(env, str) and ":" not in f"{agent}{env}":
        prefix = f"{ENVS[env].name}:"
        known = [name.removeprefix(prefix) for name in presets.presets(AGENTS[agent].name) if name.startswith(prefix)]
        if path.stem in known:
            beside += f" The preset that comes with shoal is --preset {path.stem}, without {SUFFIX}."
    raise FileNotFoundError(f"{path} does not exist: --preset needs a file, or the name of a preset.{beside}")


def _label(path: Path, tables: Mapping[str, Any], variant: str, env: Any) -> tuple[str, str]:
    """Return (the name of the table to use, the environment that it is for where that is not the given one)."""
    if not tables:
        raise ValueError(f'{path} holds no preset: write the name of the environment above it, as in ["CartPole-v1"].')
    wanted = None if env is None else _words(env)
    of_env = [label for label in tables if wanted in (None, _env_of(label))]
    exact = [label for label in of_env if label.partition(":")[2] == variant]
    fitting = exact if variant or len(of_env) > 1 else of_env
    if len(fitting) == 1:
        return fitting[0], ""
    if len(tables) == 1 and not variant:
        (label,) = tables
        return label, _env_of(label)
    what = f"no preset {variant!r}" if variant else f"no preset for {wanted}" if wanted else "several presets"
    near = did_you_mean(variant, [label.partition(":")[2] for label in tables]) if variant else ""
    how = "" if wanted else " Name the environment too."
    raise ValueError(f"{path} has {what}.{near} It has: {', '.join(tables)}.{how} A variant is {path}:VARIANT.")


def _env_of(label: str) -> str:
    """Return the environment that the name of a table stands for, by its registered name if it has one."""
    name = label.partition(":")[0]
    return ENVS[name].name if name in ENVS else name


def _words(env: str | Env) -> str:
    """Return the short name of an environment: `CartPole-v1`, `FrameStack(CartPole-v1)`, `MyEnv`."""
    if isinstance(env, str):
        return env.rpartition(":")[2] if ":" in env else ENVS[env].name
    return in_words(describe(env))


def _agent(table: Table, agent: Any) -> str:
    """Return the given agent; empty if none was given. Raises ValueError if the preset is for another one."""
    own = table.agent
    if isinstance(agent, Agent):
        raise ValueError(f"{table.where} needs the agent by name: a value is taken as it is.")
    if agent is None:
        if not own:
            raise ValueError(f'{table.where} names no agent: name one, or write agent = "ppo" in the file.')
        return ""
    name, own = AGENTS[agent].name, own if ":" in own or not own else AGENTS[own].name
    if own and name.rpartition(":")[2] != own.rpartition(":")[2]:
        raise ValueError(
            f"{table.where} is for the agent {own.rpartition(':')[2]}, not for {name.rpartition(':')[2]}: train "
            f"{own.rpartition(':')[2]}, or give another preset."
        )
    return name


def _env(table: Table, env: Any) -> str | Env:
    """Return the given environment, or without one that of the preset."""
    if env is not None:
        return ENVS[env].name if isinstance(env, str) else env
    if table.env is not None:
        return build(table.env)
    name = table.label.partition(":")[0]
    if name not in ENVS:
        raise ValueError(f"{table.where} names no registered environment: name one.{did_you_mean(name, ENVS)}")
    return ENVS[name].name


def _difference(env: Env, table: Table) -> str:
    """Return the fields of a preset's environment that a given environment has otherwise; empty if there are none."""
    given = describe(env)
    there = table.env_parts
    if not isinstance(given, Described):
        return ""
    return " and ".join(
        f"env.{name}={in_words(value) if isinstance(value, Described) else value}"
        for name, value in there.items()
        if "." not in name and given.fields.get(name) != value
    )


def _file(value: Any) -> str:
    """Return the user's own file of an agent or environment, which is a value or named by its path; else empty."""
    if isinstance(value, str):
        file = value.rpartition(":")[0]
        return str(Path(file).resolve()) if file.endswith(".py") else ""
    return "" if value is None else str(user_file(type(value)) or "")


def _listed(names: Iterable[str]) -> str:
    return " and ".join(names)
