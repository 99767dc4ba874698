"""Checkpoints: folders with one array file for each part and a manifest.

A checkpoint of a run has three parts: the agent states (with optimizers, replay buffers and environment states), the
policies alone, and the run's own arrays. Each part can be read alone, so a policy is loaded without its replay buffer.
One that was made within a record has a fourth part: the sums of metrics since the last record. In a run of several
processes, each writes the members of its slots as parts of their own: process 1 `learners-1` and `policies-1`.

A checkpoint is written into a temporary directory, flushed to disk and renamed when it is complete. A process that is
killed at any moment therefore leaves the previous one intact. `restore` compares the table of leaves and the hash of
the file before it reads arrays, raises a one-line error where they differ, and never unpickles.
"""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.errors import CheckpointError, DamagedError
from shoal.core.keys import IMPLEMENTATIONS, is_key, key_words
from shoal.specs.disk import flush, named_errors
from shoal.training.array_files import write_arrays
from shoal.training.reading import arrays_in, damaged, opened, read_json, size_of
from shoal.training.shapes import FILES, misfit

FORMAT = 3
MANIFEST = "manifest.json"
STAYS = "stays"  # an empty file in a checkpoint that `keep_newest` does not delete
# The parts of a checkpoint: members, policies, the run's own arrays, and within a record the sums of its metrics. The
# checkpoint `best` has only policies.
LEARNERS, POLICIES, RUN, TOTALS = "learners", "policies", "run", "totals"
ROUNDING = "rounding"  # the field with the rounding of float32 sums (`ops.sums`), which older checkpoints lack: 0 there


def save(
    directory: Path,
    parts: Mapping[str, Any],
    spec: str,
    about: dict[str, Any],
    *,
    stays: bool = False,
    write_more: Callable[[Path], dict[str, Any]] = lambda folder: {},
) -> None:
    """Write a checkpoint, and replace one of the same name.

    `parts` are pytrees of arrays by the name of their part, `spec` is the hash of the run's spec, and `about` is data
    for JSON that `read_about` returns. One that `stays` is not deleted when newer ones follow. `write_more` writes
    further parts into a folder, with `write_parts`, and returns what this returns.
    """
    # No other folder has this name. So a process that finds one of this name under this path sees the same disk.
    temporary = directory.with_name(f"{directory.name}.{uuid.uuid4().hex}.partial")
    try:
        with named_errors(directory):
            temporary.mkdir(parents=True)
            _write(temporary, parts, spec, about, stays, write_more)
            _move(temporary, directory)
    finally:
        _remove(temporary)  # it exists only after an error, such as a full disk


def _write(temporary: Path, parts: Mapping[str, Any], spec: str, about: Any, stays: bool, write_more: Any) -> None:
    more = write_more(temporary)
    manifest = {"format": FORMAT, "spec": spec, "parts": {**more, **write_parts(temporary, parts)}, "about": about}
    manifest["sha256"] = hash_of_manifest(manifest)
    (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1, allow_nan=False))
    if stays:
        (temporary / STAYS).touch()
    for written in (*temporary.iterdir(), temporary):
        flush(written)


def write_parts(folder: Path, parts: Mapping[str, Any], process: int = 0) -> dict[str, Any]:
    """Write the arrays of parts to files, flush them to disk, and return the parts' entries in the manifest by name.

    The parts of another process than 0 are of the members of its slots.
    """
    entries = {}
    for part, tree in parts.items():
        path = file_of(folder, name := _name_of(part, process))
        digest = write_arrays(path, {leaf: key_words(array) for leaf, array in leaves(tree).items()})
        flush(path)
        entries[name] = {"sha256": digest, "bytes": path.stat().st_size, "leaves": leaf_table(tree)}
    return entries


def _move(temporary: Path, directory: Path) -> None:
    retired = _retired(directory)
    if directory.exists():
        _remove(retired)
        os.rename(directory, retired)
    os.rename(temporary, directory)
    flush(directory.parent)
    _remove(retired)


def read_about(directory: Path) -> dict[str, Any]:
    """Return the data `about` that was saved with a checkpoint, to resume the run.

    Raises CheckpointError if it is missing, DamagedError if it is damaged or its manifest is a symbolic link.
    """
    directory = _complete(directory)
    if (directory / MANIFEST).is_symlink():
        raise damaged(directory / MANIFEST, "it is a link, and a run goes on from its own files only")
    return about_of(directory)


def about_of(directory: Path) -> dict[str, Any]:
    """Return the data `about` of a checkpoint, whose files may be links, to read its policies. Raises as `restore`."""
    return _read_manifest(_complete(directory))["about"]


