"""Programs of shoal, compiled at the same time in threads and measured one after the other: `--jobs` as JSON.

A job that steps environments with random actions is {"env", "num_envs"}; one that trains is {"agent", "agents", "env",
"fields", "updates"}. "form" changes fields of the form that shoal uses (`shoal.core.form`), or is "cpu" for the form of
a CPU; a change that leaves the program as it is is not measured. "profile": true adds the kernels, "repeats" says how
often to measure.
"""

import argparse
import hashlib
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--jobs", type=json.loads, required=True)
parser.add_argument("--threads", type=int, default=4)
parser.add_argument("--seconds", type=float, default=0.2, help="of each measurement, if it has less than `repeats`")
args = parser.parse_args()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from kernel_profile import profile  # noqa: E402

from shoal.core.form import CPU, Form, form_for, using  # noqa: E402
from shoal.core.keys import make_key  # noqa: E402
from shoal.core.registry import AGENTS, make  # noqa: E402
from shoal.core.struct import to_arrays  # noqa: E402
from shoal.studies.throughput import HORIZON, make_stepper  # noqa: E402
from shoal.training.program import begin, train_chunk  # noqa: E402

GRACE = 12  # seconds more for what is being compiled when the time is over, because it would disturb the others


class Work(NamedTuple):
    """The functions of a job, not yet traced: `carry = run(carry, units)[0]`."""

    begin: Callable[[], Any]  # makes the first carry
    run: Callable[[Any, Any], tuple[Any, Any]]
    units: int  # steps or updates of one call
    steps: int  # environment steps of one call, of all environments together


class Program(NamedTuple):
    """The compiled functions of a job."""

    begin: Callable[[], Any]
    run: Callable[[Any, Any], tuple[Any, Any]]
    work: Work
    facts: dict[str, Any]  # its form, a hash of the program before compilation, seconds of compilation


class Unchanged(Exception):
    """A change of the form that does not change the program."""


def stepping(job: dict[str, Any]) -> Work:
    """Steps of environments with random actions; every observation is computed and added to a sum."""
    env, size, steppers = make(job["env"]), job["num_envs"], []

    def start() -> tuple:
        steppers.append(make_stepper(env, size))
        return steppers[-1].carry

    return Work(start, lambda carry, _: steppers[-1].run(*carry), HORIZON, HORIZON * size)


def training(job: dict[str, Any]) -> Work:
    """Updates of a population, as a run does them, but without records, evaluations and checkpoints."""
    env = make(job["env"])
    horizon = {"horizon": 500_000} if hasattr(AGENTS[job["agent"]].build(), "horizon") else {}
    agent = to_arrays(AGENTS[job["agent"]].build(**horizon | job.get("fields", {})).bind(env))

    def start() -> Any:
        return jax.vmap(lambda seed: begin(agent, env, seed, make_key(0)))(jnp.arange(job["agents"]))

    def run(members: Any, updates: Any) -> tuple[Any, Any]:
        chunk = jax.vmap(lambda member, n: train_chunk(member, agent, env, None, jnp.int32(0), n), in_axes=(0, None))
        return chunk(members, updates)

    steps = agent.steps_per_update * job["agents"] * job["updates"]
    return Work(start, run, job["updates"], steps)


def form_of(job: dict[str, Any]) -> Form:
    """The form in which a job's program is written; on a CPU, where it can only be tried, that of a GPU."""
    if job.get("form") == "cpu":
        return CPU
    on_cpu = jax.default_backend() == "cpu"
    form = form_for("gpu" if on_cpu else jax.default_backend(), job.get("agents", 1))
    return form._replace(interpreted_kernels=on_cpu, **job.get("form", {}))


