"""Write files so that they are complete on disk even after a power loss."""

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PARTIAL = ".partial"  # the end of the name of a temporary file


def flush(path: Path) -> None:
    """Wait until the content of a file, or the list of files of a folder, is on the disk (fsync)."""
    if sys.platform == "win32":
        return  # Windows can flush only files that are open for writing, and no folders
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def named_errors(target: Path) -> Iterator[None]:
    """Raise errors of the disk, such as a full one, with the name of the file, which Python's errors may lack."""
    try:
        yield
    except ConnectionError:
        raise  # another process of the run is lost
    except OSError as error:
        raise OSError(error.errno, f"could not be written: {error.strerror or error}", str(target)) from error


def replace(target: Path, write: Callable[[Path], object]) -> None:
    """Write a temporary file with `write(path)`, then rename it to `target`: readers see the old file or the new one.

    If it cannot be written, the temporary file is removed. Several processes may write the same target at once, also
    from different machines: each has a temporary file of its own.
    """
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}{PARTIAL}")
    try:
        with named_errors(target):
            write(temporary)
            flush(temporary)
            os.replace(temporary, target)
            flush(target.parent)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def tidy(folder: Path) -> None:
    """Remove temporary files of `replace` that a killed process left. Only while no other process writes there."""
    for left in folder.glob(f".*.{'[0-9a-f]' * 12}{PARTIAL}"):
        with suppress(OSError):
            left.unlink()
