"""Files of a user's own that a run is made of: hashed in its spec, and kept in its folder as `source/NAME.py`.

A run is opened with the file itself where it is still what it was. Where it is gone or has changed, the copy can stand
in for it; since that runs the code of a folder that may come from anyone, it is done only where the user says so.
"""

import dataclasses
import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.training.describe import Described
from shoal.training.disk import replace
from shoal.training.settings import is_of_env
from shoal.training.spec import RunSpec


def with_sources(spec: RunSpec) -> RunSpec:
    """The spec with the SHA-256 of every file that it names."""
    return dataclasses.replace(spec, sources={path: _hash(Path(path)) for path in _files(spec)})


def keep(folder: Path, spec: RunSpec) -> None:
    """Copy the files of a spec to the folder of its run."""
    for path, name in _copies(spec).items():
        (folder / name).parent.mkdir(exist_ok=True)
        code = Path(path).read_bytes()
        replace(folder / name, lambda place, code=code: place.write_bytes(code))


def runnable(
    spec: RunSpec,
    folder: Path,
    agent: Agent | None = None,
    env: Env | None = None,
    *,
    trust_source: bool = False,
) -> RunSpec:
    """The spec of a folder, with paths of files that may be run: the user's own that are what they were, or copies.

    Files of an `agent` or an `env` that is given are not needed. Raises ValueError, before anything is run, for a file
    that is gone or has changed unless `trust_source` allows its copy.
    """
    moved = {}
    for path in _files(spec, without=[kind for kind, value in (("agent", agent), ("env", env)) if value is not None]):
        reason = _refusal(Path(path), spec.sources.get(path), folder)
        if not reason:
            continue
        copy = (folder / _copies(spec).get(path, "source")).resolve()
        if not trust_source:
            raise ValueError(
                f"{folder} was made with {path}, which {reason}. To run the copy in {copy.parent}, which is code, say "
                f"--trust-source, or trust_source=True in Python."
            )
        if not copy.is_file() or _hash(copy) != spec.sources[path]:
            raise ValueError(f"{folder} was made with {path}, which {reason}, and holds no copy as it was then.")
        moved[path] = str(copy)
    return _moved(spec, moved) if moved else spec


def _refusal(file: Path, expected: str | None, folder: Path) -> str:
    """Why a file is not run without being asked; empty for the user's own that is what it was."""
    if expected is None:
        return "is not in its list of sources"
    foreign = folder if (folder / "spec.json").is_file() else folder / "source"  # beside a spec alone lies the user's
    if not file.is_absolute() or file.resolve().is_relative_to(foreign.resolve()):
        return "is no file of your own"
    if not file.is_file():
        return "is not there any more"
    return "" if _hash(file) == expected else "has changed since"


def _files(spec: RunSpec, without: Collection[str] = ()) -> list[str]:
    """Paths of the files that the classes and functions of a spec come from."""
    names = [getattr(spec, kind) for kind in ("agent", "env") if kind not in without]
    for path, part in spec.parts():
        kind = "env" if is_of_env(path) else "agent"
        if kind not in without and part.kind in ("class", "function"):
            names.append(part.name)
    places = [name.rpartition(":")[0] for name in names]
    return list(dict.fromkeys(place for place in places if place.endswith(".py")))


def _copies(spec: RunSpec) -> dict[str, str]:
    """Where the copy of each file lies in the run folder."""
    copies: dict[str, str] = {}
    for path in spec.sources:
        stem, n = Path(path).stem, 1
        while (name := f"source/{stem}{f'-{n}' * (n > 1)}.py") in copies.values():
            n += 1
        copies[path] = name
    return copies


def _moved(spec: RunSpec, moved: dict[str, str]) -> RunSpec:
    def name_of(name: str) -> str:
        place, _, attribute = name.rpartition(":")
        return f"{moved[place]}:{attribute}" if place in moved else name

    def part_of(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(part_of, part))
        if not isinstance(part, Described):
            return part
        fields = {name: part_of(inner) for name, inner in part.fields.items()}
        name = name_of(part.name) if part.kind in ("class", "function") else part.name
        return dataclasses.replace(part, name=name, fields=fields)

    return dataclasses.replace(
        spec,
        agent=name_of(spec.agent),
        env=name_of(spec.env),
        fields={name: part_of(part) for name, part in spec.fields.items()},
        env_fields={name: part_of(part) for name, part in spec.env_fields.items()},
        sources={moved.get(path, path): digest for path, digest in spec.sources.items()},
    )


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
