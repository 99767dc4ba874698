"""The workspace of a part: a folder, commands of shoal and scripts of others in processes of their own."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import shoal
from reproductions.reproduction import NotMeasured

WORKERS = Path(__file__).parents[1] / "benchmarks" / "workers"


class Done(NamedTuple):
    """A process that ended: its seconds and those of processors, with imports and compilation, and what it printed."""

    seconds: float
    cpu_seconds: float  # of all its threads together; on an idle machine a process takes at most that long
    output: str


class Workspace(NamedTuple):
    """The place where one part is measured."""

    folder: Path  # empty at the start
    python: str  # the Python that has the packages of others
    say: Callable[[str], None]  # prints a line about the progress

    def shoal(self, *words: Any) -> Done:
        """Run a command line of shoal in a fresh process, with an empty cache of compiled programs.

        Runs are written into the part's folder. Raises NotMeasured, with the error's last line, if it fails.
        """
        words = tuple(str(word) for word in words)
        with tempfile.TemporaryDirectory() as cache:
            variables = {
                "JAX_COMPILATION_CACHE_DIR": cache,
                "PYTHONPATH": os.pathsep.join(filter(None, (_source(), os.environ.get("PYTHONPATH")))),
            }
            return _run([sys.executable, "-m", "shoal", *words], f"shoal {' '.join(words)}", self.folder, variables)

    def peer(self, script: str, *words: Any, threads: int = 0) -> dict[str, Any]:
        """Run a script of `WORKERS` with `python`, and return the line of JSON that it prints last.

        It runs without a cache, and with the flags of XLA that shoal sets: small loops are several times as fast with
        them. `threads` are those of XLA, 0 for one on each core. `seconds` and `cpu_seconds`, of the whole process,
        are added. Raises NotMeasured, with the error's last line, if it fails.
        """
        command = [self.python, str(WORKERS / f"{script}.py"), *(str(word) for word in words)]
        variables = {"JAX_ENABLE_COMPILATION_CACHE": "false", **({"NPROC": str(threads)} if threads else {})}
        done = _run(command, f"the script {script}.py", self.folder, variables)
        answer = json.loads(done.output.splitlines()[-1])
        answer.pop("argv", None)  # it may hold paths of this machine
        return {**answer, "seconds": done.seconds, "cpu_seconds": done.cpu_seconds}


def _source() -> str:
    """The folder from which this shoal is imported."""
    return str(Path(shoal.__file__).parents[1])


def _run(command: list[str], name: str, folder: Path, variables: dict[str, str]) -> Done:
    begin, cpu_before = time.perf_counter(), _cpu_seconds_of_children()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment |= {"JAX_PLATFORMS": os.environ["JAX_PLATFORMS"]} if "JAX_PLATFORMS" in os.environ else {}
    done = subprocess.run(
        command, cwd=folder, env={**environment, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise NotMeasured(f"`{name}` failed: {lines[-1] if lines else f'status {done.returncode}'}")
    return Done(time.perf_counter() - begin, _cpu_seconds_of_children() - cpu_before, done.stdout)


def _cpu_seconds_of_children() -> float:
    """The processor time of all processes that this one has started and waited for."""
    times = os.times()
    return times.children_user + times.children_system
