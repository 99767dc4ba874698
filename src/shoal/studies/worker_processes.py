"""Several worker processes of one study on this machine: start them, show their output, pass Ctrl-C on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any

from shoal.training.stopping import REQUESTS

LOOK = 0.2  # seconds between two looks at the processes and their output
MOST_WORKERS = 64
OUTPUT = "output.txt"
REQUESTED = [
    128 + getattr(signal, name) for name in REQUESTS if hasattr(signal, name)
]  # statuses of workers that stopped when asked


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
    processes: dict[str, subprocess.Popen[bytes]] = {}
    outputs: dict[str, IO[bytes]] = {}

    def forward(signum: int, frame: FrameType | None) -> None:
        for process in processes.values():
            process.send_signal(signum)  # does nothing to one that has ended

    numbers = [getattr(signal, name) for name in REQUESTS if hasattr(signal, name)]
    before = {number: signal.signal(number, forward) for number in numbers}
    try:
        shares = _shares(len(commands))
        for (name, command), cores in zip(commands.items(), shares, strict=True):
            (folder / name).mkdir(parents=True, exist_ok=True)
            path = folder / name / OUTPUT
            processes[name] = _start(command, path, env or {}, cores)
            outputs[name] = open(path, "rb")  # noqa: SIM115 - closed below
        return _watch(processes, outputs, say)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for output in outputs.values():
            output.close()


def _start(command: Sequence[str], path: Path, env: Mapping[str, str], cores: Sequence[int]) -> subprocess.Popen[bytes]:
    with open(path, "wb") as output:
        # In a session of its own a process gets no signal from the terminal, which this process passes on. Its output
        # is a file, because a pipe would break, and end it, if this process were killed.
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **env},
            start_new_session=True,
        )
    if cores:
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(process.pid, cores)
    return process


def _shares(count: int) -> list[list[int]]:
    """The cores of each worker: all cores, dealt out. Empty where there are fewer cores than workers, or no choice."""
    if not hasattr(os, "sched_getaffinity"):
        return [[]] * count
    cores = sorted(os.sched_getaffinity(0))
    return [cores[number::count] for number in range(count)] if len(cores) >= count > 1 else [[]] * count


def _watch(
    processes: Mapping[str, subprocess.Popen[bytes]], outputs: Mapping[str, IO[bytes]], say: Callable[[str], object]
) -> dict[str, int]:
    statuses: dict[str, int] = {}
    while len(statuses) < len(processes):
        time.sleep(LOOK)
        for name, process in processes.items():
            status = process.poll()  # before its output is read, so that its last lines are
            for line in lines_of(outputs[name], has_ended=status is not None):
                say(f"[{name}] {line}")
            if status is not None and name not in statuses:
                statuses[name] = status if status >= 0 else 128 - status
                if status and status not in REQUESTED:  # a worker that was asked to stop has said so itself
                    how = f"exit status {status}" if status > 0 else f"signal {signal.Signals(-status).name}"
                    say(loss_in_words(name, f"ended with {how}", len(processes) - len(statuses)))
    return statuses


def loss_in_words(name: str, how: str, left: int) -> str:
    """Say that a worker has ended, and how many go on."""
    others = {0: "no other worker is left", 1: "1 other worker goes on"}.get(left, f"{left} other workers go on")
    return f"worker {name} {how}; {others}"


def lines_of(output: IO[bytes], has_ended: bool) -> Iterator[str]:
    """The lines that were added to a file. A line without an end is left for the next look."""
    while line := output.readline():
        if not line.endswith(b"\n") and not has_ended:
            output.seek(-len(line), os.SEEK_CUR)
            return
        yield line.decode(errors="replace").rstrip()
