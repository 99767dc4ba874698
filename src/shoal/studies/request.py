"""The arguments of `tune` as a study: its folder and its spec; checked before anything compiles."""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.registry import AGENTS, ENVS
from shoal.population.slots import check_score
from shoal.specs.options import MAY_CHANGE_OF_STUDY, OF_STUDY, OPTIONS, StudyOptions
from shoal.specs.settings import AgentEnv, apply, join
from shoal.specs.sources import hashes_of, values_with_trusted_files
from shoal.specs.spec import built, changes_of, run_name, template
from shoal.studies.makers import own_functions, written
from shoal.studies.objectives import read_objectives
from shoal.studies.samplers import check_names, grid_size
from shoal.studies.search import MOST_SHAPES, read_space
from shoal.studies.study import StudyFolder, StudySpec
from shoal.training.folder import RunFolder, named
from shoal.training.jobs import make_job
from shoal.training.own_code import check_user_env
from shoal.training.policy import check_complete
from shoal.viz.importance import check_importance

Values = tuple[Agent | None, Env | None]  # where they were given as values, not as names
OF_TRIALS = {"seeds": 4, "records": 9, "evaluations": 0}  # the defaults of `tune` that are not those of a run


def new_study(
    request: Mapping[str, Any], values: Values, preset: Path | str | None, root: Path, yes: bool, check: bool
) -> tuple[StudyFolder, StudySpec]:
    """Return the folder and the spec of a new study. Raises ValueError or TypeError for what cannot work.

    `request` has the arguments of `tune` that were given.
    """
    if "agent" not in request or "env" not in request:
        raise TypeError('tune needs an agent and an environment: shoal.tune("ppo", "CartPole-v1").')
    texts = {kind: written(kind, request[kind]) for kind in ("sampler", "pruner") if kind in request}
    asked = StudyOptions(**{name: {**request, **texts}[name] for name in OF_STUDY if name in request})
    options = {**OF_TRIALS, **{name: request[name] for name in OPTIONS if name in request}}
    records = options["records"]
    if options["evaluations"] not in (0, records):
        raise ValueError(
            f"either every record of a trial has an evaluation or none has: use evaluations=0 or evaluations={records}."
        )
    fields, env_fields = dict(request.get("fields", {})), dict(request.get("env_fields", {}))
    job = make_job(request["agent"], request["env"], preset=preset, fields=fields, env_fields=env_fields, **options)
    if job.spec.varying:
        raise ValueError(
            f"the trials set the hyperparameters, but {', '.join(job.spec.varying)} has several values: give one, or "
            f"search it."
        )
    search, fixed = request.get("search"), set(join(fields, env_fields))
    for value, registry, prefix in ((values[0], AGENTS, ""), (values[1], ENVS, "env.")):
        own = changes_of(value, registry)[0] if value is not None else ()
        fixed |= {f"{prefix}{path}" for path in own} if search is None else set()
    pair: AgentEnv = apply(template(job.spec, *values), built({}))
    space = read_space(pair, search, fixed)
    objectives = read_objectives(asked.objectives)
    sampler, pruner = check_names(asked.sampler, asked.pruner, records, space, len(objectives))
    check_score(asked.score)
    check_importance(asked.importance)
    if space.shape_count > MOST_SHAPES and not yes:
        many = ", ".join(f"{dimension.path} ({len(dimension.grid())})" for dimension in space.static)
        raise ValueError(
            f"this search has {space.shape_count} program shapes, each of which compiles once: {many}. Search fewer "
            f"static values, or say that it may take that long with --yes (yes=True)."
        )
    if sampler == "grid" and "enqueue" in request:
        raise ValueError("a grid trains all combinations of its values: leave enqueue out, or choose another sampler.")
    trials = asked.trials
    if sampler == "grid":
        trials = min(request.get("trials", math.inf), grid_size(space))
    if check:
        check_user_env(job.first.env)
    name = request.get("name") or _free_name(root, run_name(job.spec.agent, job.spec.env_name, "study"))
    chosen = {"trials": trials, "parallel": min(asked.parallel, trials), "sampler": sampler, "pruner": pruner}
    sources = hashes_of(own_functions(sampler, pruner).values())
    options = {**vars(asked), **chosen, "objectives": objectives, "sources": sources}
    return StudyFolder(named(root, name)), StudySpec(name, job.spec, space.described(), **options)


def study_to_resume(
    path: Path | str, request: Mapping[str, Any], values: Values, trust_source: bool
) -> tuple[StudyFolder, StudySpec]:
    """Return the folder and the spec of a study to go on with."""
    folder = StudyFolder(path)
    spec = folder.read_spec()
    changes = {name: request[name] for name in MAY_CHANGE_OF_STUDY if name in request}
    for name, value in request.items():
        if not (name in changes or name in ("agent", "env") and value in values):
            raise ValueError(
                f"{name}={str(value):.40} is for a new study; resume continues {path} as it is. Leave it out."
            )
    run = check_complete(RunFolder(folder.path), *values, trust_source=trust_source, spec=spec.run)
    if changes.get("trials", spec.trials) < spec.trials:
        raise ValueError(
            f"{path} has {spec.trials} trials: give trials={spec.trials} or more to extend it, or leave it out."
        )
    check_importance(changes.get("importance", spec.importance))
    own = own_functions(spec.sampler, spec.pruner)
    may_run = values_with_trusted_files(own, spec.run_with_sources, folder.path, trust_source=trust_source)
    moved = {
        kind: text.replace(own[text].name, may_run[text].name, 1)
        for kind, text in (("sampler", spec.sampler), ("pruner", spec.pruner))
        if text in own
    }
    return folder, dataclasses.replace(spec, run=run, **moved, **changes)


def _free_name(root: Path, stem: str) -> str:
    """Return the first of STEM, STEM-2, ... that no folder has."""
    names = itertools.chain([stem], (f"{stem}-{n}" for n in itertools.count(2)))
    return next(name for name in names if not (root / name).exists())
