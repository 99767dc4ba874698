"""The file and line of a user's own code that an error message names: of a method or field, or of a raised error.

Code of the user's own is all that is neither part of shoal nor of an installed package nor of Python itself.
"""

import inspect
import linecache
import os
import random
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

SHOAL = Path(__file__).resolve().parents[1]
INSTALLED = tuple(Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
TRACEBACK = "Traceback (most recent call last)"
LONGEST_TEXT = 400  # characters of another library's error that a message repeats


def is_installed(file: Path) -> bool:
    """Return whether a file belongs to Python or to an installed package."""
    return any(file.is_relative_to(folder) for folder in INSTALLED) or "dist-packages" in file.parts


def is_users_file(name: str) -> bool:
    """Return whether code with this file name is the user's own. Code of a notebook is, though it has no file."""
    if name.startswith("<") and not name.startswith("<ipython"):
        return False  # such as the methods that dataclasses generate
    file = Path(name).absolute()
    return not (file.is_relative_to(SHOAL) or is_installed(file))


def file_of(cls: type) -> str:
    """Return the name of the file that defines a class; empty where there is none, as in a notebook."""
    return getattr(sys.modules.get(cls.__module__), "__file__", None) or ""


def is_users_class(cls: type) -> bool:
    """Return whether a class is the user's own."""
    file = file_of(cls)
    return is_users_file(file) if file else cls.__module__ == "__main__"


def line_of(cls: type, name: str = "") -> str:
    """Return `my_env.py:23`, where the user's own class defines a method, a property or a field of this name.

    The line of the class itself where it does not define it; empty for a class that is not the user's own.
    """
    for base in cls.__mro__:
        code = _code(base.__dict__.get(name))
        if code is not None and is_users_file(code.co_filename):
            return shown(code.co_filename, _line_of_def(code))
        if code is None and name in base.__dict__ and is_users_class(base) and (line := _line_in_class(base, name)):
            return line
    return _line_in_class(cls, name) if is_users_class(cls) else ""


def line_of_function(function: Callable) -> str:
    """Return `my_losses.py:12`, where a function of the user's own is defined; empty for any other."""
    code = _code(function)
    return shown(code.co_filename, _line_of_def(code)) if code and is_users_file(code.co_filename) else ""


def line_raised(error: BaseException) -> str:
    """Return `my_env.py:23`, the last line of the user's own in the traceback of an error; empty where there is none.

    For a SyntaxError of a file of the user's own it is the line that Python cannot read. A callback of JAX raises
    elsewhere: its traceback is in the text of the error.
    """
    if isinstance(error, SyntaxError) and error.filename and is_users_file(error.filename):
        return shown(error.filename, error.lineno or 1)
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if TRACEBACK in str(error):
        lines = [(name, int(line)) for name, line in re.findall(r'File "(.+?)", line (\d+)', str(error))]
    return next((shown(name, line) for name, line in reversed(lines) if is_users_file(name)), "")


def shown(file: str, line: int) -> str:
    """Return `my_env.py:23` for a message: a path relative to the working folder, if the file lies in it."""
    return f"{short_path(Path(file))}:{line}" if os.path.isfile(file) else f"line {line}"  # of a notebook


def short_path(file: Path) -> Path:
    """Return a path relative to the working folder, if the file lies in it; otherwise the whole path."""
    path, folder = file.resolve(), Path.cwd()
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def in_short(error: BaseException) -> str:
    """Return `TypeError: what it says`, with the first paragraph of the text of an error, in one line."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    if TRACEBACK in text:  # of a callback: the last line says what it raised
        return text.strip().splitlines()[-1][:LONGEST_TEXT]
    text = " ".join(text.split("\n\n")[0].split())
    text = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def global_random_states() -> tuple[int, int]:
    """Return a hash of the state of Python's `random`, and one of that of `np.random`; all callers share these two."""
    state: Any = np.random.get_state(legacy=True)
    return hash(random.getstate()), hash((state[1].tobytes(), *state[2:]))


def line_that_samples(call: Callable[[], object]) -> str:
    """Call a function and return the first line of the user's own that calls Python's `random`; empty if none."""
    found: list[str] = []
    generator = random.random.__self__

    def watch(frame: FrameType, event: str, called: Any) -> None:
        by_python = event == "call" and frame.f_code.co_filename == random.__file__
        if not by_python and not (event == "c_call" and getattr(called, "__self__", None) is generator):
            return
        caller = frame.f_back if by_python else frame
        if caller is not None and is_users_file(caller.f_code.co_filename):
            found.append(shown(caller.f_code.co_filename, caller.f_lineno))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found[0] if found else ""


def users_functions(value: Any) -> Iterator[CodeType]:
    """Yield the code of every function of the user's own that a field of a value holds."""
    for content in vars(value).values():
        code = _code(content) if callable(content) and not isinstance(content, type) else None
        if code is not None and is_users_file(code.co_filename):
            yield code


def _code(found: Any) -> CodeType | None:
    """Return the code of a function, method or property; None for anything else."""
    found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    return getattr(inspect.unwrap(found), "__code__", None) if callable(found) else None


def _line_of_def(code: CodeType) -> int:
    """Return the line of `def`, below the decorators of a function."""
    first = code.co_firstlineno
    lines = range(first, first + 10)
    return next((n for n in lines if re.match(r"\s*def\b", linecache.getline(code.co_filename, n))), first)


def _line_in_class(cls: type, name: str) -> str:
    """Return the line of `name: ...` or `name = ...` in the body of a class, or that of `class`; empty if unknown."""
    try:
        lines, first = inspect.getsourcelines(cls)
    except (OSError, TypeError, SyntaxError):
        return shown(file_of(cls), 1) if file_of(cls) else ""
    for pattern in (rf"\s+{re.escape(name)}\s*[:=]", rf"\s*class\s+{cls.__name__}\b"):
        for i, line in enumerate(lines):
            if re.match(pattern, line):
                return shown(inspect.getsourcefile(cls) or "", first + i)
    return shown(inspect.getsourcefile(cls) or "", first)
