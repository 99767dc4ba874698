"""Check an environment of the user's own before a run: the whole `check_env`, once for each content of its files.

One that Python steps is checked too, whoever wrote it: nothing else compares what it returns with its spaces.

A key stands for what was checked: the content of the files of its classes and functions and of the user's own files
that these import, its static fields, and the versions of shoal and JAX. The keys of environments that pass are kept as
empty files beside the compiled programs, so the check costs nothing the next time. A module is seen where an `import`
statement names it; one that is loaded with `importlib` is not part of the key.
"""

import ast
import contextlib
import hashlib
import importlib.util
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import jax

import shoal
from shoal.core.checks import check_env
from shoal.core.env import Env
from shoal.core.host_env import HostEnv
from shoal.core.user_code import file_of, is_users_class, is_users_file, users_functions
from shoal.core.wrappers.base import Wrapper

_passed: dict[str, type] = {}  # keys, with their classes: a class without a file counts by its identity


def check_user_env(env: Env) -> None:
    """Check those of an environment and its inner environments that have code of the user's own, inner ones first.

    One that passed before is not checked again. Raises CheckError.
    """
    for part in _own_parts(env):
        key = _key(part)
        if key not in _passed and not _is_kept(key):
            check_env(part)
        remember(part)


def remember(env: Env) -> None:
    """Remember that an environment passed: in this process and, if JAX caches programs on disk, beside them."""
    key = _key(env)
    _passed[key] = type(env)
    folder = _folder()
    if folder is not None and file_of(type(env)):
        with contextlib.suppress(OSError):  # a cache that cannot be written is no mistake of the run
            folder.mkdir(parents=True, exist_ok=True)
            (folder / key).touch()


def _own_parts(env: Env) -> Iterator[Env]:
    if isinstance(env, Wrapper):
        yield from _own_parts(env.env)
    if is_users_class(type(env)) or any(users_functions(env)) or isinstance(env, HostEnv):
        yield env


def _key(env: Env) -> str:
    cls = type(env)
    digest = hashlib.sha256(f"{shoal.__version__} {jax.__version__} {jax.tree.structure(env)}".encode())
    files = {file_of(part) for part in cls.__mro__ if is_users_class(part)}
    files |= {code.co_filename for code in users_functions(env)}
    files |= {*env.code} if isinstance(env, HostEnv) else set()
    for file in sorted(files | imported_files(files)):
        content = Path(file).read_bytes() if file and Path(file).is_file() else str(id(cls)).encode()
        digest.update(content)
    return digest.hexdigest()


def imported_files(files: Collection[str]) -> set[str]:
    """Return the user's own files, of modules that are loaded, that some files import directly or through others."""
    modules = {file: module for module in [*sys.modules.values()] if (file := getattr(module, "__file__", None))}
    found: set[str] = set()
    left = [file for file in files if file in modules]
    while left:
        file = left.pop()
        loaded = (sys.modules.get(name) for name in _imported_names(Path(file), modules[file].__package__ or ""))
        of_user = {name for module in loaded if (name := getattr(module, "__file__", None)) and is_users_file(name)}
        left += of_user - found
        found |= of_user
    return found


def _imported_names(file: Path, package: str) -> Iterator[str]:
    """Yield the names that the imports in a file may load: `a`, `a.b` and `a.b.c` for `from a.b import c`."""
    try:
        statements = ast.walk(ast.parse(file.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return  # the file is gone, or has been changed since it was imported
    for found in statements:
        names: list[str] = []
        if isinstance(found, ast.Import):
            names = [alias.name for alias in found.names]
        elif isinstance(found, ast.ImportFrom) and (package or not found.level):
            start = importlib.util.resolve_name("." * found.level + (found.module or ""), package)
            names = [f"{start}.{alias.name}" for alias in found.names]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:n]) for n in range(1, len(parts) + 1))


def _is_kept(key: str) -> bool:
    folder = _folder()
    return folder is not None and (folder / key).is_file()


def _folder() -> Path | None:
    """Return where keys are kept; None where JAX caches no programs on disk."""
    settings = jax.config.values
    folder = settings["jax_compilation_cache_dir"] if settings["jax_enable_compilation_cache"] else None
    return Path(folder) / "checked" if folder else None
