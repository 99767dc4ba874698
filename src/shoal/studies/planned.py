"""A study before it begins, or goes on: its mistakes are reported; nothing is compiled or written."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.specs.options import GIVEN, OF_STUDY
from shoal.specs.settings import apply
from shoal.specs.spec import built, template
from shoal.studies.groups import Group, plan_groups
from shoal.studies.objectives import check_spaces
from shoal.studies.request import Values, new_study, study_to_resume
from shoal.studies.samplers import check_queue
from shoal.studies.search import Space, read_space
from shoal.studies.study import StudyFolder, StudySpec
from shoal.training.jobs import bytes_of

DESCRIBING = ("agent", "env", "search", "enqueue", "fields", "env_fields", "preset", "name", *OF_STUDY, *GIVEN)
PLANNED = (*DESCRIBING, "root", "resume", "worker", "yes", "trust_source", "check", "devices", "memory_limit_gb")


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
        check_spaces(spec.objectives, group.plan.env)
    return PlannedStudy(folder, spec, space, groups, queue, values)


def _is_given(name: str, value: Any) -> bool:
    """Return whether an argument is not its default. A search that is empty was given: it is a mistake."""
    return value is not None and (name == "search" or value not in ("", (), [], {}))
