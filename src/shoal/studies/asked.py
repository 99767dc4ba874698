"""What a study was asked to do, as its folder and its spec; checked before anything compiles."""

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import in_digits
from shoal.core.registry import AGENTS, ENVS
from shoal.population.slots import check_score
from shoal.specs.settings import Setting, apply, join
from shoal.specs.spec import built, changes_of, run_name, template
from shoal.studies.objectives import read_objectives
from shoal.studies.samplers import check_names, grid_size
from shoal.studies.search import MOST_SHAPES, read_space
from shoal.studies.study import StudyFolder, StudySpec
from shoal.training.folder import RunFolder, named
from shoal.training.jobs import make_job
from shoal.training.own_code import check_env_of
from shoal.training.policy import check_complete

Values = tuple[Agent | None, Env | None]  # where they were given as values, not as names
TRIALS, PARALLEL, SEEDS, RECORDS = 100, 16, 4, 9  # the defaults


def new_study(
    asked: Mapping[str, Any],
    values: Values,
    trials: int | None,
    preset: Path | str | None,
    root: Path,
    yes: bool,
    check: bool,
) -> tuple[StudyFolder, StudySpec]:
    """Return the folder and the spec of a new study. Raises ValueError or TypeError for what cannot work."""
    agent, env = asked["agent"], asked["env"]
    if agent is None or env is None:
        raise TypeError('tune needs an agent and an environment: shoal.tune("ppo", "CartPole-v1").')
    sizes = {"trials": trials, **{name: asked[name] for name in ("parallel", "seeds", "steps", "records")}}
    for size, given in sizes.items():
        if given is not None and not 1 <= given < 2**63:
            raise ValueError(f"{size}={in_digits(given)} must be at least 1 and fit in 64 bits.")
    records = asked["records"] or RECORDS
    evaluations = asked["evaluations"] or 0
    if evaluations not in (0, records):
        raise ValueError(
            f"either every record of a trial has an evaluation or none has: use evaluations=0 or evaluations={records}."
        )
    options = {name: asked[name] for name in ("seed", "eval_episodes", "eval_max_steps") if asked[name] is not None}
    fields, env_fields = dict(asked["fields"] or {}), dict(asked["env_fields"] or {})
    job = make_job(
        agent,
        env,
        preset=preset,
        steps=asked["steps"],
        fields=fields,
        env_fields=env_fields,
        seeds=asked["seeds"] or SEEDS,
        records=records,
        evaluations=evaluations,
        **options,
    )
    if job.spec.varying:
        raise ValueError(
            f"the trials set the hyperparameters, but {', '.join(job.spec.varying)} has several values: give one, or "
            f"search it."
        )
    fixed = set(join(fields, env_fields))
    for value, registry, prefix in ((values[0], AGENTS, ""), (values[1], ENVS, "env.")):
        own = changes_of(value, registry)[0] if value is not None else ()
        fixed |= {f"{prefix}{path}" for path in own} if asked["search"] is None else set()
    setting: Setting = apply(template(job.spec, *values), built({}))
    space = read_space(setting, asked["search"], fixed)
    objectives = read_objectives(asked["objectives"])
    names = (asked["sampler"] or "tpe", asked["pruner"] or "")
    sampler, pruner = check_names(*names, records, space, len(objectives))
    score = asked["score"] or "mean"
    check_score(score)
    if space.shape_count > MOST_SHAPES and not yes:
        many = ", ".join(f"{each.path} ({len(each.grid())})" for each in space.static)
        raise ValueError(
            f"this search has {space.shape_count} program shapes, each of which compiles once: {many}. Search fewer "
            f"static values, or say that it may take that long with --yes (yes=True)."
        )
    if sampler == "grid" and asked["enqueue"]:
        raise ValueError("a grid trains all combinations of its values: leave enqueue out, or choose another sampler.")
    most = grid_size(space) if sampler == "grid" else None
    trials = trials or most or TRIALS
    trials = trials if most is None else min(trials, most)
    if check:
        check_env_of(job)
    name = asked["name"] or _free_name(root, run_name(job.spec.agent, job.spec.env_name, "study"))
    spec = StudySpec(
        name=name,
        run=job.spec,
        search=space.described(),
        trials=trials,
        parallel=min(asked["parallel"] or PARALLEL, trials),
        sampler=sampler,
        pruner=pruner,
        score=score,
        objectives=objectives,
        storage=asked["storage"] or "",
    )
    return StudyFolder(named(root, name)), spec


def study_to_resume(
    path: Path | str, asked: Mapping[str, Any], values: Values, trials: int | None, trust_source: bool
) -> tuple[StudyFolder, StudySpec]:
    """Return the folder and the spec of a study to go on with."""
    folder = StudyFolder(path)
    spec = folder.read_spec()
    for name, value in asked.items():
        if value is not None and not (name in ("agent", "env") and value in values):
            raise ValueError(
                f"{name}={str(value):.40} is for a new study; resume continues {path} as it is. Leave it out."
            )
    run = check_complete(RunFolder(folder.path), *values, trust_source=trust_source, spec=spec.run)
    if trials is not None and trials < spec.trials:
        raise ValueError(
            f"{path} has {spec.trials} trials: give trials={spec.trials} or more to extend it, or leave it out."
        )
    return folder, dataclasses.replace(spec, run=run, trials=trials or spec.trials)


def _free_name(root: Path, stem: str) -> str:
    """Return the first of STEM, STEM-2, ... that no folder has."""
    names = itertools.chain([stem], (f"{stem}-{n}" for n in itertools.count(2)))
    return next(name for name in names if not (root / name).exists())
