"""Files that are still there, and whole, after a power loss."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def flush(path: Path) -> None:
    """Return when the content of a file, or the list of files of a folder, is on the disk."""
    if sys.platform == "win32":
        return  # flushes only what a file's writer holds open, and no folders
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def named_errors(target: Path) -> Iterator[None]:
    """Errors of the disk, such as one that is full, say which file could not be written; Python's do not always."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"could not be written: {error.strerror or error}", str(target)) from error


def replace(target: Path, write: Callable[[Path], object]) -> None:
    """Write a file beside its place, then move it there: a reader, and the next start, meet the old one or the new.

    Where it cannot be written, nothing new is left behind.
    """
    beside = target.with_name(f".{target.name}.partial")
    try:
        with named_errors(target):
            write(beside)
            flush(beside)
            os.replace(beside, target)
            flush(target.parent)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
