"""A lock on a run folder, so that only one run writes to it. The operating system frees it when the process ends."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from shoal.specs.disk import named_errors, tidy

try:
    import fcntl
except ImportError:  # Windows: there is no lock
    fcntl = None

LOCK = ".lock"  # the file stays after a run; only a lock on it says that a run is writing


class Claimed(FileExistsError):
    """Another run holds the lock of a folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. Raises Claimed, naming the process, where another run holds it.

    The lock also works between runs of one process. It is freed when a process is killed; temporary files that such a
    process left in the folder are removed. On file systems without locks nothing is locked.
    """
    lock = folder / LOCK
    if os.path.lexists(lock) and not lock.is_file():
        raise FileExistsError(f"{lock} is no file, and so cannot be locked: delete it.")
    with open(lock, "a+") as file:
        if not _is_locked_by_us(file):
            raise Claimed(
                f"{folder} is being written by another run ({_holder(file)}): wait for it to end, or stop it; "
                f"for a new run choose another --name."
            )
        with named_errors(lock):
            os.truncate(file.fileno(), 0)
            os.write(file.fileno(), f"process {os.getpid()} on {platform.node()}".encode())
        tidy(folder)
        yield


def is_claimed(folder: Path) -> bool:
    """Return whether another run holds the lock of a folder."""
    if not (folder / LOCK).is_file():
        return False
    with open(folder / LOCK, "a+") as file:
        return not _is_locked_by_us(file)  # closing the file frees it again


def _is_locked_by_us(file: Any) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # no locks on this file system
    return True


def _holder(file: Any) -> str:
    file.seek(0)
    with suppress(OSError):
        return file.read() or "just begun"
    return "unknown"
