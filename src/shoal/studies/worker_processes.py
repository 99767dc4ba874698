"""The worker processes of a study: start them, show their output, pass Ctrl-C on.

They run on this machine (`run_workers`), or on the nodes of a cluster (`shoal.studies.ray_workers`).
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, NamedTuple

from shoal.training.stopping import REQUESTS, handled

POLLED = 0.2  # seconds between two polls of the processes and their output
MOST_WORKERS = 64
OUTPUT = "output.txt"
REQUESTED = [
    128 + getattr(signal, name) for name in REQUESTS if hasattr(signal, name)
]  # statuses of workers that stopped when asked


class News(NamedTuple):
    """The news of a worker."""

    lines: list[str]  # of output, since the last poll
    status: int | None  # as `subprocess.Popen.returncode`: None while the process runs


class WorkerProcess:
    """The process of a worker. Its output is a file: a pipe would break, and end it, if its reader were killed."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.output: IO[bytes] | None = None

    def begin(
        self, command: Sequence[str], folder: Path, variables: Mapping[str, str], directory: str | None = None
    ) -> int:
        """Start the process, in a session of its own, where it gets no signal of a terminal. Returns its number."""
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / OUTPUT, "wb") as output:
            self.process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
                cwd=directory,
                start_new_session=True,
            )
        self.output = open(folder / OUTPUT, "rb")  # noqa: SIM115 - open until the process has ended
        return self.process.pid

    def news(self) -> News:
        """Return the new lines of output, and whether the process has ended."""
        assert self.process is not None and self.output is not None
        status = self.process.poll()  # before its output is read, so that its last lines are
        lines = list(_lines_of(self.output, has_ended=status is not None))
        if status is not None:
            self.output.close()
        return News(lines, status)

    def send(self, signum: int) -> None:
        """Send a signal to the process. It does nothing to one that has ended."""
        if self.process is not None:
            self.process.send_signal(signum)


class Statuses:
    """The exit statuses of the workers that have ended. What the user is told about a worker goes to `say`."""

    def __init__(self, names: Iterable[str], say: Callable[[str], object]) -> None:
        self.ended: dict[str, int] = {}
        self._names, self.say = list(names), say

    @property
    def running(self) -> list[str]:
        """The names of the workers that have not ended."""
        return [name for name in self._names if name not in self.ended]

    def show(self, name: str, found: News) -> None:
        """Show the output of a worker, and its end, unless it was asked to stop: then it has said so itself."""
        for line in found.lines:
            self.say(f"[{name}] {line}")
        if found.status is not None:
            how = f"exit status {found.status}" if found.status > 0 else ""
            how = f"signal {signal.Signals(-found.status).name}" if found.status < 0 else how
            status = found.status if found.status >= 0 else 128 - found.status
            self.end(name, status, f"ended with {how}" if status and status not in REQUESTED else "")

    def end(self, name: str, status: int, how: str = "") -> None:
        """Note the status of a worker that has ended; say `how`, if it was lost, and how many go on."""
        self.ended[name] = status
        left = len(self.running)
        others = {0: "no other worker is left", 1: "1 other worker goes on"}.get(left, f"{left} other workers go on")
        if how:
            self.say(f"worker {name} {how}; {others}")


def command(**arguments: Any) -> list[str]:
    """Return the command of the process of a worker, which calls `shoal.tune` with these arguments."""
    # -P: files in the folder where it runs must not replace modules.
    return [sys.executable, "-P", "-m", f"{__package__}.worker_process", json.dumps(arguments)]


def worker_names(count: int, most: int = MOST_WORKERS, where: str = "one machine") -> list[str]:
    """Return `w0`, `w1`, ... Raises ValueError for fewer than 1 or more than `most` workers."""
    if not 1 <= count <= most:
        raise ValueError(f"--workers {count}: give 1 to {most} workers on {where}.")
    return [f"w{number}" for number in range(count)]


def run_workers(
    commands: Mapping[str, Sequence[str]],
    folder: Path,
    say: Callable[[str], object],
    env: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Run one command for each worker, by name, until all have ended; returns the exit status of each.

    The workers share the processor: where there are enough cores, each gets its own. What a worker prints is in
    `folder/NAME/output.txt`, and goes to `say` line by line, after its name. SIGINT, SIGTERM and SIGHUP are passed
    on to all workers. A worker that ends early is reported and not started again: the others take over its trials.
    If this process is killed, the workers go on. env: variables for the workers, such as those of
    `password_variables`.
    The status of a worker that a signal has killed is 128 + the signal.
    """
    statuses, workers = Statuses(commands, say), {name: WorkerProcess() for name in commands}

    def forward(signum: int, frame: FrameType | None) -> None:
        for worker in workers.values():
            worker.send(signum)

    with handled(forward):
        for name, cores in zip(commands, _shares(len(commands)), strict=True):
            process = workers[name].begin(commands[name], folder / name, env or {})
            if cores:
                with suppress(ProcessLookupError):  # it has ended
                    os.sched_setaffinity(process, cores)
        while statuses.running:
            time.sleep(POLLED)
            for name in statuses.running:
                statuses.show(name, workers[name].news())
    return statuses.ended


def _shares(count: int) -> list[list[int]]:
    """The cores of each worker: all cores, dealt out. Empty where there are fewer cores than workers, or no choice."""
    if not hasattr(os, "sched_getaffinity"):
        return [[]] * count
    cores = sorted(os.sched_getaffinity(0))
    return [cores[number::count] for number in range(count)] if len(cores) >= count > 1 else [[]] * count


def _lines_of(output: IO[bytes], has_ended: bool) -> Iterator[str]:
    """The lines that were added to a file. A line without an end is left for the next poll."""
    while line := output.readline():
        if not line.endswith(b"\n") and not has_ended:
            output.seek(-len(line), os.SEEK_CUR)
            return
        yield line.decode(errors="replace").rstrip()
