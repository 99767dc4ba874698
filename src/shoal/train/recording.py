"""Demonstrations as files: arrays by name, nothing that is unpickled."""

from pathlib import Path
from typing import Any

import numpy as np

from shoal.rollout.demonstrations import Demonstrations
from shoal.train.checkpoint import leaves
from shoal.train.folder import read_arrays

PARTS = ("obs", "action", "mask")


def save_demonstrations(path: Path | str, given: Demonstrations) -> Path:
    """Write an .npz with a name for every part, such as `obs/image`. Raises ValueError for another ending."""
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"{path} must end in .npz.")
    arrays: dict[str, Any] = {}
    for part in PARTS:
        for name, leaf in leaves(getattr(given, part)).items():
            arrays[f"{part}/{name}".rstrip("/")] = np.asarray(leaf)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)
    return path


def load_demonstrations(path: Path | str) -> Demonstrations:
    """Read what `save_demonstrations` wrote. Raises FileNotFoundError, and ValueError for another kind of file."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} does not exist: `shoal record RUN --out {path}` writes one.")
    parts: dict[str, Any] = dict.fromkeys(PARTS)
    try:
        for name, array in read_arrays(Path(path)).items():
            _put(parts, name.split("/"), array)
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path} holds no demonstrations: {error}") from error
    if parts["obs"] is None or parts["action"] is None or set(parts) != set(PARTS):
        raise ValueError(f"{path} holds no demonstrations: it has {', '.join(parts)}, not obs and action.")
    return Demonstrations(**parts)


def _put(tree: dict[str, Any], names: list[str], array: np.ndarray) -> None:
    for name in names[:-1]:
        tree[name] = tree.get(name) or {}
        tree = tree[name]
    tree[names[-1]] = array
