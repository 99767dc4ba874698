"""The run folder: the files of a run, in formats that many programs can read.

spec.json          the description of the run    provenance.json   versions, device, command line, commit
metrics.jsonl      a line for each record        curves.npz         [records, M] for each metric; while a long run goes
                                                 curves.tail        on, the newest records are in curves.tail
tracking.json      what experiment trackers show, if they do
summary.json       per-member and overall scores checkpoints/      the last states, and the best policies
figures/ videos/   made from the other files
"""

import difflib
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.errors import DamagedError, did_you_mean
from shoal.core.kinds import check_path
from shoal.core.registry import ENVS
from shoal.core.secrets import redacted
from shoal.specs.disk import replace
from shoal.specs.spec import HUB_PREFIX, NAMED, ZOO_PREFIX, RunSpec, original_spec
from shoal.training import curve_files, reading
from shoal.training.claim import LOCK
from shoal.training.host import usable_cores
from shoal.training.hub import fetch
from shoal.training.shapes import FILES, misfit_of_curves

PACKAGES = ("shoal", "jax", "jaxlib", "flax", "optax", "numpy")
# Parts of a provenance that can change the last bits of a result. Threads and cores do so for networks that read
# pictures. The block size, which does too, is in the spec.
DECIDES_BITS = ("packages", "cpu", "devices", "xla_flags", "threads", "cores")
WRITTEN_BEFORE_SPEC = {LOCK, ".writable", "provenance.json"}  # a folder with nothing else holds no run


LONGEST_NAME = 200  # bytes of the name of a folder; most file systems hold 255, and suffixes are added
RESERVED = {"con", "prn", "aux", "nul", *(f"{device}{n}" for device in ("com", "lpt") for n in range(1, 10))}  # Windows

# What a folder is that has a file of this name, and the commands for it.
KINDS = {
    "study.json": "is the folder of a study. `shoal report {0}` makes a page of it; `shoal trials {0}` lists its "
    "trials, with `--preset TRIAL` as a preset file; `shoal tune --resume {0}` continues it.",
    "race.json": "is the folder of a race. `shoal race --resume {0}` continues it, or prints its result.",
    "suite.json": "is the folder of a suite. `shoal report {0}` makes a page of it; `shoal compare {0} OTHER` compares "
    "it with another; `shoal train --resume {0}` continues it.",
    "bsuite.json": "is a folder of `shoal bsuite`. `shoal bsuite --resume {0}` continues it, or prints its scores.",
}
A_RUN = "is a run. `shoal report {0}` makes a page of it; `shoal train --resume {0}` continues it."

ZOO = Path(__file__).parents[1] / "zoo"


