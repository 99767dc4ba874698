"""Workers that compile at the same time and measure in turn, so that nothing else runs on the machine meanwhile.

A worker is a process that prints COMPILED when its programs are ready, waits for a line of input, measures, and prints
each result at once as a line of JSON. A worker that fails or is late loses only what it had not printed yet.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Record = Callable[[dict[str, Any]], None]  # keeps a row


class Worker(NamedTuple):
    """A process that measures one thing or several, and what is known about each of its rows."""

    part: str
    command: tuple[str, ...]
    seconds: float  # that its turn may take
    facts: dict[str, Any] = {}  # written into each of its rows
    variables: dict[str, str] = {}  # environment variables, beside those of all workers
    takes_turns: bool = True  # False: it neither prints COMPILED nor waits; it runs while no other does


class Process:
    """A started worker. Its lines are read by a thread, so that waiting for one has a time limit."""

    def __init__(self, worker: Worker, variables: dict[str, str]) -> None:
        """Start the worker in a process group of its own, which `stop` ends with all that it started."""
        self.worker = worker
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with this object
        self._lines: queue.Queue[str] = queue.Queue()
        self._process = subprocess.Popen(
            worker.command,
            env={**os.environ, **variables, **worker.variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def follow(self, record: Record, until: str, deadline: float) -> str:
        """Record rows up to the line `until`, or to the end of the process. Returns "" or why it did not get there."""
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                return "its time was over"
            if line.startswith("{"):
                record({"part": self.worker.part, **self.worker.facts, **json.loads(line)})
            if not line:
                code = self._process.wait()
                return "" if not until and code == 0 else f"it ended with code {code}"
            if until and line.startswith(until):
                return ""

    def go(self) -> None:
        """Tell the worker that it is its turn."""
        assert self._process.stdin
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except OSError:
            return  # it has ended, which `follow` will say

    def stop(self) -> str:
        """End the worker and all processes that it started. Returns the end of what it wrote to its error output."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # a line that the worker did not read any more
                pipe.close()  # pyright: ignore[reportOptionalMemberAccess]  both are pipes
        with self._log as log:
            log.seek(0)
            return log.read()[-1500:]


def take_turns(
    workers: Sequence[Worker], record: Record, variables: dict[str, str], compile_seconds: float, deadline: float
) -> None:
    """Start all workers, wait until each has compiled, for `compile_seconds` at most, and let them measure in turn.

    `deadline`, in seconds of `time.monotonic`, is the end of all turns. A row says so where a worker did not finish.
    """
    compiled_by = min(time.monotonic() + compile_seconds, deadline)
    processes = [Process(worker, variables) for worker in workers]

    def end(process: Process, failure: str) -> None:
        processes.remove(process)
        log = process.stop()
        if failure:
            facts = {"part": process.worker.part, **process.worker.facts}
            record({**facts, "worker": Path(process.worker.command[1]).stem, "failed": failure, "log": log})

    try:
        ready = []
        for process in tuple(processes):
            failure = process.follow(record, "COMPILED", compiled_by) if process.worker.takes_turns else ""
            ready.append(process) if not failure else end(process, failure)
        for process in ready:
            process.go()
            end(process, process.follow(record, "", min(time.monotonic() + process.worker.seconds, deadline)))
    finally:
        for process in processes:
            process.stop()


def in_environment(root: Path, cache: Path) -> dict[str, str]:
    """Environment variables for all workers: this checkout's shoal, and one cache of compiled programs."""
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(root / "src"), os.environ.get("PYTHONPATH")))),
        "PYTHONUNBUFFERED": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
        "MEASURE_IN_TURN": "1",
    }
