"""How long a suite would take on this machine: measured in short trainings in a few of its environments.

The time of a run has four parts: compiling, training, evaluating, and the rest (set-up, records, checkpoints, figures
and videos). Each is measured in the same few environments and multiplied by how much of it all runs of the suite need:
sets of programs, environment steps, evaluations, runs. The estimate is the sum.

The measurements are kept beside the cache of compiled programs, so that a list of suites need not measure again.
"""

import dataclasses
import json
import math
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from shoal.core.agent import Agent
from shoal.specs.disk import replace
from shoal.studies.runs import run_job
from shoal.studies.suite_file import Suite
from shoal.studies.suites import ResumedTask, plan_suite
from shoal.studies.sweeps import Task
from shoal.training.folder import RunFolder, versions
from shoal.training.host import cache_dir, without_kept_programs
from shoal.training.program_store import ProgramStore, count_programs
from shoal.training.shapes import misfit
from shoal.training.stopping import Stopped

SAMPLES = 3  # environments of a suite that are measured
SHORTEST = 1.0  # seconds of a measured training
PARTS = ("compiling", "training", "evaluating", "rest")
SHAPE = {
    "agent": str,
    "seeds": int,
    "envs": [str],
    "of": int,
    **dict.fromkeys(PARTS, float),
    "day": str,
    "version": str,
}


class SuiteTime(NamedTuple):
    """The estimated time of a suite, and what was measured for it."""

    agent: str
    seeds: int
    envs: list[str]  # that were measured
    of: int  # the number of environments in which the agent can act
    compiling: float  # seconds of the whole suite, one run after the other
    training: float
    evaluating: float
    rest: float  # setting members up, records, checkpoints, figures and videos
    day: str
    version: str  # of shoal

    @property
    def seconds(self) -> float:
        """Seconds of the whole suite: the sum of its parts."""
        return self.compiling + self.training + self.evaluating + self.rest


class Costs(NamedTuple):
    """What a run costs, in seconds."""

    program: float  # compiling a set of programs
    step: float  # training one environment step of one member
    evaluation: float  # evaluating one member once
    rest: float  # everything else in a run


def suite_time(agent: str | Agent, suite: Suite, *, samples: int = SAMPLES, **options: Any) -> SuiteTime:
    """Measure how long a suite takes: train shortly in `samples` of its environments, evenly spaced in its list.

    Environments in which the agent cannot act, or whose files are missing, are left out. `options` are those of
    `train_suite`. Compiling counts as in the first run of all, with no program kept on disk. Raises Unsuited if the
    agent fits nowhere.
    """
    tasks = plan_suite(agent, suite, skip_unfit=True, **options).tasks
    chosen = [tasks[i] for i in sorted({round(i * (len(tasks) - 1) / max(samples - 1, 1)) for i in range(samples)})]
    try:
        costs = Costs(*map(statistics.mean, zip(*map(measured, chosen), strict=True)))
    except Stopped as stopped:  # with the command that resumes a run whose folder is gone
        raise Stopped("stopped. A measurement keeps nothing: begin it again.", stopped.signal) from None
    plans, spec = [task.plan for task in tasks], tasks[0].job.spec
    return SuiteTime(
        agent=spec.agent,
        seeds=spec.seeds,
        envs=[task.label for task in chosen],
        of=len(tasks),
        compiling=costs.program * count_programs(plans),
        training=costs.step * sum(plan.steps * plan.members for plan in plans),
        evaluating=costs.evaluation * sum(len(plan.eval_records) * plan.members for plan in plans),
        rest=costs.rest * len(plans),
        day=time.strftime("%Y-%m-%d"),
        version=versions()["shoal"],
    )


def measured(task: Task | ResumedTask) -> Costs:
    """Measure what a run costs, in two short trainings of all its members: a whole run, and one that only trains.

    The first has as many records as the run of the task, each after one update, with evaluations and figures. The
    second is long enough for its speed: `SHORTEST` seconds, and several times the steps before the first gradient step.
    """
    plan = task.plan
    members, per_update = plan.members, plan.agent.steps_per_update
    with TemporaryDirectory() as folder, without_kept_programs():
        store, begun = ProgramStore(), time.perf_counter()
        whole = _trained(task, RunFolder(Path(folder) / "whole"), plan.records, store)
        seconds = time.perf_counter() - begun
        updates = max(plan.records, 4 * math.ceil(float(plan.learns_from.max()) / per_update))
        while True:
            updates = min(updates, plan.updates_per_member)
            of_speed = RunFolder(Path(folder) / f"{updates}")
            spent = _trained(task, of_speed, updates, store, only_training=True)["train_seconds"]
            if spent >= SHORTEST or updates == plan.updates_per_member:
                break
            updates *= max(2, math.ceil(SHORTEST / max(spent, 1e-3)))
    step = spent / (updates * per_update * members)
    known = whole["compile_seconds"] + whole["eval_seconds"] + step * plan.records * per_update * members
    evaluations = max(1, len(plan.eval_records)) * members
    return Costs(whole["compile_seconds"], step, whole["eval_seconds"] / evaluations, max(0.0, seconds - known))


def _trained(
    task: Task | ResumedTask, folder: RunFolder, updates: int, store: ProgramStore, *, only_training: bool = False
) -> dict[str, Any]:
    """Train a shorter run of a task; return its summary.

    `only_training`: in one record, so that the time is not that of many short calls; without evaluations and figures.
    """
    without = {"records": 1, "evaluations": 0, "stop_at": None, "stop_at_mean": False} if only_training else {}
    spec = dataclasses.replace(task.job.spec, steps=updates * task.plan.agent.steps_per_update, **without)
    job = dataclasses.replace(task.job, spec=spec)
    return run_job(job, job.plan(), folder, figures=not only_training, store=store).summary


def kept_times() -> dict[str, SuiteTime]:
    """The measurements that were kept on this machine, by the name of the suite. A damaged file counts as none."""
    try:
        data = json.loads(_file().read_text())
        return {name: SuiteTime(**found) for name, found in data.items() if misfit(found, SHAPE) is None}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def keep_time(name: str, found: SuiteTime) -> None:
    """Keep the measurement of a suite on this machine."""
    times = {**kept_times(), name: found}
    text = json.dumps({suite: taken._asdict() for suite, taken in times.items()}, indent=1)
    _file().parent.mkdir(parents=True, exist_ok=True)
    replace(_file(), lambda path: path.write_text(text + "\n"))


def _file() -> Path:
    return cache_dir().parent / "suite-times.json"
