"""Which workers of a study live: each counts up in the storage, and the others watch with their own clocks.

No two machines need the same time: a worker is dead once its counter has stood still for `grace` seconds of the clock
of the worker that watches. A worker that this process sees for the first time is alive for that long.
"""

import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna

INTERVAL = 15.0  # seconds between two heartbeats, at most
ATTRIBUTE = "worker:"  # the study's user attribute `worker:NAME` holds the last heartbeat


class WorkerError(RuntimeError):
    """Raised where another running process of the study has the name of this worker."""


class Heartbeat:
    """The heartbeat of one worker, and its view of the others."""

    def __init__(self, study: optuna.Study, worker: str, grace: float, say: Callable[[str], object]) -> None:
        self.worker, self.grace, self.interval = worker, grace, min(INTERVAL, grace / 5)
        self._say = say
        self._storage, self._study_id = study._storage, study._study_id
        self._me = {
            "host": platform.node(),
            "machine": _machine(),
            "process": os.getpid(),
            "began": _began(os.getpid()),
        }
        self._token, self._count = uuid.uuid4().hex, 0
        self._seen: dict[tuple[str | None, int], tuple[Any, float]] = {}  # who -> heartbeat, and when it came
        self._next_check = self._next_search = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Claim the name and begin to beat. Raises WorkerError where it belongs to a running process."""
        record = self._records().get(self.worker)
        if record is not None and not record.get("left") and self._lives(record):
            raise WorkerError(self._taken(record))
        self._write()
        self.check(force=True)
        self._thread = threading.Thread(target=self._keep, name=f"heartbeat of {self.worker}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop beating, and leave the name to the next process."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            with suppress(Exception):  # the storage may be what failed
                if self._records()[self.worker]["token"] == self._token:
                    self._write(left=True)

    def check(self, force: bool = False) -> None:
        """Raise WorkerError where another process has taken the name. Looks every `interval` seconds."""
        if force or time.monotonic() >= self._next_check:
            self._next_check = time.monotonic() + self.interval
            record = self._records()[self.worker]
            if record["token"] != self._token:
                raise WorkerError(self._taken(record))

    def is_time_to_search(self) -> bool:
        """Return True every `interval` seconds: then look for trials of dead workers."""
        if time.monotonic() < self._next_search:
            return False
        self._next_search = time.monotonic() + self.interval
        return True

    def is_dead(self, worker: str | None, trial: int) -> bool:
        """Return whether the owner of a running trial is dead. None: it never wrote its name (killed before it)."""
        record = self._records().get(worker) if worker else None
        who = (worker, -1 if worker else trial)
        beat = record and (record["token"], record["count"])
        now = time.monotonic()
        if who not in self._seen or self._seen[who][0] != beat:
            self._seen[who] = (beat, now)
        grace = max(self.grace, 4 * record["interval"]) if record else self.grace
        return now - self._seen[who][1] > grace

    def _records(self) -> dict[str, dict[str, Any]]:
        attributes = self._storage.get_study_user_attrs(self._study_id)
        return {k.removeprefix(ATTRIBUTE): v for k, v in attributes.items() if k.startswith(ATTRIBUTE)}

    def _write(self, left: bool = False) -> None:
        self._count += 1
        record = {**self._me, "token": self._token, "count": self._count, "interval": self.interval, "left": left}
        self._storage.set_study_user_attr(self._study_id, ATTRIBUTE + self.worker, record)

    def _keep(self) -> None:
        while not self._ended.wait(self.interval):
            with suppress(Exception):  # the storage may be gone for a while: the main thread tells
                if self._records()[self.worker]["token"] == self._token:
                    self._write()

    def _lives(self, record: dict[str, Any]) -> bool:
        """Whether the process of a heartbeat runs: looked up on this machine, watched on another."""
        if record["machine"] == self._me["machine"] and record["host"] == self._me["host"]:
            return _began(record["process"]) == record["began"] is not None
        seconds = 2.5 * record["interval"]
        self._say(f"worker {self.worker} ran on {record['host']}: watching {seconds:.0f} s whether it still does")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(min(1.0, record["interval"] / 2))
            now = self._records()[self.worker]
            if (now["token"], now["count"]) != (record["token"], record["count"]):
                return True
        return False

    def _taken(self, record: dict[str, Any]) -> str:
        return (
            f"a worker with the name {self.worker!r} runs already: process {record['process']} on {record['host']}. "
            f"Give this one another name (--worker NAME), or stop that one."
        )


def _machine() -> str:
    """A name of this boot of this machine, and of this container in it."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    return hex(uuid.getnode())


def _began(process: int) -> int | None:
    """When a process of this machine began, in ticks since the boot. None where there is no such process."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        pass
    if Path("/proc/self").exists():
        return None
    try:  # no /proc, as on macOS: whether it exists
        os.kill(process, 0)
    except OSError:
        return None
    return 0
