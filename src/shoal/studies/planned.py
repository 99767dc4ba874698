"""A study before it begins, or goes on: its mistakes are reported; nothing is compiled or written."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.kinds import shown
from shoal.specs.options import GIVEN, OF_STUDY
from shoal.specs.settings import apply
from shoal.specs.spec import built, template
from shoal.studies.groups import Group, plan_groups
from shoal.studies.objectives import check_spaces
from shoal.studies.ray_workers import MOST_ON_A_CLUSTER, check_cluster
from shoal.studies.request import Values, new_study, study_to_resume
from shoal.studies.samplers import check_queue
from shoal.studies.search import Space, read_space
from shoal.studies.study import StudyFolder, StudySpec
from shoal.studies.worker_processes import worker_names
from shoal.training.jobs import bytes_of

DESCRIBING = ("agent", "env", "search", "enqueue", "fields", "env_fields", "preset", "name", *OF_STUDY, *GIVEN)
PLANNED = (*DESCRIBING, "root", "resume", "worker", "yes", "trust_source", "check", "devices", "memory_limit_gb")
OF_WORKERS = ("workers", "ray", "worker_cpus", "worker_gpus", "storage", "grace")


class PlannedStudy(NamedTuple):
    """A study that can be trained. `values` are its agent and its environment where they were given as values."""

    folder: StudyFolder
    spec: StudySpec
    space: Space
    groups: list[Group]  # with the slots of one worker
    queue: Sequence[Mapping[str, Any]]  # trials that come first
    values: Values


def plan_study(
    agent: str | Agent | None = None,
    env: str | Env | None = None,
    *,
    resume: Path | str | None = None,
    preset: Path | str | None = "",
    root: Path | str = "runs",
    worker: str = "w0",
    yes: bool = False,
    trust_source: bool = False,
    check: bool = True,
    devices: int = 0,
    memory_limit_gb: float = 0,
    **describing: Any,
) -> PlannedStudy:
    """Plan a study. The parameters are those of `shoal.tune`; `describing` has the others in `DESCRIBING`.

    Raises what `tune` raises before anything compiles.
    """
    given = {"agent": agent, "env": env, "preset": preset, **describing}
    request = {name: value for name, value in given.items() if _is_given(name, value)}
    values = (None if isinstance(agent, str) else agent, None if isinstance(env, str) else env)
    if resume is not None:
        folder, spec = study_to_resume(resume, request, values, trust_source)
    else:
        folder, spec = new_study(request, values, preset, Path(root), yes, check)
    queue = request.get("enqueue", ())
    space = read_space(apply(template(spec.run, *values), built({})), spec.search)
    check_queue(space, queue)
    limit = bytes_of(memory_limit_gb)
    groups = plan_groups(spec, space, *values, folder.worker(worker), devices=devices, memory_limit=limit)
    for group in groups:
        check_spaces(spec.objectives, group.plan.env, spec.run.env_name)
    return PlannedStudy(folder, spec, space, groups, queue, values)


def plan_workers(
    workers: int = 1,
    ray: str | None = None,
    worker_cpus: int = 1,
    worker_gpus: float = 0.0,
    storage: str | None = None,
    grace: float = 120.0,
) -> list[str]:
    """Return the names of the workers that the process of a study starts. The parameters are those of `shoal.tune`.

    Raises ValueError for numbers, an address or a storage that they cannot have. Nothing is started or connected.
    """
    if not 0 < grace < math.inf:
        raise ValueError(f"grace={shown(grace)} must be a number of seconds above 0.")
    if ray is None and (worker_cpus != 1 or worker_gpus):
        raise ValueError("worker_cpus and worker_gpus are for workers on a cluster: give ray (--ray) too.")
    if ray is not None:
        check_cluster(ray, worker_cpus, worker_gpus)
    names = worker_names(workers) if ray is None else worker_names(workers, MOST_ON_A_CLUSTER, "a cluster")
    if (workers > 1 or ray is not None) and storage == "memory":
        raise ValueError("several workers need a storage that all of them see: leave out storage='memory'.")
    return names


def _is_given(name: str, value: Any) -> bool:
    """Return whether an argument is not its default. A search that is empty was given: it is a mistake."""
    return value is not None and (name == "search" or value not in ("", (), [], {}))
