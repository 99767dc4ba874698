"""The user's own Python files that a run needs. The spec has their hashes, the run folder copies: `source/NAME.py`.

To open a run, the file itself is used if it has not changed. If it is gone or has changed, the copy can replace it.
A folder that anybody may have written decides which files and modules these are, so they need the user's consent
(`specs/consent.py`), and a copy always needs `trust_source`.
"""

import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import UntrustedError
from shoal.specs.consent import HOW, UNNAMED, has_consent, import_source, is_installed_part, remember, source_of
from shoal.specs.describe import Described, inside
from shoal.specs.disk import replace
from shoal.specs.settings import is_of_env
from shoal.specs.spec import NAMED, RunSpec


def with_sources(spec: RunSpec) -> RunSpec:
    """Return the spec, which the user trains, with the SHA-256 of every file that it names."""
    return dataclasses.replace(spec, sources=hashes_of(parts_of(spec)))


def hashes_of(parts: Iterable[Described]) -> dict[str, str]:
    """Return the SHA-256 of every file that parts need, by path. The user runs them, which is consent."""
    parts = list(parts)
    remember(_sources(parts))
    return {path: _hash(Path(path)) for path in files_of(parts)}


def keep(folder: Path, spec: RunSpec) -> None:
    """Copy the files of a spec to the folder of its run."""
    for path, name in _copies(spec).items():
        (folder / name).parent.mkdir(exist_ok=True)
        code = Path(path).read_bytes()
        replace(folder / name, lambda target, code=code: target.write_bytes(code))


def with_trusted_files(
    spec: RunSpec,
    folder: Path,
    agent: Agent | None = None,
    env: Env | None = None,
    *,
    trust_source: bool = False,
) -> RunSpec:
    """Return the spec with paths of files that may be run: unchanged files of the user's own, or copies in the folder.

    Files of an `agent` or an `env` that is passed in are not needed. Raises UntrustedError, before any code is run, for
    code without consent and for a file that is gone or has changed, unless `trust_source` allows it, or its copy.
    """
    without = [kind for kind, value in (("agent", agent), ("env", env)) if value is not None]
    moved = _replaced_files(parts_of(spec, without), spec, folder, trust_source)
    return _moved(spec, moved) if moved else spec


def values_with_trusted_files(
    values: Mapping[str, Any], spec: RunSpec, folder: Path, *, trust_source: bool = False
) -> dict[str, Any]:
    """Return described values of a run, by path, with paths of files that may be run; see `with_trusted_files`."""
    parts = [part for path, value in values.items() for _, part in inside(value, path)]
    moved = _replaced_files(parts, spec, folder, trust_source)
    return {path: _with_moved(value, moved) for path, value in values.items()}


def without_folders(spec: RunSpec) -> RunSpec:
    """Return the spec that may leave this machine: of files it has only the paths of their copies in the folder.

    Of the runs that it began with it has the names.
    """

    def named(origin: Mapping[str, Any]) -> Mapping[str, Any]:
        run = str(origin.get("run", ""))
        return {**origin, "run": run if run.startswith(NAMED) else Path(run).name} if origin else origin

    return dataclasses.replace(_moved(spec, _copies(spec)), init=named(spec.init), branch=named(spec.branch))


def check_sources(
    parts: Iterable[Described],
    where: str,
    trust_source: bool,
    named: Collection[str] = (),
    listed: Mapping[str, Any] | None = None,
) -> None:
    """Raise UntrustedError if descriptions in a file name code, beside the files `named` by the user, without consent.

    `listed` has the SHA-256 of files, for a preset, which must list the files that it needs. Code that `trust_source`
    allows is imported, which gives it consent.
    """
    for source in _sources(parts):
        reason = "" if has_consent(source) else UNNAMED
        if listed is not None and source.endswith(".py"):
            expected = listed.get(source)
            reason = (_change(Path(source), expected) if expected else "is not in its list of sources") or reason
        if not reason or source in named:
            continue
        if not trust_source:
            raise UntrustedError(
                f"{where} names code in {source}, which {reason}, so it is not executed without your consent: {HOW}."
            )
        import_source(source)


def _replaced_files(parts: Iterable[Described], spec: RunSpec, folder: Path, trust_source: bool) -> dict[str, str]:
    """Return the copies that replace files which must not be run, by path. Raises what `with_trusted_files` raises.

    With `trust_source` code without consent is imported, which gives it.
    """
    moved, parts = {}, list(parts)
    for source in _sources(parts):
        reason = _why_untrusted(Path(source), spec.sources.get(source), folder) if source in files_of(parts) else ""
        if not reason and has_consent(source):
            continue
        copy = (folder / _copies(spec).get(source, "source")).resolve()
        if not trust_source:
            what = f"the copy in {copy.parent}" if reason else "it"
            raise UntrustedError(
                f"{folder} was made with {source}, which {reason or UNNAMED}. To run {what}, which is code, {HOW}."
            )
        if reason and (not copy.is_file() or _hash(copy) != spec.sources.get(source)):
            raise ValueError(f"{folder} was made with {source}, which {reason}, and holds no copy as it was then.")
        if reason:
            moved[source] = str(copy)
        import_source(moved.get(source, source))
    return moved


def _why_untrusted(file: Path, expected: str | None, folder: Path) -> str:
    """Return why a copy must replace a file; empty for an unchanged file outside of the folder."""
    if expected is None:
        return "is not in its list of sources"
    # A folder without spec.json is not a run: its files are the user's.
    foreign = folder if (folder / "spec.json").is_file() else folder / "source"
    if not file.is_absolute() or file.resolve().is_relative_to(foreign.resolve()):
        return "is no file of your own"
    return _change(file, expected)


def _change(file: Path, expected: str) -> str:
    """Return how a file differs from the one with this SHA-256; empty where it does not."""
    if not file.is_file():
        return "is not there any more"
    return "" if _hash(file) == expected else "has changed since"


def parts_of(spec: RunSpec, without: Collection[str] = ()) -> list[Described]:
    """Return the descriptions in a spec, its agent and its environment among them, but not those of `without`."""
    values = [Described("class", getattr(spec, kind)) for kind in ("agent", "env") if kind not in without]
    always = ("selector", *spec.varying)  # a value that is passed in does not have these parts
    for path, part in spec.parts():
        kind = "env" if is_of_env(path) else "agent"
        if kind not in without or f"{path}.".startswith(tuple(f"{name}." for name in always)):
            values.append(part)
    return values


def _sources(parts: Iterable[Described]) -> list[str]:
    """Return the files and modules that parts need, those of shoal too."""
    named = (source_of(part.name) for part in parts if part.kind in ("class", "function", "env"))
    return list(dict.fromkeys(filter(None, named)))


def foreign_sources(spec: RunSpec) -> list[str]:
    """Return the files and modules that a spec needs and that are not shoal's or a registering package's."""
    return [source for source in _sources(parts_of(spec)) if not is_installed_part(source)]


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
