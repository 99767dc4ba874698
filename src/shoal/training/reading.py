"""Read files that may be damaged or come from anybody: only regular files, sizes checked first, no pickles.

Every file of a run folder is read with these functions. A pipe or a device is never opened, an archive is not unpacked
before its declared size is checked, and all errors in a file become one `DamagedError` that names the file.
"""

import json
import math
import os
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from shoal.core.errors import DamagedError
from shoal.training.host import host_bytes
from shoal.training.shapes import misfit

MOST_JSON = 256 * 2**20  # bytes of a JSON file; the summary of a million members has about 150 MB
MOST_UNPACKED = 64 * 2**20  # bytes that a compressed archive may unpack to by default


def read_json(path: Path, shape: Any = object, advice: str = "") -> Any:
    """Return the data of a JSON file, which must have this structure (see `shapes.misfit`).

    Raises FileNotFoundError if there is none, and DamagedError, ending in the advice, for any other content.
    """
    with opened(path, advice) as file:
        if (size := size_of(file)) > MOST_JSON:
            raise damaged(path, f"its {size:,} bytes are more than {MOST_JSON:,}", advice)
        text = file.read(MOST_JSON)
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"it is no JSON ({error})", advice) from error
    if reason := misfit(data, shape):
        raise damaged(path, reason, advice)
    return data


def read_arrays(path: Path, most: int = MOST_UNPACKED, advice: str = "") -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file by name. A compressed one may unpack to at most `most` bytes.

    Raises FileNotFoundError if there is none, and DamagedError, ending in the advice, for any other content.
    """
    with opened(path, advice) as file:
        return arrays_in(file, path, most, advice)


def arrays_in(file: BufferedReader, path: Path, most: int = MOST_UNPACKED, advice: str = "") -> dict[str, np.ndarray]:
    """Return the arrays of an open .npz file by name. `path` is for error messages."""
    size = size_of(file)
    most = min(max(most, size), host_bytes())
    try:
        if size > most:
            raise ValueError(f"its {size:,} bytes are more than the {most:,} of this host's memory")
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if (declared := sum(member.file_size for member in members)) > most:
                raise ValueError(f"it would unpack to {declared:,} bytes, more than the {most:,} that it may")
            return {_name(member): _read_array(archive, member) for member in members}
    except Exception as error:  # zipfile and NumPy raise many kinds of errors for bytes that are no archive of arrays
        raise damaged(path, str(error), advice) from error


@contextmanager
def opened(path: Path, advice: str = "") -> Iterator[BufferedReader]:
    """Open a regular file for reading.

    Raises FileNotFoundError if there is none, PermissionError if it may not be read, and DamagedError for a
    folder, a pipe or a device, which is not opened.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # NONBLOCK: it may become a pipe
    try:
        _check_regular(path, os.stat(path), advice)
        handle = os.open(path, flags)
    except (FileNotFoundError, PermissionError):
        raise
    except OSError as error:
        raise damaged(path, str(error.strerror), advice) from error
    with open(handle, "rb") as file:
        _check_regular(path, os.fstat(handle), advice)
        try:
            yield file
        except OSError as error:
            raise damaged(path, str(error.strerror), advice) from error


def size_of(file: BufferedReader) -> int:
    """Return the size of an open file in bytes."""
    return os.fstat(file.fileno()).st_size


def damaged(path: Path, reason: str, advice: str = "") -> DamagedError:
    """Return the error for a damaged file."""
    return DamagedError(f"{path} is damaged or was not written by shoal: {reason.rstrip('.')}. {advice}".strip())


def _check_regular(path: Path, status: os.stat_result, advice: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
        raise damaged(path, f"it is {kind}, not a file", advice)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _name(member: zipfile.ZipInfo) -> str:
    if not member.filename.endswith(".npy"):
        raise ValueError(f"{member.filename!r} in it is no array")
    return member.filename.removesuffix(".npy")


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Read one array. Its header is compared with the size of its entry before memory is allocated."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in readers:
            raise ValueError(f"{member.filename} has the unknown version {version}")
        shape, _, dtype = readers[version](file)
        if dtype.hasobject or any(size < 0 for size in shape):
            raise ValueError(f"{member.filename} is of {dtype}{list(shape)}, which is no array of numbers")
        if file.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError(f"{member.filename} has {member.file_size:,} bytes, which {dtype}{list(shape)} has not")
    with archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
