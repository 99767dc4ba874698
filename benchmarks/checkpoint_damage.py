"""Change single bits of a checkpoint, and count how often reading it returns other numbers without an error.

    python benchmarks/checkpoint_damage.py [--bits 25] [--folder /dev/shm]

A small checkpoint is saved by shoal, and by orbax with its defaults and in its other formats. In every file of it, bits
at evenly spaced places are changed, one at a time. Reading then raises an error, returns the saved numbers, or returns
other numbers.
"""

import argparse
import logging
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp

from shoal.training import checkpoint

TREE = {"weights": np.random.default_rng(0).standard_normal((256, 256), np.float32), "steps": np.arange(4096)}
PLAIN = {"use_zarr3": True, "use_compression": False}
ORBAX: dict[str, dict[str, Any]] = {
    "orbax": {},
    "orbax, plain": PLAIN,
    "orbax, no OCDBT": {"use_ocdbt": False},
    "orbax, plain, no OCDBT": {"use_ocdbt": False, **PLAIN},
}


def main() -> None:
    """Count the three outcomes for every format, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, default=25, help="bits that are changed in each file")
    parser.add_argument("--folder", type=Path, default=".", help="where the files are saved, such as /dev/shm")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # of orbax
    for name in ("shoal", *ORBAX):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            path = Path(folder).absolute() / "step-1"
            save(name, path)
            files = [file for file in path.rglob("*") if file.is_file() and file.stat().st_size]
            found = Counter(outcome for file in files for outcome in outcomes(name, path, file, options.bits))
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.items()))
        print(f"{name:24}{len(files):3} files: {counts}")


def save(name: str, path: Path) -> None:
    """Save the arrays in a format."""
    if name == "shoal":
        checkpoint.save(path, {"learners": TREE}, "", {})
        return
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**ORBAX[name])) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(TREE))  # pyright: ignore[reportCallIssue]  # it has this field


def load(name: str, path: Path) -> Any:
    """Read the arrays."""
    if name == "shoal":
        return checkpoint.restore(path, "learners", TREE, "")
    as_numpy = {leaf: ocp.RestoreArgs(restore_type=np.ndarray) for leaf in TREE}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**ORBAX[name])) as checkpointer:
        return checkpointer.restore(path, args=ocp.args.PyTreeRestore(restore_args=as_numpy))  # pyright: ignore[reportCallIssue]


def outcomes(name: str, path: Path, file: Path, bits: int) -> list[str]:
    """Return what happens for every changed bit of a file, which is as before afterwards."""
    content, found = file.read_bytes(), []
    for place in np.linspace(0, len(content) - 1, bits).astype(int):
        damaged = bytearray(content)
        damaged[place] ^= 1
        file.write_bytes(damaged)
        try:
            arrays = load(name, path)
        except Exception:  # each library raises several kinds
            found.append("errors")
        else:
            is_same = all(np.array_equal(arrays[leaf], saved) for leaf, saved in TREE.items())
            found.append("the saved numbers" if is_same else "other numbers")
    file.write_bytes(content)
    return found


if __name__ == "__main__":
    main()
