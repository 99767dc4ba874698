"""Checkpoints as NumPy reads them, without the library."""

from itertools import count, takewhile
from pathlib import Path

import numpy as np


def arrays_of(path, *parts):
    """The arrays of parts of a checkpoint by `PART/LEAF`. Those of several processes are joined."""
    found = {}
    for part in parts:
        names = [f"{part}.npz", *takewhile(lambda name: (Path(path) / name).exists(), _of_others(part))]
        files = [np.load(Path(path) / name) for name in names]
        assert all(file.files == files[0].files for file in files)
        for leaf in files[0].files:
            rows = [file[leaf] for file in files]
            found[f"{part}/{leaf}"] = np.concatenate(rows) if len(rows) > 1 else rows[0]
    return found


def _of_others(part):
    return (f"{part}-{number}.npz" for number in count(1))