class RunFolder:
    """The paths and files of one run. A file is replaced by a rename, so readers see the old one or the new one."""

    def __init__(self, path: Path | str, made: Sequence[Path] = ()) -> None:
        """Use the folder at `path`, or a policy that comes with shoal: `zoo:AGENT/ENV`. Nothing is read or written.

        `made` lists the folders that were made for this run, each one before its parent.
        """
        self.path = locate(path)
        self.made = list(made)
        self.policy = self.path / "policy"  # only in an exported folder: the policy of one member
        self.checkpoints = self.path / "checkpoints"
        self.best = self.checkpoints / "best"
        self.figures = self.path / "figures"
        self.videos = self.path / "videos"

    def create(self, named_by: str = "--name", lies_in: str = "--root") -> None:
        """Make the folder. `named_by` and `lies_in` are the options that errors advise to change.

        Raises FileExistsError if it holds a run, PermissionError if it cannot be written.
        """
        self.check_unused(named_by)
        self.check_writable(f"Choose another {lies_in}.")

    def check_unused(self, named_by: str = "--name") -> None:
        """Raise FileExistsError if the folder holds a run or an exported policy, or is a file."""
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
        """Make the folder if it does not exist. Raises PermissionError, with the advice, if it cannot be written."""
        missing = _missing(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.made = [*missing, *self.made]
            probe = self.path / ".writable"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise _not_writable(self.path, error, advice) from error

    def remove_unused(self) -> None:
        """Remove the folders that were made for this run, unless they hold a run or other files."""
        if self.path not in self.made:
            return
        with suppress(OSError):  # a folder that holds something else, or that is gone already
            if {file.name for file in self.path.iterdir()} <= WRITTEN_BEFORE_SPEC:
                for file in self.path.iterdir():
                    file.unlink()
                for folder in self.made:
                    folder.rmdir()

    def checkpoint(self, updates: int) -> Path:
        """Return the path of the checkpoint after so many updates."""
        return self.checkpoints / f"step-{updates:012d}"

    def write_json(self, name: str, data: Any) -> None:
        """Write one JSON file."""
        text = json.dumps(json_ready(data), indent=1)
        self.replace(name, lambda path: path.write_text(text + "\n"))

    def read_json(self, name: str) -> Any:
        """Read one JSON file and check its structure (`shapes.FILES`).

        Raises FileNotFoundError if it does not exist, DamagedError if it is damaged.
        """
        path = self.path / name
        try:
            return reading.read_json(path, FILES.get(name, object), self._advice(name))
        except (FileNotFoundError, DamagedError) as error:
            if isinstance(error, DamagedError) and not self.path.is_file():
                raise
            raise FileNotFoundError(f"{self.path} is not a run folder: {self._reason(name)}") from error

    def has(self, name: str) -> bool:
        """Return whether something of this name exists. It may be no file; reading it then says so."""
        return os.path.lexists(self.path / name)

    def read_spec(self) -> RunSpec:
        """Read the spec of the run."""
        data = self.read_json("spec.json")
        try:
            return RunSpec.from_json(data)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise reading.damaged(self.path / "spec.json", str(error), self._advice("spec.json")) from error

    def read_found(self) -> dict[str, Any]:
        """Read the values that the selector of the run has found, described by path; none without such a selector."""
        return self.read_json("found.json") if self.has("found.json") else {}

    def read_curves(self, members: int) -> dict[str, np.ndarray]:
        """Read the curves of M members: `env_steps` and `wall_seconds` [records], all others [records, M].

        Raises FileNotFoundError if nothing is recorded yet, DamagedError if the file is damaged.
        """
        path, advice = self.path / "curves.npz", self._advice("curves.npz")
        try:
            curves = curve_files.read(self.path, advice)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{self.path} has no curves.npz: its first chunk was never finished. To go on: shoal train --resume "
                f"{self.path}"
            ) from error
        if reason := misfit_of_curves(curves, members):
            raise reading.damaged(path, reason, advice)
        return curves

    def _reason(self, name: str) -> str:
        """Why the path is not a run folder: the file `name` in it cannot be found."""
        if self.path.is_file():
            return "it is a file."
        if self.path.is_dir():
            return about_folder(self.path, name)
        text = str(self.path)
        beside = [str(path.parent) for root in {self.path.parent, Path("runs")} for path in root.glob("*/spec.json")]
        if text in ENVS:
            return f"it is an environment. `shoal train ppo {text}` makes a run in it."
        if (policy := text.removeprefix("zoo/")) in zoo():
            return f"it does not exist. Did you mean {ZOO_PREFIX}{policy}?"
        by_name = {Path(run).name: run for run in beside}
        near = difflib.get_close_matches(self.path.name, by_name, n=1)
        return f"it does not exist.{f' Did you mean {by_name[near[0]]}?' if near else ''}"

    def _advice(self, name: str) -> str:
        if name == "summary.json" and not self.policy.is_dir():
            return f"`shoal train --resume {self.path}` writes it anew."
        return "Restore it from a copy."

    @cached_property
    def spec_hash(self) -> str:
        """The SHA-256 of the spec. Checkpoints hold it too, so that those of another run are recognized.

        It does not change when the run is extended to more steps.
        """
        return hash_of_spec(self.read_json("spec.json"))

    def provenance_changes(self, here: Mapping[str, Any]) -> list[str]:
        """Return how a provenance differs from that of the run, in the parts that can change a result's bits."""
        there = self.read_json("provenance.json")
        changes = []
        for part in (part for part in DECIDES_BITS if part in there and part in here):  # older folders have fewer parts
            before, now = (p[part] if isinstance(p[part], dict) else {part: p[part]} for p in (there, here))
            changes += [
                f"{name} {before.get(name)!r}, now {now[name]!r}" for name in now if before.get(name) != now[name]
            ]
        now = here.get("form", {})
        if fields := [name for name, value in now.items() if there.get("form", now).get(name) != value]:
            changes.append(f"another form of the compiled programs ({', '.join(fields)})")
        return changes

    def note_resume(self, updates: int, changes: list[str]) -> None:
        """Add to the provenance that the run goes on elsewhere, after so many updates."""
        there = self.read_json("provenance.json")
        resumed = [*there.get("resumed", []), {"updates": updates, "changes": changes}]
        self.write_json("provenance.json", {**there, "resumed": resumed})

    def replace(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a file under a temporary name with `write(path)`, then rename it."""
        replace(self.path / name, write)


def named(root: Path, name: str, what: str = "name") -> Path:
    """Return `root/name`. Raises ValueError unless the name is that of one folder, which then lies in `root`.

    Raises TypeError for a name that is no text. `what` is the option that gives it.
    """
    if not isinstance(name, str):
        raise TypeError(f"{what}={name!r:.60} is no text: give the name of a folder, as in 'small'.")
    wrong = (
        "it is empty"
        if not name.strip()
        else "it leads to another folder"
        if name in (".", "..") or any(slash in name for slash in "/\\")
        else "it has characters that cannot be shown"
        if not name.isprintable()
        else f"it is longer than {LONGEST_NAME} bytes"
        if len(name.encode(errors="replace")) > LONGEST_NAME
        else "Windows reserves it"
        if name.partition(".")[0].lower() in RESERVED
        else ""
    )
    if wrong:
        raise ValueError(
            f"{what}={name[:60]!r} is not the name of one folder: {wrong}. Choose a name such as 'small'; the folder "
            f"in which it lies is --root (root=)."
        )
    return root / name


def locate(path: Path | str) -> Path:
    """Return the path; for `zoo:AGENT/ENV`, that of the policy in the package, for `hub:NAME` as `hub.fetch`.

    Raises ValueError for an unknown policy, and TypeError for what is no path.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"{path!r:.40} is no path: give the folder of a run, as in 'runs/ppo-CartPole-v1', or zoo:AGENT/ENV."
        )
    check_path(path)
    if not str(path).startswith(NAMED):
        return Path(path)
    name = str(path).removeprefix(ZOO_PREFIX)
    if name.startswith(HUB_PREFIX):
        return fetch(name.removeprefix(HUB_PREFIX))
    if name not in zoo():
        raise ValueError(
            f"the zoo has no {name!r}.{did_you_mean(name, zoo())} `shoal zoo` lists every policy that it has."
        )
    return ZOO / name


