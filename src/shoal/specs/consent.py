"""Consent to run code that a file of data names: a spec, a preset, or the values that a search has found.

Such a file may come from anybody, and what it says of itself proves nothing, a hash of the code included. The code that
it names is imported only

- where it is shoal's, or that of a package which registers agents, environments or selectors as entry points;
- where its module is loaded already: the user imported it, or named it on this command;
- where the user trained with it on this machine before, and it has not changed: `remember` keeps a mark of it in the
  folder of the user's programs, outside of all run folders;
- with `trust_source`, the user's word for this command.
"""

import contextlib
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from shoal.core.errors import UntrustedError
from shoal.core.registry import REGISTRIES, import_file, import_module, loaded_file
from shoal.core.user_code import is_installed
from shoal.interop.sources import gymnasium

UNNAMED = "you have neither named on this command nor trained with on this machine"
HOW = "use --trust-source, or trust_source=True in Python"


def has_consent(source: str) -> bool:
    """Return whether a Python file or a module may be imported, though only a file of data names it."""
    if source.endswith(".py"):
        return loaded_file(Path(source)) is not None or _is_marked(source)
    return source in sys.modules or is_installed_part(source) or not _exists(_top(source)) or _is_marked(source)


def is_installed_part(source: str) -> bool:
    """Return whether a module is shoal's, or of an installed package that registers agents or environments."""
    plug_ins = (point for registry in REGISTRIES for point in entry_points(group=registry.group))
    return not source.endswith(".py") and _top(source) in ["shoal", *(_top(point.module) for point in plug_ins)]


def check_consent(source: str) -> None:
    """Raise UntrustedError for a Python file or a module that must not be imported without the user's consent."""
    if not has_consent(source):
        raise UntrustedError(f"the code of {source}, which {UNNAMED}, is not executed without your consent: {HOW}.")


def source_of(name: str) -> str:
    """Return the Python file or the module that a name of an agent, an environment, a class or a function needs.

    Empty for a registered name.
    """
    of_gymnasium = name.removeprefix("gymnasium/")
    return gymnasium.source_of(of_gymnasium) if of_gymnasium != name else name.rpartition(":")[0]


def import_source(source: str) -> Any:
    """Import a Python file or a module and return it. It is loaded from then on, so it has the user's consent."""
    return import_file(Path(source)) if source.endswith(".py") else import_module(source)


def remember(sources: Iterable[str]) -> None:
    """Remember that the user runs these files and modules, as they are now."""
    with contextlib.suppress(OSError):  # a folder that cannot be written is no mistake of the run
        for source in sources:
            if mark := _mark(source):
                mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                mark.touch()


def _is_marked(source: str) -> bool:
    mark = _mark(source)
    return mark is not None and mark.is_file()


def _mark(source: str) -> Path | None:
    """Return the mark of a source with its present content; None where there is no such file or module."""
    file = Path(source) if source.endswith(".py") else _file_of_module(source)
    if file is None or not file.is_file():
        return None
    digest = hashlib.sha256(f"{file.resolve()}\n".encode())
    digest.update(b"" if is_installed(file) else file.read_bytes())
    return _folder() / digest.hexdigest()


def _top(module: str) -> str:
    return module.split(".")[0]


def _exists(top: str) -> bool:
    """Return whether there is a package or a module of this name; where there is none, importing it only says so."""
    return importlib.util.find_spec(top) is not None


def _file_of_module(name: str) -> Path | None:
    """Return the file of a module, found without importing it or its packages; None where there is none."""
    path, spec, parts = None, None, name.split(".")
    for n in range(len(parts)):
        finders = (finder for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(".".join(parts[: n + 1]), path) for finder in finders)), None)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "shoal" / "consent"
