"""The user's own Python files that a run needs. The spec has their hashes, the run folder copies: `source/NAME.py`.

To open a run, the file itself is used if it has not changed. If it is gone or has changed, the copy can replace it.
This runs code from a folder that anybody may have written, so it needs the user's consent (`trust_source`).
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
    """Return the spec with the SHA-256 of every file that it names."""
    return dataclasses.replace(spec, sources={path: _hash(Path(path)) for path in _files(spec)})


def keep(folder: Path, spec: RunSpec) -> None:
    """Copy the files of a spec to the folder of its run."""
    for path, name in _copies(spec).items():
        (folder / name).parent.mkdir(exist_ok=True)
        code = Path(path).read_bytes()
        replace(folder / name, lambda target, code=code: target.write_bytes(code))


def runnable(
    spec: RunSpec,
    folder: Path,
    agent: Agent | None = None,
    env: Env | None = None,
    *,
    trust_source: bool = False,
) -> RunSpec:
    """Return the spec with paths of files that may be run: unchanged files of the user's own, or copies in the folder.

    Files of an `agent` or an `env` that is passed in are not needed. Raises ValueError, before any code is run, for a
    file that is gone or has changed, unless `trust_source` allows its copy.
    """
    moved = {}
    for path in _files(spec, without=[kind for kind, value in (("agent", agent), ("env", env)) if value is not None]):
        reason = _refusal(Path(path), spec.sources.get(path), folder)
        if not reason:
            continue
        copy = (folder / _copies(spec).get(path, "source")).resolve()
        if not trust_source:
            raise ValueError(
                f"{folder} was made with {path}, which {reason}. To run the copy in {copy.parent}, which is code, use "
                f"--trust-source, or trust_source=True in Python."
            )
        if not copy.is_file() or _hash(copy) != spec.sources[path]:
            raise ValueError(f"{folder} was made with {path}, which {reason}, and holds no copy as it was then.")
        moved[path] = str(copy)
    return _moved(spec, moved) if moved else spec


def _refusal(file: Path, expected: str | None, folder: Path) -> str:
    """Return why a file must not be run without consent; empty for an unchanged file of the user's own."""
    if expected is None:
        return "is not in its list of sources"
    foreign = (
        folder if (folder / "spec.json").is_file() else folder / "source"
    )  # a folder without spec.json is not a run: its files are the user's
    if not file.is_absolute() or file.resolve().is_relative_to(foreign.resolve()):
        return "is no file of your own"
    if not file.is_file():
        return "is not there any more"
    return "" if _hash(file) == expected else "has changed since"


def _files(spec: RunSpec, without: Collection[str] = ()) -> list[str]:
    """Return the paths of the user's files that the classes and functions of a spec come from."""
    names = [getattr(spec, kind) for kind in ("agent", "env") if kind not in without]
    for path, part in spec.parts():
        kind = "env" if is_of_env(path) else "agent"
        if kind not in without and part.kind in ("class", "function"):
            names.append(part.name)
    modules = [name.rpartition(":")[0] for name in names]
    return list(dict.fromkeys(module for module in modules if module.endswith(".py")))


def _copies(spec: RunSpec) -> dict[str, str]:
    """Return the name of each file's copy, relative to the run folder."""
    copies: dict[str, str] = {}
    for path in spec.sources:
        stem, n = Path(path).stem, 1
        while (name := f"source/{stem}{f'-{n}' * (n > 1)}.py") in copies.values():
            n += 1
        copies[path] = name
    return copies


def _moved(spec: RunSpec, moved: dict[str, str]) -> RunSpec:
    def name_of(name: str) -> str:
        module, _, attribute = name.rpartition(":")
        return f"{moved[module]}:{attribute}" if module in moved else name

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
