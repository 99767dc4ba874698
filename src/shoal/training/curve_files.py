"""The files of the learning curves of a run: `curves.npz`, and for a long run `curves.tail` with its newest records.

To write `curves.npz` whole after every record would take a time that grows with the number of records. So a long file
is written again only when the records have become 1/8 more. The records in between are appended to `curves.tail`: a
line of JSON with the columns and the number of the first record, then the records, each with the same number of bytes.
At its end a run writes `curves.npz` whole and removes `curves.tail`.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shoal.specs.disk import named_errors, replace
from shoal.training import reading

NPZ, TAIL = "curves.npz", "curves.tail"
SHORT = 1_000_000  # bytes of a curves.npz that is written whole after every record
GROWTH = 1 / 8  # the share of a longer one that may be in the tail
LONGEST_HEADER = 10**6  # bytes


def write_whole(folder: Path, columns: Mapping[str, Any], *, compressed: bool = False) -> None:
    """Write all records [R] or [R, M] of every column to `curves.npz`, and remove the tail."""
    save = np.savez_compressed if compressed else np.savez

    def write(path: Path) -> None:
        with open(path, "wb") as file:
            save(file, **columns)

    replace(folder / NPZ, write)
    (folder / TAIL).unlink(missing_ok=True)


def append(folder: Path, row: np.ndarray, number: int) -> None:
    """Append record `number` to the tail, which begins with it if there is none yet. `row` is as `as_rows` gives it."""
    path = folder / TAIL
    with named_errors(path), open(path, "ab") as file:
        if not file.tell():
            kinds = {name: row.dtype[name] for name in row.dtype.names or ()}
            columns = [[name, kind.base.str, list(kind.shape)] for name, kind in kinds.items()]
            file.write(json.dumps({"first": number, "columns": columns}).encode() + b"\n")
        file.write(row.tobytes())
        file.flush()
        os.fsync(file.fileno())


def read(folder: Path, advice: str = "") -> dict[str, np.ndarray]:
    """Return all records of every column: those of `curves.npz`, then those of the tail that it does not have.

    Raises FileNotFoundError without a `curves.npz`, and DamagedError, ending in the advice, for damaged files.
    """
    columns = reading.read_arrays(folder / NPZ, advice=advice)
    try:
        with reading.opened(folder / TAIL, advice) as file:
            first, rows = _tail_in(file, folder / TAIL, advice)
    except FileNotFoundError:
        return columns
    steps = columns.get("env_steps", np.zeros(0))
    count = len(steps) if steps.ndim else 0
    if set(rows.dtype.names or ()) != set(columns) or first > count:
        raise reading.damaged(folder / TAIL, f"its records do not continue those of {NPZ}", advice)
    try:
        return {name: np.concatenate([column, rows[name][count - first :]]) for name, column in columns.items()}
    except ValueError as error:  # other shapes
        raise reading.damaged(folder / TAIL, str(error), advice) from error


def as_rows(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return columns [R] and [R, M] as one structured array [R], whose fields are in the order of the columns."""
    length = len(next(iter(columns.values())))
    rows = np.zeros(length, [(name, column.dtype, column.shape[1:]) for name, column in columns.items()])
    for name, column in columns.items():
        rows[name] = column
    return rows


def _tail_in(file: Any, path: Path, advice: str) -> tuple[int, np.ndarray]:
    """Return (the number of the first record, the records) of an open tail. A last one that is cut off is left out."""
    try:
        header = json.loads(file.readline(LONGEST_HEADER))
        kinds = [(str(name), _number(kind), tuple(map(int, shape))) for name, kind, shape in header["columns"]]
        row, first = np.dtype(kinds), int(header["first"])
        data = file.read(reading.size_of(file))
        return first, np.frombuffer(data, row, count=len(data) // row.itemsize)
    except (ValueError, TypeError, KeyError, ZeroDivisionError) as error:
        raise reading.damaged(path, f"its first line does not describe its records ({error})", advice) from error


def _number(kind: str) -> np.dtype:
    if (found := np.dtype(str(kind))).kind not in "biuf":
        raise ValueError(f"{kind} is no kind of number")
    return found
