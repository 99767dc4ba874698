"""The user's own Python files that a run needs. The spec has their hashes, the run folder copies: `source/NAME.py`.

To open a run, the file itself is used if it has not changed. If it is gone or has changed, the copy can replace it.
This runs code from a folder that anybody may have written, so it needs the user's consent (`trust_source`).
"""

import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.training.describe import Described, inside
from shoal.training.disk import replace
from shoal.training.folder import ZOO_PREFIX
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
    without = [kind for kind, value in (("agent", agent), ("env", env)) if value is not None]
    moved = _moves(_files(spec, without), spec, folder, trust_source)
    return _moved(spec, moved) if moved else spec


def runnable_values(
    values: Mapping[str, Any], spec: RunSpec, folder: Path, *, trust_source: bool = False
) -> dict[str, Any]:
    """Return described values of a run, by path, with paths of files that may be run, as `runnable` does for `spec`."""
    parts = [part for path, value in values.items() for _, part in inside(value, path)]
    moved = _moves(files_of(parts), spec, folder, trust_source)
    return {path: _with_moved(value, moved) for path, value in values.items()}


def without_folders(spec: RunSpec) -> RunSpec:
    """Return the spec that may leave this machine: of files it has only the paths of their copies in the folder.

    Of the run that it began with it has the name.
    """
    run = str(spec.init.get("run", ""))
    init = {**spec.init, "run": run if run.startswith(ZOO_PREFIX) else Path(run).name} if spec.init else spec.init
    return dataclasses.replace(_moved(spec, _copies(spec)), init=init)


def refusal_of_preset(file: str, sources: Mapping[str, Any]) -> str:
    """Return why a file that a preset names must not be run without consent; empty for an unchanged file.

    `sources` is the list of files that the preset holds, with their SHA-256.
    """
    if file not in sources:
        return "is not in its list of sources"
    if not Path(file).is_file():
        return "is not there any more"
    return "" if _hash(Path(file)) == sources[file] else "has changed since"


def _moves(files: Sequence[str], spec: RunSpec, folder: Path, trust_source: bool) -> dict[str, str]:
    """Return the copies that replace files which must not be run, by path. Raises ValueError as `runnable` does."""
    moved = {}
    for path in files:
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
    return moved


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
    values = [Described("class", getattr(spec, kind)) for kind in ("agent", "env") if kind not in without]
    always = ("selector", *spec.varying)  # a value that is passed in does not have these parts
    for path, part in spec.parts():
        kind = "env" if is_of_env(path) else "agent"
        if kind not in without or f"{path}.".startswith(tuple(f"{name}." for name in always)):
            values.append(part)
    return files_of(values)


def files_of(parts: Iterable[Described]) -> list[str]:
    """Return the paths of the user's files that classes and functions come from."""
    modules = [part.name.rpartition(":")[0] for part in parts if part.kind in ("class", "function")]
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


def _moved(spec: RunSpec, moved: Mapping[str, str]) -> RunSpec:
    def of_paths(values: Mapping[str, Any]) -> dict[str, Any]:
        return {path: _with_moved(value, moved) for path, value in values.items()}

    names = ("fields", "env_fields", "sweep", "env_sweep", "points")
    return dataclasses.replace(
        spec,
        agent=_name_moved(spec.agent, moved),
        env=_name_moved(spec.env, moved),
        selector=_with_moved(spec.selector, moved),
        sources={moved.get(path, path): digest for path, digest in spec.sources.items()},
        **{name: of_paths(getattr(spec, name)) for name in names},
    )


def _with_moved(value: Any, moved: Mapping[str, str]) -> Any:
    """Return a description in which the files of classes and functions are replaced."""
    if isinstance(value, (tuple, list)):
        return type(value)(_with_moved(part, moved) for part in value)
    if not isinstance(value, Described) or value.kind == "array":
        return value
    fields = {name: _with_moved(inner, moved) for name, inner in value.fields.items()}
    name = _name_moved(value.name, moved) if value.kind in ("class", "function") else value.name
    return dataclasses.replace(value, name=name, fields=fields)


def _name_moved(name: str, moved: Mapping[str, str]) -> str:
    module, _, attribute = name.rpartition(":")
    return f"{moved[module]}:{attribute}" if module in moved else name


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
