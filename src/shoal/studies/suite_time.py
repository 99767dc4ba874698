"""How long a suite would take on this machine: measured in short trainings in a few of its environments.

The measurements are kept beside the cache of compiled programs, so that a list of suites need not measure again.
"""

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shoal.core.agent import Agent
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import ENVS
from shoal.specs.disk import replace
from shoal.studies.suite_file import Suite, start_error
from shoal.studies.sweeps import Task, plan_env
from shoal.training.folder import versions
from shoal.training.host import cache_dir, usable_cores
from shoal.training.plan import Plan
from shoal.training.population import Population
from shoal.training.shapes import misfit

SAMPLES = 3  # environments of a suite that are measured
SHORTEST = 1.0  # seconds of a measurement
SHAPE = {"agent": str, "seeds": int, "envs": [str], "of": int, "seconds": float, "day": str, "version": str}


class SuiteTime(NamedTuple):
    """The estimated time of a suite, and what was measured for it."""

    agent: str
    seeds: int
    envs: list[str]  # that were measured
    of: int  # the number of environments in which the agent can act
    seconds: float  # of the whole suite, with compilation and evaluations, one run after the other
    day: str
    version: str  # of shoal


def suite_time(agent: str | Agent, suite: Suite, *, samples: int = SAMPLES, **options: Any) -> SuiteTime:
    """Measure how long a suite takes: train shortly in `samples` of its environments, evenly spaced in its list.

    The time of a run is that of compiling, training all its steps and evaluating; a suite takes the mean of the
    measured runs times the number of its environments. `options` are those of `train_suite`. Programs that runs share
    are counted for each run, so the estimate is too high where they do. Raises Unsuited if the agent fits nowhere.
    """
    at = {round(i * (len(suite.levels) - 1) / max(samples - 1, 1)) for i in range(samples)}
    tasks: list[Task] = []
    reason = ""
    for number in at:
        level = suite.levels[number]
        if isinstance(level.env, str) and start_error(ENVS[level.env].build()):
            continue  # a file is missing
        try:
            tasks += plan_env(agent, level.env, env_fields=level.fields, is_named=True, **options)
        except Unsuited as error:
            reason = str(error)
    if not tasks:
        raise Unsuited(f"none of the environments of {suite.name} that are measured fits the agent. {reason}")
    count = len(suite.levels) - (len(at) - len(tasks))
    seconds = sum(_seconds(task.plan) for task in tasks) / len(tasks) * count
    spec, envs = tasks[0].job.spec, [task.label for task in tasks]
    return SuiteTime(spec.agent, spec.seeds, envs, count, seconds, time.strftime("%Y-%m-%d"), versions()["shoal"])


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
    text = json.dumps({each: kept._asdict() for each, kept in times.items()}, indent=1)
    _file().parent.mkdir(parents=True, exist_ok=True)
    replace(_file(), lambda path: path.write_text(text + "\n"))


def _file() -> Path:
    return cache_dir().parent / "suite-times.json"


def _seconds(plan: Plan) -> float:
    """Measure how long the run of a plan takes, from a short training of as many of its members as there are cores."""
    measured = plan.members if plan.placement.mesh else min(plan.members, usable_cores())
    population = Population(plan.of_members(np.arange(measured)), make_key(0))
    compiling = population.compile()
    population.begin()
    population.advance(0, 1)  # the first call is slower
    clock, updates, spent = 1, 1, 0.0
    while spent < SHORTEST and (spent == 0 or clock < plan.updates_per_member):
        updates, begun = 2 * updates, time.perf_counter()
        population.advance(clock, updates)
        clock, spent = clock + updates, time.perf_counter() - begun
    begun = time.perf_counter()
    population.evaluate(make_key(1))
    evaluating = time.perf_counter() - begun
    training = spent / updates * plan.updates_per_member
    return compiling + (training + evaluating * len(plan.eval_records)) * plan.members / measured