def restore(directory: Path, part: str, like: Any, spec: str, *, half: bool = False) -> Any:
    """Read one part of a checkpoint into the structure of `like` (arrays or shapes).

    Leaves are NumPy arrays, or typed keys where `like` has them. With `half`, arrays that were saved in half precision
    are converted to the dtypes of `like`.

    Raises DamagedError for a damaged checkpoint, and CheckpointError for one without this part, with other leaves, or
    of a run with another `spec`.
    """
    directory = _complete(directory)
    manifest = _read_manifest(directory)
    entries = _entries(manifest, part, directory)
    table = _table(entries, half)
    _compare(with_rounding(table, leaf_table(like)), leaf_table(like), directory)
    if manifest["spec"] != spec:
        raise of_another_run(directory, manifest["spec"], spec)
    structure, expected = jax.tree.structure(like), leaves(like)
    arrays = {
        **{name: np.zeros(expected[name].shape, np.float32) for name in _missing_rounding(table, expected)},
        **_read_all(directory, entries),
    }
    for name in {**expected, **arrays}:
        if name not in arrays or name not in expected or not _fits(arrays[name], expected[name]):
            raise damaged(file_of(directory, part), f"its {name} is not what the manifest says")
    return jax.tree.unflatten(structure, [_from_numpy(arrays[name], leaf) for name, leaf in expected.items()])


def check(directory: Path, spec: str) -> dict[str, Any]:
    """Compare every file of a checkpoint with its manifest, and return the manifest. Raises as `restore`."""
    directory = _complete(directory)
    manifest = _read_manifest(directory)
    if manifest["spec"] != spec:
        raise of_another_run(directory, manifest["spec"], spec)
    for part, entry in manifest["parts"].items():
        _read_arrays(directory, part, entry)
    return manifest


def spec_of(directory: Path) -> str:
    """Return the hash of the spec of the run that saved a checkpoint. Raises CheckpointError as `read_about`."""
    return _read_manifest(_complete(directory))["spec"]


def of_another_run(directory: Path, there: str, here: str) -> CheckpointError:
    """Return the error for a checkpoint whose run has another spec (hash `there`) than its folder (`here`)."""
    return CheckpointError(
        f"checkpoint {directory} belongs to something else: it is of a run with another spec.json (SHA-256 {there[:8]} "
        f"there, {here[:8]} here)."
    )


def table_of(directory: Path, part: str, *, half: bool = False) -> dict[str, list]:
    """Return shape and dtype of every leaf of one part by its path, as `restore` reads it, with the same errors."""
    directory = _complete(directory)
    return _table(_entries(_read_manifest(directory), part, directory), half)


def with_rounding(table: dict[str, list], expected: dict[str, list]) -> dict[str, list]:
    """Return a table of leaves with those of the rounding of sums that `expected` has and an older checkpoint lacks."""
    return {**table, **{name: expected[name] for name in _missing_rounding(table, expected)}}


def newest(directory: Path) -> Path | None:
    """Return the latest checkpoint in a directory of checkpoints, or None."""
    found = saved(directory)
    return found[0] if found else None


def saved(directory: Path) -> list[Path]:
    """Return the checkpoints in a directory, the latest first. They may be damaged; `restore` checks that."""
    return sorted((path for path in directory.glob("step-*") if not path.suffix), reverse=True)


def keep_newest(directory: Path, count: int) -> None:
    """Delete all but the latest `count` checkpoints of a directory, and those that stay. File errors are ignored.

    Each is renamed first, so that a partly deleted one is never used as a checkpoint.
    """
    for old in saved(directory)[count:]:
        if (old / STAYS).exists():
            continue
        with suppress(OSError):
            os.rename(old, _retired(old))
    tidy(directory)


def tidy(directory: Path) -> None:
    """Remove the remains of a process that was stopped while it saved or deleted a checkpoint."""
    for retired in directory.glob("*.retired"):
        replaced = retired.with_suffix("")
        if retired.name == "best.retired" and not replaced.exists():  # stopped between the two moves of `save`
            os.rename(retired, replaced)
        else:
            _remove(retired)
    for partial in directory.glob("*.partial"):
        _remove(partial)


def file_of(directory: Path, part: str) -> Path:
    """Return the path of the array file of one part."""
    return directory / f"{part}.npz"


def leaf_table(tree: Any) -> dict[str, list]:
    """Return [shape, dtype] of every leaf by its path."""
    return {name: [list(leaf.shape), str(leaf.dtype)] for name, leaf in leaves(tree).items()}


