"""Measure what tracking costs a study, and the memory of a study of 10,000 trials.

    python benchmarks/study_tracking.py [--only plain mlflow memory]

plain, mlflow   The same study of 1,000 trials with 100 records each, without and with `track="mlflow"`: one child run
                with 100 points for every trial, in MLflow's own SQLite store. The random sampler and no pruner make
                both train the same. Each part is a fresh process; its time is that of the process, with compilation
                and with the wait for the tracker at the end. The mlflow part counts runs and points in the store.
memory          A study of 10,000 short trials: the memory of the process (resident set) while trials end.

What tracking adds depends on the number of trials and points, not on how long they train: it is given in seconds, as
a share of `plain`, and as a share of ten minutes. Results are merged into results/study-tracking.json, so that each
part can be run on its own; `plain` and `mlflow` should run one after the other. They take ten minutes each on two
CPU cores, `memory` less than one.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import run

STUDIES = {  # arguments of `shoal.tune`
    "plain": {"trials": 1_000, "parallel": 25, "seeds": 1, "steps": 12_500_000, "records": 100},
    "memory": {"trials": 10_000, "parallel": 200, "seeds": 1, "steps": 2_000, "records": 2},
}
STUDIES["mlflow"] = {**STUDIES["plain"], "track": "mlflow"}
OUT = run.HERE / "results" / "study-tracking.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(STUDIES), default=["plain", "mlflow", "memory"])
    parser.add_argument("--trials", type=int, help="instead of 1,000 and 10,000")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--worker", choices=tuple(STUDIES), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return
    report = json.loads(options.out.read_text()) if options.out.exists() else {}
    for part in options.only:
        command = f"python benchmarks/study_tracking.py --only {part}"
        report[part] = {"command": command, **measure(part, options), "machine": run.machine_without_command()}
        print(part, json.dumps({k: v for k, v in report[part].items() if k != "machine"}), flush=True)
        options.out.write_text(json.dumps(report | summary(report), indent=1) + "\n")
    print(json.dumps(summary(report), indent=1))


def worker(options: argparse.Namespace) -> None:
    """Run one study in this process and print its numbers."""
    import shoal

    shoal.prepare()
    memory = Memory()
    arguments: dict[str, Any] = STUDIES[options.worker]
    if options.trials:
        arguments = {**arguments, "trials": options.trials}
    result = shoal.tune(
        "q-learning",
        "FrozenLake-v1",
        search={"learning_rate": (1e-3, 1.0, "log"), "discount": (0.9, 1.0)},
        sampler="random",
        pruner="none",
        preset=None,
        fresh_seeds=0,
        figures=False,
        name=options.worker,
        root=options.folder,
        sinks=[memory],
        **arguments,
    )
    (slots,) = result.summary["workers"].values()
    sizes = {name: value for name, value in arguments.items() if name != "track"}
    print(json.dumps({**sizes, "states": result.summary["trials"], "slots": slots, "memory": memory.by_trials()}))


class Memory:
    """A sink that reads the resident memory of this process after every chunk of a study."""

    def __init__(self) -> None:
        self.readings: list[tuple[int, float]] = []  # (trials that have ended, MB)

    def receive(self, event: Any) -> None:
        """Read the memory if a chunk was trained."""
        if hasattr(event, "finished"):
            status = Path("/proc/self/status").read_text()
            kilobytes = int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))  # type: ignore[union-attr]
            self.readings.append((event.finished, kilobytes / 1024))

    def by_trials(self) -> dict[int, float]:
        """The largest memory in MB by the number of trials that have ended, in ten ranges."""
        ended, memory = np.array(self.readings).T
        edges = np.linspace(0, ended.max(), 11)
        return {round(high): round(memory[ended <= high].max(), 1) for high in edges[1:]}


def measure(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run a worker in a fresh process with an empty cache of compiled programs."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, __file__, "--worker", part, "--folder", place]
        command += ["--trials", str(options.trials)] * bool(options.trials)
        begin = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=place)
        seconds = time.perf_counter() - begin
        found = json.loads(done.stdout.splitlines()[-1])
        tracked = counts_in_mlflow(Path(place)) if part == "mlflow" else {}
    return {
        "seconds": round(seconds, 1),
        "trials_per_hour": round(3600 * found["trials"] / seconds),
        **found,
        **tracked,
    }


def counts_in_mlflow(place: Path) -> dict[str, Any]:
    """The numbers of finished child runs and of points in the SQLite store of a folder."""
    import sqlite3

    (store,) = place.rglob("mlflow.db")
    with sqlite3.connect(store) as database:
        (children,) = database.execute("SELECT count(*) FROM tags WHERE key = 'mlflow.parentRunId'").fetchone()
        (points,) = database.execute("SELECT count(*) FROM metrics").fetchone()
        states = dict(database.execute("SELECT status, count(*) FROM runs GROUP BY status").fetchall())
    return {"child_runs": children, "points": points, "run_states": states}


def summary(report: dict[str, Any]) -> dict[str, Any]:
    """The seconds that tracking adds to the study, and the memory that the last nine tenths of the trials add."""
    found = {}
    if "plain" in report and "mlflow" in report:
        plain, tracked = report["plain"]["seconds"], report["mlflow"]["seconds"]
        seconds = round(tracked - plain, 1)
        found["added_by_mlflow"] = {
            "seconds": seconds,
            "of_plain": round(seconds / plain, 3),
            "of_ten_minutes": round(seconds / 600, 3),
        }
    if "memory" in report:
        first, *_, last = report["memory"]["memory"].values()
        found["memory_mb"] = {"first_tenth": first, "whole": last, "added": round(last - first, 1)}
    return found


if __name__ == "__main__":
    main()
