"""Files that are still there, and whole, after a power loss."""

import os
import sys
from collections.abc import Callable
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


def replace(target: Path, write: Callable[[Path], object]) -> None:
    """Write a file beside its place, then move it there: a reader, and the next start, meet the old one or the new."""
    beside = target.with_name(f".{target.name}.partial")
    write(beside)
    flush(beside)
    os.replace(beside, target)
    flush(target.parent)
