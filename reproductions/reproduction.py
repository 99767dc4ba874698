"""A reproduction: a source, and parts with published numbers and a function that measures them again.

    def speed(work: Workspace, *, steps: int) -> Measured:
        ...
        return Measured(numbers={"shoal": rate})

    register(
        Reproduction(
            name="gridworld",
            title="...",
            source=Source("...", "Ryan Pegoud, 2023", "https://..."),
            about="...",
            parts=(Part("speed", "...", "...", speed, here={"steps": 10_000}, full={"steps": 1_000_000}, rows=(...)),),
        )
    )

A number or a line has a key, by which what is measured finds its row or chart. So the page can show the published ones
of a part that cannot be measured on this machine.
"""

import ast
import importlib
import importlib.util
import json
import pkgutil
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from reproductions import COMMAND
from shoal.core.errors import unknown_name

SOURCES = "reproductions.sources"
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
GPU = "GPU"
MOST_FOUND = 3  # places that a hint names
PEERS = "make peers, then --python .venv-peers/bin/python"  # the remedy for packages that shoal does not need

Points = tuple[Sequence[float], Sequence[float]]  # x and y of a line
Sizes = Mapping[str, Any]  # arguments of a part's function


class Source(NamedTuple):
    """The document whose numbers are measured again."""

    title: str
    author: str  # and the year
    link: str


class Row(NamedTuple):
    """One number of a part: what the source published, and the key under which it is measured."""

    key: str  # no other row of the reproduction has it
    what: str
    published: float | str | None = None
    unit: str = ""
    group: str = ""  # rows of one group stand together
    where: str = ""  # the hardware of the published number
    main: bool = False  # whether it is also in the table on top of the page


class Chart(NamedTuple):
    """One figure of a part. Measured lines have the key of the chart; published ones are dashed."""

    key: str
    title: str
    x_label: str
    y_label: str
    log_x: bool = False
    log_y: bool = False
    published: Mapping[str, Points] = {}


class Need(NamedTuple):
    """Something without which a part cannot be measured: a package of the Python of `--python`, or a GPU."""

    what: str
    remedy: str = ""  # what to do, such as `pip install torch`

    @classmethod
    def gpu(cls) -> "Need":
        """The need of an accelerator."""
        return cls(GPU)

    def in_words(self) -> str:
        """`the package torch (pip install torch)`."""
        words = "a GPU" if self.what == GPU else f"the package {self.what}"
        return f"{words} ({self.remedy})" if self.remedy else words


class NotMeasured(Exception):
    """Raised by the function of a part that cannot be measured here. The message says what it needs."""


