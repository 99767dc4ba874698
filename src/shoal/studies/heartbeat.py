"""Which workers of a study run: each counts up in the storage, and the others watch with their own clocks.

The machines' clocks may differ: a worker counts as dead when its counter has stood still for `grace` seconds while this
process looked at it. Time in which the storage did not answer, or in which this process was stopped, does not count.
"""

import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna

from shoal.studies.errors import StorageError, WorkerError

INTERVAL = 15.0  # seconds between two heartbeats, at most
ATTRIBUTE = "worker:"  # the study's user attribute `worker:NAME` holds the last heartbeat of this worker
MISSED = 4  # heartbeats that a living worker may miss


class UnchangedTimer:
    """For how long each of some values did not change, as far as it was seen."""

    def __init__(self, longest: float) -> None:
        """Between two calls count at most `longest` seconds."""
        self._longest = longest
        self._seen: dict[Hashable, tuple[Hashable, float, float]] = {}  # name -> value, when seen, seconds still

    def unchanged(self, name: Hashable, value: Hashable, now: float) -> float:
        """Note a value seen at the time `now`; returns for how many seconds it has been the same."""
        before, when, still = self._seen.get(name, (None, now, 0.0))
        still = still + min(now - when, self._longest) if before == value else 0.0
        self._seen[name] = (value, now, still)
        return still


class Heartbeat:
    """The heartbeat of one worker, and its view of the others."""

    def __init__(self, study: optuna.Study, worker: str, grace: float, say: Callable[[str], object]) -> None:
        """The heartbeat of `worker`. A message about a name that may be taken goes to `say`."""
        self.worker, self.grace, self.interval = worker, grace, min(INTERVAL, grace / (MISSED + 1))
        self._say = say
        self._storage, self._study_id = study._storage, study._study_id
        process = os.getpid()
        self._place = {"host": platform.node(), "machine": _machine(), "process": process, "began": _began(process)}
        self._token, self._count = uuid.uuid4().hex, 0
        self._timer = UnchangedTimer(2 * self.interval)
        self._known: set[str | None] = set()
        self._dead: set[str] = set()
        self._other_process: dict[str, Any] | None = None  # the heartbeat of another process with this worker's name
        self._next_search = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"heartbeat of {worker}", daemon=True)

    def start(self) -> bool:
        """Claim the name and begin. Returns whether an earlier process of this name died, instead of leaving.

        Raises WorkerError where the name belongs to a running process.
        """
        record = self._records().get(self.worker)
        if record is not None and not record["left"] and self._runs(record):
            raise WorkerError(self._taken(record))
        self._write()
        self._watch()
        self.check()
        self._thread.start()
        return record is not None and not record["left"]

    def stop(self) -> None:
        """End the heartbeat, and leave the name to the next process."""
        self._ended.set()
        self._thread.join(self.interval + 1)
        if self._other_process is None:
            with suppress(StorageError):  # it may be why the worker stops
                self._write(left=True)

    def check(self) -> None:
        """Raise WorkerError where another process has taken the name."""
        if self._other_process is not None:
            raise WorkerError(self._taken(self._other_process))

    def is_time_to_search(self) -> bool:
        """Return True every `interval` seconds: then look for trials of dead workers."""
        if time.monotonic() < self._next_search:
            return False
        self._next_search = time.monotonic() + self.interval
        return True

    def is_dead(self, worker: str | None, trial: int) -> bool:
        """Return whether the worker of a running trial is dead.

        None: it was killed between starting the trial and writing its name. Then the trial itself must stand still.
        """
        if worker in self._known:
            return worker in self._dead
        return self._timer.unchanged(trial, worker, time.monotonic()) > self.grace

    def _keep(self) -> None:
        """Beat and watch the others to the end. While the storage does not answer, the worker's own calls report it."""
        while not self._ended.wait(self.interval):
            with suppress(Exception):
                self._watch()
                if self._other_process is None:
                    self._write()

    def _watch(self) -> None:
        now = time.monotonic()
        for worker, record in self._records().items():
            if worker == self.worker:
                self._other_process = None if record["token"] == self._token else record
                continue
            still = self._timer.unchanged(worker, (record["token"], record["count"]), now)
            is_dead = still > max(self.grace, MISSED * record["interval"])
            (self._dead.add if is_dead else self._dead.discard)(worker)
            self._known.add(worker)

    def _records(self) -> dict[str, dict[str, Any]]:
        attributes = self._storage.get_study_user_attrs(self._study_id)
        return {k.removeprefix(ATTRIBUTE): v for k, v in attributes.items() if k.startswith(ATTRIBUTE)}

    def _write(self, left: bool = False) -> None:
        self._count += 1
        record = {**self._place, "token": self._token, "count": self._count, "interval": self.interval, "left": left}
        self._storage.set_study_user_attr(self._study_id, ATTRIBUTE + self.worker, record)

    def _runs(self, record: dict[str, Any]) -> bool:
        """Whether the process of a heartbeat runs: looked up if it is of this machine, else watched."""
        if all(record[key] == self._place[key] for key in ("host", "machine")):
            return _began(record["process"]) == record["began"]
        seconds = 2.5 * record["interval"]
        self._say(f"worker {self.worker!r} ran on {record['host']}; watching {seconds:.0f} s whether it still does")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(record["interval"] / 5)
            now = self._records()[self.worker]
            if (now["token"], now["count"]) != (record["token"], record["count"]):
                return not now["left"]
        return False

    def _taken(self, record: dict[str, Any]) -> str:
        return (
            f"a worker with the name {self.worker!r} runs already: process {record['process']} on {record['host']}. "
            f"Give this one another name, or stop that one."
        )


def _machine() -> str:
    """A name for this machine since its boot, or for this container on it."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    return hex(uuid.getnode())


def _began(process: int) -> int | None:
    """When a process of this machine began, in ticks since the boot (0 where there is no /proc). None: it has ended."""
    if Path("/proc/self/stat").exists():
        with suppress(OSError):
            state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            return None if state in "ZX" else int(fields[18])  # a zombie has ended; field 22 is the start time
        return None
    try:
        os.kill(process, 0)
    except OSError:
        return None
    return 0
