"""Checkpoints: a folder with one array file for each part and a manifest, complete or absent.

A checkpoint of a run has two parts: the learners, with optimizers, replay buffers and environments, and the policies
alone. Each part is read by itself, so that a policy is loaded without its replay buffer.

A checkpoint is written into a temporary directory, flushed to disk, and renamed when complete, so that a process killed
at any moment leaves the previous one intact. Restoring compares the table of leaves and the hash of the file before it
reads any array, answers in one line when they do not fit, and never unpickles.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.errors import CheckpointError, DamagedError
from shoal.core.keys import IMPLEMENTATIONS
from shoal.training.disk import flush, named_errors

FORMAT = 3
MANIFEST = "manifest.json"
# Parts of a checkpoint: members, what acting reads of them, and the run's own arrays. Best policies are one part alone.
LEARNERS, POLICIES, RUN = "learners", "policies", "run"


def save(directory: Path, parts: Mapping[str, Any], spec: str, about: dict[str, Any]) -> None:
    """Write pytrees of arrays by the name of their part, the hash of the run's spec, and JSON-ready facts `about` them.

    Replaces a checkpoint of the same name.
    """
    temporary = directory.with_name(directory.name + ".partial")
    try:
        with named_errors(directory):
            _write(temporary, parts, spec, about)
            _move(temporary, directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # nothing, unless the disk is full


def _write(temporary: Path, parts: Mapping[str, Any], spec: str, about: dict[str, Any]) -> None:
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    manifest = {
        "format": FORMAT,
        "spec": spec,
        "parts": {part: _write_part(file_of(temporary, part), tree) for part, tree in parts.items()},
        "about": about,
    }
    (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1, allow_nan=False))
    for written in (*temporary.iterdir(), temporary):
        flush(written)


def _write_part(path: Path, tree: Any) -> dict[str, Any]:
    """Write the arrays of one part and return its entry in the manifest."""
    arrays: dict[str, Any] = {name: to_numpy(leaf) for name, leaf in leaves(tree).items()}
    with open(path, "wb") as file:
        np.savez(file, **arrays)
    return {"sha256": _sha256(path), "bytes": path.stat().st_size, "leaves": leaf_table(tree)}


def _move(temporary: Path, directory: Path) -> None:
    retired = _retired(directory)
    if directory.exists():
        shutil.rmtree(retired, ignore_errors=True)
        os.rename(directory, retired)
    os.rename(temporary, directory)
    flush(directory.parent)
    shutil.rmtree(retired, ignore_errors=True)


def read_about(directory: Path) -> dict[str, Any]:
    """The facts saved with a checkpoint. Raises CheckpointError if it is missing or damaged."""
    return _read_manifest(_whole(directory))["about"]


def restore(directory: Path, part: str, like: Any, spec: str, *, half: bool = False) -> Any:
    """One part of a checkpoint, in the structure of `like` (arrays or shapes). Leaves are NumPy arrays, keys are keys.

    Reads no other part. With `half`, what was saved in half precision comes back as `like` has it.

    Raises, in one line, DamagedError for a damaged checkpoint, and CheckpointError for one of something else: without
    this part, with other leaves, or of a run with another `spec`.
    """
    directory = _whole(directory)
    manifest = _read_manifest(directory)
    if part not in manifest["parts"]:
        raise CheckpointError(f"checkpoint {directory} holds {', '.join(manifest['parts'])}, and no {part}.")
    entry = manifest["parts"][part]
    _compare(_doubled(entry["leaves"]) if half else entry["leaves"], leaf_table(like), directory)
    if manifest["spec"] != spec:
        raise CheckpointError(
            f"checkpoint {directory} belongs to something else: its leaves fit, but it is of a run with another "
            f"spec.json (SHA-256 {manifest['spec'][:8]} there, {spec[:8]} here)."
        )
    arrays = _read_arrays(directory, part, entry)
    structure = jax.tree.structure(like)
    return jax.tree.unflatten(structure, [_from_numpy(arrays[n], leaf) for n, leaf in leaves(like).items()])


def newest(directory: Path) -> Path | None:
    """The latest complete checkpoint in a directory of them, or None."""
    found = complete(directory)
    return found[0] if found else None


def complete(directory: Path) -> list[Path]:
    """The checkpoints in a directory of them, the latest first. Whether they are whole is for `restore` to say."""
    found = [p for p in directory.glob("step-*") if not p.suffix and (p / MANIFEST).is_file()]
    return sorted(found, reverse=True)


def keep_newest(directory: Path, count: int) -> None:
    """Delete all but the latest `count` checkpoints of a directory, as far as the file system lets them go."""
    for old in complete(directory)[count:]:
        shutil.rmtree(old, ignore_errors=True)  # NFS keeps what a reader has open; the training goes on


def file_of(directory: Path, part: str) -> Path:
    """The array file of one part."""
    return directory / f"{part}.npz"


def leaf_table(tree: Any) -> dict[str, list]:
    """Path, shape and dtype of every leaf."""
    return {name: [list(leaf.shape), str(leaf.dtype)] for name, leaf in leaves(tree).items()}


def leaves(tree: Any) -> dict[str, Any]:
    """Leaves by a readable path: `state/weights/actor/params/Dense_0/kernel`."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    }


