"""Weights & Biases: runs on its server, or without a login in files that `wandb sync` uploads later (offline mode).

A run that is continued offline is written anew, into one file: nothing is there twice.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from shoal.core.registry import tracker
from shoal.tracking.tracker import SHARED, Entry, Known, Point, Target, Tracker

LONGEST_TAG = 64
LARGEST_FILE = 100_000_000  # bytes of a file that is uploaded


@tracker("wandb")
class Wandb(Tracker):
    """Writes runs to Weights & Biases. A child is a run of its own, in the group of its parent."""

    title, package, install = "Weights & Biases", "wandb", "shoal[wandb]"
    longest_experiment = 128
    seconds_per_child = 2.0  # for the most part the start of a run

    def __init__(self, target: Target) -> None:
        """Offline files are written to the folder of the run."""
        self.folder = target.folder
        self.project = re.sub(r"[/\\#?%:]", "-", target.experiment)[: self.longest_experiment]
        self.is_offline = False
        self._wandb: Any = None
        self._owns_service = False
        self._runs: dict[str, Any] = {}
        self._axes: dict[str, str] = {}
        self._main = ""

    def connect(self) -> None:
        """Import wandb and find out whether there is a login."""
        if self._wandb is not None:
            return
        os.environ.setdefault("WANDB_SILENT", "true")
        import wandb

        self._owns_service = _service(wandb) is None
        mode = os.environ.get("WANDB_MODE", "")
        self.is_offline = mode in ("offline", "dryrun") or not mode and not _has_login(wandb)
        self._wandb = wandb

    def open(self, entry: Entry) -> Known:
        identity, name = entry.key.replace("/", "-"), entry.name
        if entry.worker:  # one process writes a run of W&B, so that every worker has one, in the same group
            identity, name = f"{identity}-{entry.worker}", f"{name} ({entry.worker})"
        if not entry.parent:
            self._main = entry.key
        if self.is_offline:
            self._remove_old(identity)
        settings = self._wandb.Settings(
            mode="offline" if self.is_offline else "online",
            root_dir=str(self.folder),
            console="off",  # the terminal belongs to the run
            silent=True,
            disable_git=True,
            save_code=False,
            x_disable_stats=True,
        )
        run = self._wandb.init(
            project=self.project,
            id=identity,
            name=name,
            group=entry.tags.get("shoal.group", self._main),
            job_type="child" if entry.parent else None,
            config={**entry.parameters, "started": entry.started},
            tags=[f"{k}={v}"[:LONGEST_TAG] for k, v in entry.tags.items() if not k.startswith(("mlflow", "shoal"))],
            resume=None if self.is_offline else "allow",
            reinit="create_new",
            settings=settings,
        )
        run.define_metric(entry.axis)
        run.define_metric("*", step_metric=entry.axis)
        self._runs[entry.key], self._axes[entry.key] = run, entry.axis
        if not entry.parent:
            self.newest = {"id": identity, "project": self.project, "offline": self.is_offline, "path": run.dir}
        newest = run.summary.get(entry.axis) if not self.is_offline and run.resumed else None
        return Known(frozenset() if newest is None else frozenset([int(newest)]))

    def write(self, key: str, points: Sequence[Point]) -> None:
        """Log the metrics of each point, with its step as the metric of the axis."""
        for point in points:
            self._runs[key].log({**point.metrics, self._axes[key]: point.step, "time": point.time})

    def attach(self, key: str, files: Mapping[str, Path]) -> None:
        """Log pictures as images, and save all files with the run."""
        run, pictures = self._runs[key], {}
        for name, path in files.items():
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if not file.is_file() or file.stat().st_size > LARGEST_FILE:
                    continue
                label = f"{name}/{file.relative_to(path)}" if path.is_dir() else name
                copy = Path(run.dir) / label
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
                run.save(str(copy), base_path=run.dir, policy="now")
                if kind := {".png": self._wandb.Image, ".gif": self._wandb.Video}.get(file.suffix):
                    pictures[label] = kind(str(file))
        if pictures:
            run.log(pictures)

    def end(self, key: str, status: str) -> None:
        self._runs.pop(key).finish(exit_code=0 if status in ("complete", "pruned", SHARED) else 1)
        del self._axes[key]

    def abandon(self) -> None:
        """End the process that sends to the server; when Python exits it would be waited for, for about a minute."""
        if self._owns_service and (service := _service(self._wandb)) is not None:
            with suppress(AttributeError, TypeError):  # of another version of W&B
                service._cleanup()  # it is not waited for
                service._proc._process.kill()

    @property
    def where(self) -> str:
        """The project, or what uploads the offline files."""
        files = self.folder / "wandb"
        return f"{files} (wandb sync {files}/offline-run-*)" if self.is_offline else self.project

    def _remove_old(self, identity: str) -> None:
        """Remove the offline files of this run that were not uploaded: the records of the run are written again."""
        for old in (self.folder / "wandb").glob(f"offline-run-*-{identity}"):
            if not list(old.glob("*.wandb.synced")):
                shutil.rmtree(old)


def _service(wandb: Any) -> Any:
    """The connection to the process of W&B that sends to the server; None where it does not run or is hidden."""
    return getattr(getattr(getattr(wandb.sdk, "wandb_setup", None), "_singleton", None), "_connection", None)


def _has_login(wandb: Any) -> bool:
    """Whether a key of W&B is known, without asking for one."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return bool(wandb.login(prompt=False))
    except TypeError:  # an older version
        return bool(wandb.api.api_key)
