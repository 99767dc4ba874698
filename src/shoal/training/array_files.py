"""Write arrays to an .npz file, and compute its SHA-256 at the same time.

`np.savez` copies every array in pieces, and to hash the complete file it must be read again. Here the bytes go from the
array's memory to the file, while a second thread computes the hash. `reading.arrays_in` and `np.load` read the file.
"""

import hashlib
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> str:
    """Write arrays of numbers by name to an .npz file without compression, and return the SHA-256 of the file."""
    with open(path, "wb") as file, ThreadPoolExecutor(1) as pool:
        hashed: Any = _Hashed(file, pool)
        with zipfile.ZipFile(hashed, "w") as archive:
            for name, leaf in arrays.items():
                array = np.asarray(leaf, order="C")
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    header = np.lib.format.header_data_from_array_1_0(array)
                    np.lib.format.write_array_header_1_0(entry, header)
                    entry.write(bytes_of(array))
    return hashed.digest.hexdigest()


def bytes_of(array: np.ndarray) -> memoryview:
    """Return the bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data


class _Hashed:
    """A file that is only appended to. The thread of a pool computes its SHA-256, complete when the pool has ended.

    It has no position, so `zipfile` writes the size of an array after the array and does not go back.
    """

    def __init__(self, file: Any, pool: ThreadPoolExecutor) -> None:
        self.digest = hashlib.sha256()
        self.flush = file.flush
        self._file, self._pool = file, pool

    def write(self, data: Any) -> int:
        self._pool.submit(self.digest.update, data)  # the data must not change until then
        return self._file.write(data)