def compiled(job: dict[str, Any]) -> Program:
    """The program of a job. Raises Unchanged (see there)."""
    started, form = time.perf_counter(), form_of(job)
    work = (training if "agent" in job else stepping)(job)
    lowered, name = written(work, form)
    if job.get("form") and name == name_of_usual({**job, "form": {}}, work):
        raise Unchanged
    with using(form):
        first = jax.jit(lambda: work.begin()).lower()
    run = lowered.compile({} if jax.default_backend() == "cpu" else form.compiler_options)
    facts = {"program": name, "compile_s": time.perf_counter() - started, "form_values": form._asdict()}
    return Program(first.compile(), run, work, facts)


def written(work: Work, form: Form) -> tuple[Any, str]:
    """A program traced and lowered in a form, and a hash of its text and of the options of its compiler."""
    with using(form):
        carry = jax.eval_shape(lambda: work.begin())  # a new function each time, because JAX keeps what it has traced
        lowered = jax.jit(lambda *args: work.run(*args)).lower(carry, jax.ShapeDtypeStruct((), jnp.int32))
    text = lowered.as_text() + repr(form.compiler_options)
    return lowered, hashlib.sha256(text.encode()).hexdigest()[:12]


def name_of_usual(job: dict[str, Any], work: Work) -> str:
    """The hash of a job's program in the form that shoal uses; the first of the threads that needs it computes it."""
    with _lock:
        text = json.dumps(job)
        if text not in _names:
            _names[text] = written(work, form_of(job))[1]
        return _names[text]


_lock, _names = threading.Lock(), {}


def durations(program: Program, repeats: int) -> tuple[list[float], Any]:
    """(Seconds of each call, after one that is not counted; the last carry)."""
    units = jnp.int32(program.work.units)
    carry, _ = jax.block_until_ready(program.run(program.begin(), jnp.int32(1)))
    seconds: list[float] = []
    while len(seconds) < repeats or (repeats > 1 and sum(seconds) < args.seconds):
        started = time.perf_counter()
        carry, _ = jax.block_until_ready(program.run(carry, units))
        seconds.append(time.perf_counter() - started)
    return seconds, carry


def kernels(program: Program, job: dict[str, Any], carry: Any) -> dict[str, Any]:
    """The kernels of one step or of one update."""
    units = 1 if "agent" in job else program.work.units
    count = jnp.int32(units)
    return profile(lambda: jax.block_until_ready(program.run(carry, count)), units)


def row(job: dict[str, Any], **numbers: Any) -> None:
    """Print a result at once."""
    named = {name: value for name, value in job.items() if name not in ("profile", "repeats", "updates")}
    print(json.dumps({**named, "side": "shoal", **numbers}), flush=True)


def measured(job: dict[str, Any], compilation: Future[Program]) -> None:
    """Measure one job, and print its rows."""
    try:
        program = compilation.result(timeout=0)
        seconds, carry = durations(program, job.get("repeats", 3))
        median = statistics.median(seconds)
        units, rate = program.work.units, program.work.steps / median
        numbers = {"us_per_unit": median / units * 1e6, "least_us": min(seconds) / units * 1e6}
        row(job, **numbers, calls=len(seconds), steps_per_second=rate, **program.facts)
        if job.get("profile"):
            row(job, **kernels(program, job, carry))
    except Unchanged:
        row(job, unchanged=True)
    except (CancelledError, TimeoutError):
        row(job, error="it was not compiled in time")
    except Exception as error:  # such as too little memory; the other jobs are measured
        row(job, error=f"{type(error).__name__}: {str(error)[:300]}")


def main() -> None:
    """Compile all jobs, wait for the turn, and measure."""
    pool = ThreadPoolExecutor(args.threads)
    compilations = [pool.submit(compiled, job) for job in args.jobs]
    wait(compilations, timeout=float(os.environ.get("COMPILE_SECONDS", "600")))  # what takes longer is not measured
    pool.shutdown(wait=False, cancel_futures=True)
    wait([started for started in compilations if not started.cancelled()], timeout=GRACE)
    measure.wait_for_turn()
    for job in args.jobs:
        measured(job, compilations.pop(0))
    sys.stdout.flush()
    os._exit(0)  # a compilation that took too long is not waited for


main()
