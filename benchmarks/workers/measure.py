"""Functions that all workers use: the clock, the compile times of a JAX program, and the report.

A worker is a script that measures one thing in a fresh process and prints one line of JSON. It imports this module
first, so that the clock starts before large packages are imported.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

START = time.perf_counter()
PACKAGES = (
    "jax",
    "jaxlib",
    "numpy",
    "flax",
    "optax",
    "gymnax",
    "evosax",
    "flashbax",
    "rejax",
    "gymnasium",
    "navix",
    "envpool",
    "minigrid",
    "torch",
    "optuna",
    "shoal",
)


def seconds_since_start() -> float:
    """Seconds since this module was imported, which a worker does first."""
    return time.perf_counter() - START


def compile_phases(function: Callable, *arguments: Any) -> tuple[Callable, dict[str, float]]:
    """Trace, lower and compile a function. Returns the compiled function and the seconds of each phase."""
    import jax

    begin = time.perf_counter()
    traced = jax.jit(function).trace(*arguments)
    traced_at = time.perf_counter()
    lowered = traced.lower()
    lowered_at, cpu_at = time.perf_counter(), time.process_time()
    compiled = lowered.compile()
    phases = {"trace_s": traced_at - begin, "lower_s": lowered_at - traced_at}
    seconds = {"compile_s": time.perf_counter() - lowered_at, "compile_cpu_s": time.process_time() - cpu_at}
    return compiled, {**phases, **seconds}


def wait_for_turn() -> None:
    """Wait for a line of input if workers compile at the same time and measure in turn (benchmarks/turns.py)."""
    if os.environ.get("MEASURE_IN_TURN"):
        print("COMPILED", flush=True)
        sys.stdin.readline()


def repeat(advance: Callable[[], None], times: int) -> dict[str, list[float]]:
    """Call `advance` once without measuring, then `times` times; `advance` must wait for its own result.

    Processor time is measured beside wall time, because it varies less on a machine that does other work too.
    """
    advance()
    walls, cpus = [], []
    for _ in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        advance()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {"wall_s": walls, "cpu_s": cpus}


def report(**numbers: Any) -> None:
    """Print the measurements and the versions of the packages as one line of JSON."""
    versions = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    whole = {"process_s": seconds_since_start(), "process_cpu_s": time.process_time()}
    print(json.dumps({**numbers, **whole, "versions": versions, "argv": [Path(sys.argv[0]).name, *sys.argv[1:]]}))
