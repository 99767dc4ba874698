"""The run folder: what every run leaves behind, in plain files that anything can read.

spec.json          what was asked for            provenance.json   versions, device, command line, commit
metrics.jsonl      a line per record             curves.npz        [records, M] per metric
summary.json       per-member and overall scores checkpoints/      the last states, and the best policies
figures/ videos/   drawn from the above
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.errors import did_you_mean
from shoal.training import reading
from shoal.training.disk import replace
from shoal.training.host import usable_cores
from shoal.training.shapes import FILES, misfit_of_curves
from shoal.training.spec import RunSpec, as_begun

PACKAGES = ("shoal", "jax", "jaxlib", "flax", "optax", "numpy")
# Parts of a provenance; the block size is in the spec. Threads and cores decide where networks read pictures.
DECIDES_BITS = ("packages", "cpu", "devices", "xla_flags", "threads", "cores")


ZOO, ZOO_PREFIX = Path(__file__).parents[1] / "zoo", "zoo:"


class RunFolder:
    """Paths and files of one run. Every file is replaced in one move, so a reader never meets half of one."""

    def __init__(self, path: Path | str) -> None:
        """Name a folder, or a policy that comes with shoal as `zoo:AGENT/ENV`; touches nothing."""
        self.path = locate(path)
        self.policy = self.path / "policy"  # of one member, in a folder that was exported
        self.checkpoints = self.path / "checkpoints"
        self.best = self.checkpoints / "best"
        self.figures = self.path / "figures"
        self.videos = self.path / "videos"

    def create(self, named_by: str = "--name", lies_in: str = "--root") -> None:
        """Make the folder, which two options name and place.

        Raises FileExistsError if a run is in it, PermissionError if it cannot be written.
        """
        self.check_unused(named_by)
        self.check_writable(f"Choose another {lies_in}.")

    def check_unused(self, named_by: str = "--name") -> None:
        """Raise FileExistsError where there is a run, an exported policy or a file already."""
        if self.policy.is_dir():
            raise FileExistsError(f"{self.path} already holds an exported policy: choose another {named_by}.")
        if (self.path / "spec.json").exists():
            raise FileExistsError(
                f"{self.path} already holds a run. Continue it with `shoal train --resume {self.path}`, "
                f"or choose another {named_by}."
            )
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"{self.path} is a file: choose another {named_by} for the folder.")

    def check_writable(self, advice: str = "") -> None:
        """Make the folder where there is none. Raises PermissionError, with the advice, if it cannot be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / ".writable"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise _not_writable(self.path, error, advice) from error

    def write_json(self, name: str, data: Any) -> None:
        """Write one JSON file."""
        text = json.dumps(json_ready(data), indent=1)
        self.replace(name, lambda path: path.write_text(text + "\n"))

    def read_json(self, name: str) -> Any:
        """Read one JSON file, of the shape that `shapes.FILES` has for it.

        Raises FileNotFoundError naming the run if there is none, DamagedError if it is not what was written.
        """
        path = self.path / name
        try:
            return reading.read_json(path, FILES.get(name, object), self._advice(name))
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{self.path} is not a run folder: it has no {name}.") from error

    def has(self, name: str) -> bool:
        """Whether there is anything of a name, be it a file or not: reading it says what is wrong with it."""
        return os.path.lexists(self.path / name)

    def read_spec(self) -> RunSpec:
        """What was asked for."""
        data = self.read_json("spec.json")
        try:
            return RunSpec.from_json(data)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise reading.damaged(self.path / "spec.json", str(error), self._advice("spec.json")) from error

    def read_curves(self, members: int) -> dict[str, np.ndarray]:
        """Every recorded quantity of M members: `env_steps` and `wall_seconds` [records], the rest [records, M].

        Raises FileNotFoundError if nothing is recorded yet, DamagedError if the file is not what was written.
        """
        path, advice = self.path / "curves.npz", self._advice("curves.npz")
        try:
            curves = reading.read_arrays(path, advice=advice)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{self.path} has no curves.npz: its first chunk was never finished.") from error
        if reason := misfit_of_curves(curves, members):
            raise reading.damaged(path, reason, advice)
        return curves

    def _advice(self, name: str) -> str:
        if name == "summary.json" and not self.policy.is_dir():
            return f"`shoal train --resume {self.path}` writes it anew."
        return "Restore it from a copy."

    @cached_property
    def spec_hash(self) -> str:
        """What tells the checkpoints of this run from those of a run that was asked for something else.

        A run that was made to go on keeps that of the run as it was begun.
        """
        return hash_of(as_begun(self.read_json("spec.json")))

    def made_otherwise(self, here: Mapping[str, Any]) -> list[str]:
        """In what the run's provenance differs from one taken `here`, where it can change the last bits of a result."""
        there = self.read_json("provenance.json")
        changed = []
        for part in (part for part in DECIDES_BITS if part in there and part in here):  # older folders hold fewer
            was, now = (p[part] if isinstance(p[part], dict) else {part: p[part]} for p in (there, here))
            changed += [f"{name} {was.get(name)!r}, now {now[name]!r}" for name in now if was.get(name) != now[name]]
        return changed

    def replace(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a file beside its place, then move it there."""
        replace(self.path / name, write)


def locate(path: Path | str) -> Path:
    """A path as it is; for `zoo:AGENT/ENV`, that of a policy in the package. Raises ValueError for one that is not."""
    if not str(path).startswith(ZOO_PREFIX):
        return Path(path)
    name = str(path).removeprefix(ZOO_PREFIX)
    if name not in zoo():
        raise ValueError(
            f"the zoo has no {name!r}.{did_you_mean(name, zoo())} `shoal zoo` lists every policy that it has."
        )
    return ZOO / name


def zoo() -> list[str]:
    """The policies that come with shoal, as AGENT/ENV."""
    return sorted(str(path.parent.relative_to(ZOO)) for path in ZOO.rglob("spec.json"))


def new_path(root: Path, stem: str) -> Path:
    """Make `root/stem`, or `root/stem-2`, ... : the first that does not exist, which no other process gets as well.

    Raises PermissionError if it cannot be made.
    """
    path, n = root / stem, 1
    while True:
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            n += 1
            path = root / f"{stem}-{n}"
        except OSError as error:
            raise _not_writable(path, error) from error


def provenance(block: int, workers: int, devices: list[Any]) -> dict[str, Any]:
    """Where and how a run was made."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "argv": sys.argv,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "devices": [f"{d.platform}: {d.device_kind}" for d in devices],
        "block": block,
        "workers": workers,
        "commit": _commit(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "threads": os.environ.get("NPROC", ""),
        "cores": usable_cores(),
    }


def hash_of(data: Any) -> str:
    """SHA-256 of data as JSON, in whatever order its parts are."""
    return hashlib.sha256(json.dumps(json_ready(data), sort_keys=True).encode()).hexdigest()


def json_ready(data: Any) -> Any:
    """Arrays as lists, NumPy numbers as Python's, NaN and infinities as null (JSON has none)."""
    if isinstance(data, Mapping):
        return {str(k): json_ready(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        return [json_ready(v) for v in data]
    if isinstance(data, (np.ndarray, jax.Array)):
        return json_ready(np.asarray(data).tolist())
    if isinstance(data, np.generic):
        return json_ready(data.item())
    if isinstance(data, float) and not np.isfinite(data):
        return None
    return data


def _not_writable(path: Path, error: OSError, advice: str = "Choose another --root.") -> PermissionError:
    return PermissionError(f"{path} cannot be written: {error.strerror}. {advice}".strip())


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # on PYTHONPATH, never installed
        return "unknown"


def _commit() -> str:
    try:
        here = Path(__file__).parent
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