def leaves(tree: Any) -> dict[str, Any]:
    """Return the leaves of a tree by paths such as `state/weights/actor/params/Dense_0/kernel`."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    }


def _fits(array: np.ndarray, like: Any) -> bool:
    """Return whether an array has the shape of a leaf and its kind of numbers; the precision may differ."""
    plain = jax.eval_shape(key_words, like) if is_key(like) else like
    return array.shape == plain.shape and array.dtype.kind == np.dtype(plain.dtype).kind


def _from_numpy(array: np.ndarray, like: Any) -> Any:
    if not is_key(like):
        return array.astype(like.dtype, copy=False)
    implementation = next(i for i in IMPLEMENTATIONS.values() if _key_dtype(i) == like.dtype)
    return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=implementation)


def _key_dtype(implementation: Any) -> Any:
    return jax.eval_shape(lambda: jax.random.key(0, impl=implementation)).dtype


def _name_of(part: str, process: int) -> str:
    return f"{part}-{process}" if process else part


def _retired(directory: Path) -> Path:
    return directory.with_name(directory.name + ".retired")


def _complete(directory: Path) -> Path:
    # A process killed between the two renames of `save` leaves the previous checkpoint under its retired name.
    return _retired(directory) if not directory.exists() and _retired(directory).is_dir() else directory


def _read_manifest(directory: Path) -> dict[str, Any]:
    if not directory.exists():
        raise CheckpointError(f"checkpoint {directory} does not exist.")
    path = directory / MANIFEST
    try:
        manifest = read_json(path, {"format": int})
    except FileNotFoundError as error:
        raise DamagedError(f"checkpoint {directory} is damaged or incomplete: it has no {MANIFEST}.") from error
    if manifest["format"] != FORMAT:
        raise CheckpointError(f"{directory} is not a checkpoint of this version of shoal (format {FORMAT}).")
    if reason := misfit(manifest, FILES[MANIFEST]):
        raise damaged(path, reason)
    if hash_of_manifest(manifest) != manifest["sha256"]:
        raise damaged(path, "its content does not match its own hash")
    return manifest


def hash_of_manifest(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest without the entry for that hash. The order of its parts does not matter."""
    content = {name: part for name, part in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read_arrays(directory: Path, part: str, entry: dict[str, Any]) -> dict[str, np.ndarray]:
    path = file_of(directory, part)
    try:
        with opened(path) as file:
            if (size := size_of(file)) != entry["bytes"]:
                raise DamagedError(
                    f"checkpoint {directory} is damaged or incomplete: {path.name} has {size:,} bytes, and its "
                    f"manifest says {entry['bytes']:,}."
                )
            if hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:
                raise DamagedError(
                    f"checkpoint {directory} is damaged: {path.name} does not match the hash in its manifest."
                )
            return arrays_in(file, path, most=size)
    except FileNotFoundError as error:
        raise DamagedError(f"checkpoint {directory} is damaged or incomplete: it has no {path.name}.") from error


def _read_all(directory: Path, entries: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the arrays of all members: those of the parts of several processes, joined in the order of the slots."""
    first, *others = [_read_arrays(directory, name, entry) for name, entry in entries.items()]
    try:
        return {name: np.concatenate([x, *(o.pop(name) for o in others)]) if others else x for name, x in first.items()}
    except (KeyError, ValueError) as error:
        raise damaged(directory, f"the arrays of its parts {', '.join(entries)} do not fit together") from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)  # NFS cannot delete files that a reader has open; training goes on
    else:
        path.unlink(missing_ok=True)


def _entries(manifest: dict[str, Any], part: str, directory: Path) -> dict[str, Any]:
    """Return the entries of a part of all processes that wrote one, by name."""
    parts = manifest["parts"]
    if part not in parts:
        raise CheckpointError(f"checkpoint {directory} holds {', '.join(parts)}, and no {part}.")
    return {name: parts[name] for name in takewhile(parts.__contains__, (_name_of(part, n) for n in count()))}


def _table(entries: dict[str, Any], half: bool) -> dict[str, list]:
    """Return the table of leaves of one part, for the members of all processes. With `half`, float16 is float32."""
    of, table = {"float16": "float32"} if half else {}, {}
    for name, (shape, dtype) in (leaf for entry in entries.values() for leaf in entry["leaves"].items()):
        before = sum(table[name][0][:1]) if name in table else 0  # rows; a leaf of the run itself may have no axis
        table[name] = [[before + rows for rows in shape[:1]] + shape[1:], of.get(dtype, dtype)]
    return table


def _missing_rounding(table: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    return [name for name in expected if name not in table and ROUNDING in name.split("/")]


def _compare(saved: dict[str, list], expected: dict[str, list], directory: Path) -> None:
    for name in sorted({*saved, *expected}):
        there, here = saved.get(name, "nothing"), expected.get(name, "nothing")
        if there != here:
            raise CheckpointError(
                f"checkpoint {directory} belongs to something else: {name} is {_in_words(there)} there, "
                f"{_in_words(here)} here."
            )


def _in_words(entry: Any) -> str:
    return entry if isinstance(entry, str) else f"{entry[1]}{tuple(entry[0])}"


def hash_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