@dataclass(frozen=True)
class Measured:
    """The results of a part. Numbers and lines have the keys of the part's rows and charts."""

    numbers: Mapping[str, float | str | None] = field(default_factory=dict)
    lines: Mapping[str, Mapping[str, Points]] = field(default_factory=dict)  # by chart: the points of each line by name
    notes: Sequence[str] = ()  # sentences below the numbers; parts between backticks are code
    pictures: Mapping[str, str] = field(default_factory=dict)  # files in the part's folder, and what they show
    commands: Mapping[str, str] = field(default_factory=dict)  # what a command is for, and the command
    data: Any = None  # anything else to keep

    def to_json(self) -> dict[str, Any]:
        """All fields, for a JSON file."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Part:
    """A part that is measured on its own: `measure(workspace, **sizes)`."""

    name: str
    title: str
    about: str  # what the source did, what is done here, and errors of the source
    measure: Callable[..., Measured]
    here: Sizes = field(default_factory=dict)  # that two processor cores measure in minutes
    full: Sizes = field(default_factory=dict)  # of the source, where they differ
    rows: Sequence[Row] = ()
    charts: Sequence[Chart] = ()
    needs: Sequence[Need] = ()


@dataclass(frozen=True)
class Reproduction:
    """A document, and the parts of it that are measured again."""

    name: str
    title: str
    source: Source
    about: str  # a few sentences on top of the page
    parts: Sequence[Part]

    def part(self, name: str) -> Part:
        """Return the part of a name. Raises UnknownNameError, with the nearest names, if there is none."""
        for part in self.parts:
            if part.name == name:
                return part
        names = [part.name for part in self.parts]
        raise unknown_name(f"part of {self.name}", name, names, f"Its parts are: {', '.join(names)}.")


_REGISTERED: dict[str, Reproduction] = {}


def register(reproduction: Reproduction) -> None:
    """Make a reproduction known by its name. Raises ValueError if another one has it."""
    if _REGISTERED.setdefault(reproduction.name, reproduction) is not reproduction:
        raise ValueError(f"reproduction {reproduction.name!r} is already registered: choose another name.")


def reproductions() -> dict[str, Reproduction]:
    """Return all reproductions by name."""
    _import_sources()
    return dict(sorted(_REGISTERED.items()))


def find(name: str) -> Reproduction:
    """Return the reproduction of a name. Raises UnknownNameError, with the nearest names, for an unknown one."""
    known = reproductions()
    if name not in known:
        raise unknown_name("reproduction", name, known, f"{_where(name)} There are: {', '.join(known)}.".strip())
    return known[name]


def _where(word: str) -> str:
    """A sentence on where something with this name is measured: a part, an author, a library, an algorithm.

    It is looked up among the parts and the words of the reproductions, then of the scripts in `benchmarks/`.
    """
    known = reproductions()
    if owners := [name for name, found in known.items() if word in (part.name for part in found.parts)]:
        lines = [f"`{COMMAND} {owner} --only {word}`" for owner in owners]
        return f"It is the name of a part: {' or '.join(lines)}."
    in_words = re.compile(rf"(?<!\w){re.escape(_plain(word))}(?!\w)")
    texts = {
        f"{COMMAND} {name}": f"{reproduction.title} {reproduction.source} {reproduction.about}"
        for name, reproduction in known.items()
    }
    scripts = {f"python benchmarks/{file.name}": _about(file) for file in sorted(BENCHMARKS.glob("*.py"))}
    for lines in (texts, scripts):
        found = [f"`{line}`" for line, text in lines.items() if in_words.search(_plain(text))]
        if 0 < len(found) <= MOST_FOUND:
            return f"It is measured by {' or '.join(found)}."
    return ""


def _about(file: Path) -> str:
    """The docstring of a script."""
    return ast.get_docstring(ast.parse(file.read_text())) or ""


def _plain(text: str) -> str:
    """A text in small letters, without accents, with spaces for `-` and `_`."""
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return letters.lower().replace("-", " ").replace("_", " ")


def unmet(needs: Sequence[Need], python: str) -> list[Need]:
    """Return the needs that are not met: packages that this Python does not have, and a GPU where JAX has none."""
    packages = [need.what for need in needs if need.what != GPU]
    missing = set(_not_installed(packages, python)) if packages else set()
    return [need for need in needs if need.what in missing or (need.what == GPU and not _has_gpu())]


def _import_sources() -> None:
    for module in pkgutil.iter_modules(importlib.import_module(SOURCES).__path__, f"{SOURCES}."):
        importlib.import_module(module.name)


def _not_installed(packages: list[str], python: str) -> list[str]:
    if python == sys.executable:
        return [name for name in packages if importlib.util.find_spec(name) is None]
    script = "import importlib.util as u, json, sys; print(json.dumps([n for n in sys.argv[1:] if not u.find_spec(n)]))"
    done = subprocess.run([python, "-c", script, *packages], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"--python {python} cannot run: {done.stderr.strip().splitlines()[-1:] or 'no reason given'}.")
    return json.loads(done.stdout)


def _has_gpu() -> bool:
    import jax

    return jax.default_backend() == "gpu"
