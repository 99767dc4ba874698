"""Suites: which environments they have, from `suites.toml` or from a file of the user's own."""

import fnmatch
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from shoal.core.env import Env
from shoal.core.errors import UnknownNameError, did_you_mean, unknown_name
from shoal.core.keys import make_key
from shoal.core.registry import ENVS
from shoal.specs.consent import check_consent, import_source, source_of
from shoal.training.references import check_references

SUFFIX = ".toml"
KEYS = ("summary", "envs", "references")  # of a file of the user's own
ADVICE = 'A file of a suite has envs = ["CartPole-v1", "MiniGrid-Empty-*"] and summary = "...".'


class Level(NamedTuple):
    """An environment of a suite: a registered name, or a value; and the fields that the suite gives it."""

    env: str | Env
    fields: dict[str, Any]


class Suite(NamedTuple):
    """A set of environments. `references` are returns for normalization, as in `training/references.py`."""

    name: str
    summary: str
    levels: list[Level]
    references: dict[str, dict[str, float]]
    file: Path | None = None  # of the user's own, which describes it

    @property
    def key(self) -> str:
        """A text that no other suite has: the path of its file, or the name of one that comes with shoal."""
        return str(self.file.resolve()) if self.file else self.name

    def wrapped(self, wrap: Callable[[str], str | Env]) -> "Suite":
        """Return the suite with wrappers around its environments. Raises ValueError where a level has fields."""
        if fields := next((level.fields for level in self.levels if level.fields), None):
            raise ValueError(f"--wrap is for environments without fields, and the suite {self.name} sets {fields}.")
        return self._replace(levels=[Level(wrap(str(level.env)), {}) for level in self.levels])


def suites() -> dict[str, dict[str, Any]]:
    """The suites that come with shoal, by name: a dict with the `summary` and the names of the `envs` of each."""
    known = _known()
    return {
        name: {"summary": table["summary"], "envs": matching(table["envs"], ENVS, name)}
        for name, table in known.items()
    }


def suite_of(suite: Path | str, *, trust_source: bool = False) -> Suite:
    """Return a suite by its name or its file.

    Raises UnknownNameError for an unknown name, FileNotFoundError for a missing file, ValueError for one without
    environments or of another form, and UntrustedError for one that names code which must not run without consent.
    """
    if is_file(suite):
        return _from_file(Path(suite), trust_source)
    known, name = _known(), str(suite)
    if name not in known:
        raise unknown_name("suite", name, known, f"Suites are: {', '.join(known)}. One of your own is a {SUFFIX} file.")
    table = known[name]
    levels = [Level(ENVS[env].name, {}) for env in matching(table["envs"], ENVS, name)]
    return Suite(name, table["summary"], levels, {})


def is_file(suite: Path | str) -> bool:
    """Return whether a suite is given as a file."""
    return isinstance(suite, Path) or suite.endswith(SUFFIX) or "/" in suite


def matching(names: Sequence[str], known: Iterable[str], where: str) -> list[str]:
    """Return the names with patterns in them replaced by the known names that match, in the order of `known`.

    Raises ValueError for a pattern that matches nothing.
    """
    known, found, dropped = list(known), dict[str, None](), set[str]()
    for name in names:
        if not any(mark in name for mark in "*!"):
            found[name] = None
            continue
        matched = fnmatch.filter(known, name.removeprefix("!"))
        if not matched:
            near = did_you_mean(name.strip("!*"), known)
            raise ValueError(f"{where}: the pattern {name!r} matches no environment.{near}")
        if name.startswith("!"):
            dropped |= {*matched}
        else:
            found |= dict.fromkeys(matched)
    return [name for name in found if name not in dropped]


def start_error(env: Env) -> str:
    """Return the error that an environment raises at its start, such as a missing file; "" if there is none."""
    try:
        jax.eval_shape(env.init, make_key(0))
    except ValueError as error:
        return str(error)
    return ""


def level_label(level: Level) -> str:
    """Return the name of a level in messages: that of its environment, and the fields that the suite gives it."""
    name = level.env.rpartition(":")[2] if isinstance(level.env, str) and ".py:" in level.env else str(level.env)
    return " ".join([name, *(f"{field}={value}" for field, value in level.fields.items())])


def _known() -> dict[str, dict[str, Any]]:
    return tomllib.loads((Path(__file__).parent / "suites.toml").read_text())


def _from_file(path: Path, trust_source: bool) -> Suite:
    if not path.is_file():
        known = did_you_mean(path.stem, _known())
        raise FileNotFoundError(f"{path} does not exist: --suite needs a file, or the name of a suite.{known}")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # of the encoding too
        raise ValueError(f"{path} is no TOML: {error}. {ADVICE}") from error
    if unknown := [key for key in table if key not in KEYS]:
        raise ValueError(f"{path}: {unknown[0]!r} is not known.{did_you_mean(unknown[0], KEYS)} {ADVICE}")
    entries, references = table.get("envs", []), table.get("references", {})
    if not isinstance(entries, list) or not entries:
        raise ValueError(f"{path} names no environment. {ADVICE}")
    check_references(references, path)
    levels = [level for entry in entries for level in _levels(entry, path, trust_source)]
    dropped = {name for name in entries if isinstance(name, str) and name.startswith("!")}
    kept = matching([*(str(level.env) for level in levels), *dropped], ENVS, str(path))
    levels = list({level_label(level): level for level in levels if level.env in kept}.values())
    if not levels:
        raise ValueError(f"{path} names no environment: its patterns with ! leave all of them out.")
    return Suite(path.stem, str(table.get("summary", "")), levels, references, path)


def _levels(entry: Any, path: Path, trust_source: bool) -> Iterator[Level]:
    """Yield the environments of an entry of `envs`: a name, a pattern, or a table of `env` and fields."""
    fields = {}
    if isinstance(entry, Mapping) and isinstance(entry.get("env"), str):
        fields = {name: value for name, value in entry.items() if name != "env"}
        entry = entry["env"]
    if not isinstance(entry, str) or (fields and any(mark in entry for mark in "*!")):
        raise ValueError(
            f'{path}: {entry!r} is no environment. Write a name, as in "CartPole-v1", or a name with fields, as in '
            f'{{ env = "CartPole-v1", gravity = 5.0 }}.'
        )
    if entry.startswith("!"):
        return
    for name in matching([_with_folder(entry, path)], ENVS, str(path)):
        if source := source_of(name):
            import_source(source) if trust_source else check_consent(source)
        try:
            ENVS[name].build(**fields)
        except (UnknownNameError, TypeError, ValueError) as error:
            raise type(error)(f"{path}: {error}") from error
        yield Level(name if ":" in name else ENVS[name].name, fields)


def _with_folder(name: str, path: Path) -> str:
    """Return `file.py:Class` with the path of the file, which lies beside that of the suite; others as they are."""
    file, colon, cls = name.rpartition(":")
    return f"{(path.parent / file).resolve()}:{cls}" if colon and file.endswith(".py") else name
