"""Save and load demonstrations as .npz files of named arrays. Loading never unpickles."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.tree_util import SequenceKey

from shoal.core.kinds import checked_kinds
from shoal.rollouts.demonstrations import Demonstrations
from shoal.specs.disk import replace
from shoal.training.host import host_bytes
from shoal.training.reading import read_arrays

PARTS = ("obs", "action", "mask")


@checked_kinds()
def save_demonstrations(path: Path | str, demonstrations: Demonstrations) -> Path:
    """Write demonstrations to an .npz file and return its path.

    Arrays have names such as `obs/image`, or `obs/[0]` for the first part of a tuple. Raises ValueError for a path
    that does not end in .npz.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"{path} must end in .npz.")
    arrays: dict[str, Any] = {}
    for part in PARTS:
        for keys, leaf in jax.tree_util.tree_flatten_with_path(getattr(demonstrations, part))[0]:
            arrays["/".join([part, *map(_name, keys)])] = np.asarray(leaf)
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(beside: Path) -> None:
        with open(beside, "wb") as file:
            np.savez_compressed(file, **arrays)

    replace(path, write)
    return path


@checked_kinds()
def load_demonstrations(path: Path | str) -> Demonstrations:
    """Read a file of `save_demonstrations`. Raises FileNotFoundError, or ValueError for another kind of file."""
    parts: dict[str, Any] = dict.fromkeys(PARTS)
    try:
        for name, array in read_arrays(Path(path), host_bytes()).items():
            _put(parts, name.split("/"), array)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} does not exist: `shoal record RUN --out {path}` writes one.") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} holds no demonstrations: {error}") from error
    if parts["obs"] is None or parts["action"] is None or set(parts) != set(PARTS):
        raise ValueError(f"{path} holds no demonstrations: it has {', '.join(parts)}, not obs and action.")
    return Demonstrations(**{part: _with_tuples(tree) for part, tree in parts.items()})


def _name(key: Any) -> str:
    return f"[{key.idx}]" if isinstance(key, SequenceKey) else str(key.key)


def _with_tuples(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    indices = [f"[{i}]" for i in range(len(tree))]
    if set(tree) == set(indices):
        return tuple(_with_tuples(tree[index]) for index in indices)
    return {name: _with_tuples(part) for name, part in tree.items()}


def _put(tree: dict[str, Any], names: list[str], array: np.ndarray) -> None:
    for name in names[:-1]:
        tree[name] = tree.get(name) or {}
        tree = tree[name]
    tree[names[-1]] = array