def about_folder(path: Path, name: str) -> str:
    """Return a sentence about a folder in which a file `name` is missing: what it is, the commands for it, its runs."""
    if not path.exists():
        return "it does not exist."
    kinds = {**KINDS, **({"spec.json": A_RUN} if name in KINDS else {})}
    about = next((words.format(path) for file, words in kinds.items() if (path / file).is_file()), f"has no {name}.")
    runs = sorted(str(file.parent) for file in [*path.glob("*/spec.json")] or path.glob("*/*/spec.json"))
    return f"it {about}{f' It holds runs: {few(runs)}.' if runs else ''}"


def few(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, at `most` so many, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def zoo() -> list[str]:
    """Return the names of the policies that come with shoal, as AGENT/ENV."""
    return sorted(str(path.parent.relative_to(ZOO)) for path in ZOO.rglob("spec.json"))


def new_folder(root: Path, stem: str) -> RunFolder:
    """Make and return the first of `root/stem`, `root/stem-2`, ... that does not exist.

    Two processes never get the same folder. Raises PermissionError if it cannot be made.
    """
    path, n = root / stem, 1
    while True:
        missing = _missing(path)
        try:
            path.mkdir(parents=True)
            return RunFolder(path, missing)
        except FileExistsError:
            n += 1
            path = root / f"{stem}-{n}"
        except OSError as error:
            raise _not_writable(path, error) from error


def provenance(block: int, workers: int, devices: list[Any]) -> dict[str, Any]:
    """Return the provenance of a run: time, command line without passwords, versions, devices, commit."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "argv": [redacted(word) for word in sys.argv],
        "python": platform.python_version(),
        "packages": versions(),
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


def versions() -> dict[str, str]:
    """Return the versions of shoal and of the packages that can change the bits of a result."""
    return {name: _version(name) for name in PACKAGES}


def hash_of_spec(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the JSON data of a spec. It stays the same where the run gets more steps."""
    return hashlib.sha256(json.dumps(json_ready(original_spec(data)), sort_keys=True).encode()).hexdigest()


def json_ready(data: Any) -> Any:
    """Return data for JSON: arrays as lists, NumPy numbers as Python's, NaN and infinities as null."""
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


def _missing(path: Path) -> list[Path]:
    """Return the path and those of its parents that do not exist, each one before its parent."""
    return [folder for folder in (path, *path.parents) if not folder.exists()]


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
