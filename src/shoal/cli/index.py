"""The index of environments and agents: what `shoal envs`, `shoal agents` and `shoal completion` print, without JAX.

`index.json` is written by `python -m shoal.cli.index`, which `make docs` runs; `tests/cli/test_index.py` fails when it
differs from the registries. It is not used where it may be out of date: if a plug-in is installed, if a file of an
environment or agent was added or removed, or if this process has imported the registries, to which names may have been
added. Then the registries are read, which takes a second for JAX and a second for their modules.
"""

import importlib
import importlib.util
import inspect
import json
import sys
import zlib
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("index.json")
GROUPS = ("shoal.envs", "shoal.agents")  # entry points of plug-ins
FOLDERS = ("envs", "population/meta_envs", "agents")  # in which shoal registers environments and agents


class EnvRow(NamedTuple):
    """The row of an environment in a listing."""

    observation: str  # the observation space in short: "Box (4,) float32"
    observation_kind: str  # "parts" for a Dict or Tuple, "image" for arrays of two axes or more, otherwise "vector"
    action: str  # the action space in short
    action_kind: str  # the class of the action space
    limit: str  # the time limit, or "-"
    description: str


class AgentRow(NamedTuple):
    """The row of an agent in a listing, and the flags of its fields."""

    presets: int
    description: str
    options: list[str]


class Index(NamedTuple):
    """The registered names, and what a listing says about each."""

    families: dict[str, str]  # the description of each family of environments
    envs: dict[str, str]  # the family of each environment
    aliases: list[str]  # other names of environments
    agents: dict[str, AgentRow]
    env_row: Callable[[str], EnvRow]


def index() -> Index:
    """The index: from `index.json` if it is up to date, otherwise from the registries."""
    found = None if "shoal.core.registry" in sys.modules else from_file()
    return found or from_registries()


def from_file() -> Index | None:
    """The index that `index.json` holds; None if there are plug-ins, or other files than when it was written."""
    stored = json.loads(FILE.read_text())
    if stored["files"] != _files() or any(entry_points(group=group) for group in GROUPS):
        return None
    row_of = {name: EnvRow(*row) for _, row, names in stored["envs"] for name in names}
    family_of = {name: family for family, _, names in stored["envs"] for name in names}
    envs = {name: family_of[name] for name in sorted(family_of)}
    agents = {name: AgentRow(*row) for name, row in stored["agents"].items()}
    return Index(stored["families"], envs, stored["aliases"], agents, row_of.__getitem__)


def from_registries() -> Index:
    """The index of the registries. An environment is built when its row is read."""
    from shoal.agents.presets import presets
    from shoal.cli.main import COMMANDS
    from shoal.core.registry import AGENTS, ENVS

    train = COMMANDS["train"].parser("train")
    agents = {
        name: AgentRow(len(presets(name)), entry.summary, [flag.option for flag in train.flags("agent", name)])
        for name, entry in AGENTS.items()
    }
    envs = {name: _family(entry.cls.__module__) for name, entry in ENVS.items()}
    families = {family: _about_family(family) for family in sorted({*envs.values()})}
    return Index(families, envs, [*ENVS.aliases], agents, _env_row)


def as_text(found: Index) -> str:
    """The contents of `index.json`: a line for each agent, and one for all environments that have the same row."""
    rows: dict[tuple[str, EnvRow], list[str]] = {}
    for name, family in found.envs.items():
        rows.setdefault((family, found.env_row(name)), []).append(name)
    parts = {
        "files": _files(),
        "families": found.families,
        "aliases": found.aliases,
        "agents": found.agents,
        "envs": [(family, row, names) for (family, row), names in rows.items()],
    }
    return "{\n" + ",\n".join(f'"{key}": {_lines(part)}' for key, part in parts.items()) + "\n}\n"


def _lines(part: Any) -> str:
    """JSON, with a line for each item of a list of rows or a dict of agents."""
    if isinstance(part, dict):
        return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(item)}" for key, item in part.items()) + "\n}"
    if isinstance(part, list):
        return "[\n" + ",\n".join(json.dumps(item) for item in part) + "\n]"
    return json.dumps(part)


def _files() -> int:
    """A hash of the names of all files in which shoal registers environments and agents."""
    return zlib.crc32("\n".join(sorted(_modules())).encode())


def _modules() -> Iterator[str]:
    source = FILE.parents[1]
    for folder in FOLDERS:
        yield from (path.relative_to(source).as_posix() for path in (source / folder).rglob("*.py"))


def _family(module: str) -> str:
    """The package below `shoal.envs` or `shoal.population` that holds a module, or the name of another library."""
    parts = module.split(".")
    return parts[2] if parts[0] == "shoal" else parts[0]


def _about_family(family: str) -> str:
    packages = (f"shoal.envs.{family}", f"shoal.population.{family}")
    ours = next((package for package in packages if importlib.util.find_spec(package)), family)
    module = importlib.import_module(ours)
    return (inspect.getdoc(module) or "").partition("\n")[0]


def _env_row(name: str) -> EnvRow:
    from shoal.core.registry import ENVS

    env, summary = ENVS[name].build(), ENVS[name].summary
    observation, action = env.observation_space, env.action_space
    limit = " to ".join(str(steps) for steps in dict.fromkeys(env.limit_range or ("-",)))
    return EnvRow(_short(observation), _kind(observation), _short(action), type(action).__name__, limit, summary)


def _kind(space: Any) -> str:
    if type(space).__name__ in ("Dict", "Tuple"):
        return "parts"
    return "image" if len(space.shape) > 1 else "vector"


def _short(space: Any) -> str:
    kind, shape = type(space).__name__, getattr(space, "shape", None)
    size = getattr(space, "n", None) or getattr(space, "nvec", None) or shape
    if kind == "Dict":
        size = ", ".join(part for part, _ in space.spaces)
    if kind == "MultiDiscrete" and space.is_uniform:
        size = f"{len(space.nvec)} of {space.nvec[0]}"
    if kind == "Tuple":
        size = ", ".join(_short(part) for part in space.spaces)
    return f"{kind} {size or ''} {space.dtype if kind == 'Box' else ''}".strip()


if __name__ == "__main__":
    FILE.write_text(as_text(from_registries()))