def to_numpy(leaf: Any) -> np.ndarray:
    """A leaf as plain numbers; typed keys as their words."""
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def _from_numpy(array: np.ndarray, like: Any) -> Any:
    if not jax.numpy.issubdtype(like.dtype, jax.dtypes.prng_key):
        return array.astype(like.dtype, copy=False)
    implementation = next(i for i in IMPLEMENTATIONS.values() if _key_dtype(i) == like.dtype)
    return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=implementation)


def _key_dtype(implementation: Any) -> Any:
    return jax.eval_shape(lambda: jax.random.key(0, impl=implementation)).dtype


def _retired(directory: Path) -> Path:
    return directory.with_name(directory.name + ".retired")


def _whole(directory: Path) -> Path:
    # A process killed between the two moves of `save` leaves the checkpoint before it, under its retired name.
    return _retired(directory) if not directory.exists() and _retired(directory).is_dir() else directory


def _read_manifest(directory: Path) -> dict[str, Any]:
    if not directory.is_dir():
        raise CheckpointError(f"checkpoint {directory} does not exist.")
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise DamagedError(f"checkpoint {directory} is damaged or incomplete: {error}.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(f"{directory} is not a checkpoint of this version of shoal (format {FORMAT}).")
    if missing := [name for name in ("spec", "parts", "about") if name not in manifest]:
        raise CheckpointError(f"checkpoint {directory} is damaged: its manifest has no {missing[0]}.")
    return manifest


def _read_arrays(directory: Path, part: str, entry: dict[str, Any]) -> dict[str, np.ndarray]:
    path = file_of(directory, part)
    try:
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise DamagedError(
                f"checkpoint {directory} is damaged or incomplete: {path.name} has {size:,} bytes, and its manifest "
                f"says {entry['bytes']:,}."
            )
        if _sha256(path) != entry["sha256"]:
            raise DamagedError(
                f"checkpoint {directory} is damaged: {path.name} does not match the hash in its manifest."
            )
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except OSError as error:
        raise DamagedError(f"checkpoint {directory} is damaged or incomplete: {error}.") from error


def _doubled(saved: dict[str, list]) -> dict[str, list]:
    return {name: [shape, "float32" if dtype == "float16" else dtype] for name, (shape, dtype) in saved.items()}


def _compare(saved: dict[str, list], expected: dict[str, list], directory: Path) -> None:
    for name in sorted({*saved, *expected}):
        there, here = saved.get(name, "nothing"), expected.get(name, "nothing")
        if there != here:
            raise CheckpointError(
                f"checkpoint {directory} belongs to something else: {name} is {_say(there)} there, {_say(here)} here."
            )


def _say(entry: Any) -> str:
    return entry if isinstance(entry, str) else f"{entry[1]}{tuple(entry[0])}"


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
