"""One writer in a run folder at a time: a lock that the operating system takes back however a process ends."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows, where nobody is kept out
    fcntl = None

LOCK = ".lock"  # stays behind: what counts is not the file but the lock on it


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep every other run, of this process or another, out of a folder. Raises FileExistsError, saying who is in it.

    A process that is killed gives its lock back. File systems without locks keep nobody out.
    """
    lock = folder / LOCK
    if os.path.lexists(lock) and not lock.is_file():
        raise FileExistsError(f"{lock} is no file, and so cannot be locked: delete it.")
    with open(lock, "a+") as file:
        if not _is_mine(file):
            raise FileExistsError(
                f"{folder} is being written by another run ({_holder(file)}): wait for it to end, or stop it; "
                f"for a new run choose another --name."
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        yield


def _is_mine(file: Any) -> bool:
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
