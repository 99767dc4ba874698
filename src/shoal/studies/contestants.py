"""The contestants of a race: what a user names, as jobs that train some of its seeds."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import did_you_mean
from shoal.core.registry import AGENTS, ENVS, SELECTORS
from shoal.specs.describe import name_of
from shoal.specs.options import MOST_SEEDS, target_of
from shoal.specs.settings import setting_in_words
from shoal.specs.spec import RunSpec, changes_of, file_name
from shoal.training.comparison import env_differences
from shoal.training.jobs import Job, make_job
from shoal.training.preset_file import is_file
from shoal.training.records import member_scores, steps_to

PARTS = ("name", "agent", "env", "fields", "preset", "selector", "seeds", "seed", "steps", "init", "found")
Given = str | Path | Agent | Mapping[str, Any]  # a contestant as a user gives it


class Contestant(NamedTuple):
    """One of several learners that race against each other."""

    name: str
    job: Job  # of its first seed; with a selector, of the population that is its first seed

    @property
    def folder(self) -> str:
        """The name of the folder of its runs."""
        return file_name(self.name.replace(" ", ","))

    @property
    def is_population(self) -> bool:
        """Whether one seed of it is a whole population with a selector, and the score that of the best member."""
        return self.job.spec.selector is not None

    def jobs(self, first: int, last: int) -> dict[str, Job]:
        """Return what trains the race's seeds from `first` to `last`, which is left out, by the names of run folders.

        They are the members of one run, or the populations of several.
        """
        spec, count = self.job.spec, last - first
        first += spec.first_seed
        if self.is_population:
            seeds = {f"seed-{i}": {"seed": spec.seed + i, "first_seed": 0} for i in range(first, first + count)}
        else:
            seeds = {f"seeds-{first}-{first + count - 1}": {"first_seed": first, "seeds": count}}
        return {
            f"{self.folder}/{name}": dataclasses.replace(self.job, spec=dataclasses.replace(spec, **changes))
            for name, changes in seeds.items()
        }

    def scores(self, curves: Mapping[str, np.ndarray], fitness: str, most: int) -> Float[np.ndarray, "S"]:
        """Return the scores of the seeds of a run with these curves, larger ones for better ones; NaN for none.

        For steps to a return they are the negative steps, at most `most`.
        """
        target = target_of(fitness)
        found = member_scores({**curves}, fitness) if target is None else -steps_to({**curves}, target, most)
        if not self.is_population:
            return found
        return np.array([np.nanmean(found) if fitness == "whole" else np.fmax.reduce(found)])


def make_contestants(
    given: Sequence[Given], env: str | Env | None, options: Mapping[str, Any], *, trust_source: bool = False
) -> list[Contestant]:
    """Return the contestants of a new race. `options` are arguments of `shoal.train` that all of them have.

    Raises ValueError or TypeError for what is no contestant, for fewer than two, for two that are the same, and where
    they are not in the same environment.
    """
    if len(given) < 2:
        alone = f" {given[0]!r:.40} is alone." if given else ""
        raise ValueError(f"a race needs two or more contestants.{alone} As in `shoal race ppo dqn --env CartPole-v1`.")
    parts = [_parts(contestant) for contestant in given]
    _check_common(env, options)
    found = []
    for contestant, one in zip(given, parts, strict=True):
        with in_errors(one.get("name") or contestant):
            job = _job(one, env, options, trust_source)
            found.append(Contestant(one.get("name") or _name(one, job), job))
    _check_different(found)
    _check_same_env(found)
    return found


@contextmanager
def in_errors(contestant: Given) -> Iterator[None]:
    """Name a contestant in the message of an error."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        error.args = (f"the contestant {contestant!r:.60}: {error}",)
        raise


def _check_common(env: str | Env | None, options: Mapping[str, Any]) -> None:
    """Raise what `shoal.train` raises for options that all contestants have, so that no contestant is named for it."""
    if isinstance(env, str):
        ENVS[env].build(**options.get("env_fields", {}))
    RunSpec("", "", **{name: value for name, value in options.items() if name != "env_fields"})


def _parts(contestant: Given) -> dict[str, Any]:
    """Return the arguments of `shoal.train` that a contestant stands for, and its name if it has one."""
    if isinstance(contestant, Mapping):
        for name in contestant:
            if name not in PARTS:
                raise TypeError(
                    f"a contestant has no {name!r}.{did_you_mean(name, PARTS)} It may have: {', '.join(PARTS)}. What "
                    f"all contestants have is an argument of the race."
                )
        if not ("agent" in contestant or "preset" in contestant):
            raise ValueError(f"the contestant {dict(contestant)!r:.60} needs an agent, or a preset file that names it.")
        return dict(contestant)
    if isinstance(contestant, Agent):
        return {"agent": contestant}
    if isinstance(contestant, (str, Path)):
        return {"preset": contestant, "agent": None} if is_file(contestant) else {"agent": contestant}
    raise TypeError(
        f"{contestant!r:.60} is no contestant: give the name of an agent, an agent such as shoal.PPO(), a preset file, "
        f"or a dict such as {{'agent': 'ppo', 'fields': {{'learning_rate': 1e-3}}}}."
    )


def _job(parts: Mapping[str, Any], env: str | Env | None, options: Mapping[str, Any], trust_source: bool) -> Job:
    """Return the job of the first seed of a contestant."""
    own = {name: value for name, value in parts.items() if name in PARTS[3:] and name != "seeds" and value is not None}
    own = {"preset": "", **own, "env": parts.get("env", env), "agent": parts.get("agent")}
    if env is not None and "env" in parts and parts["env"] != env:
        raise ValueError(f"it names the environment {parts['env']}, and the race is on {env}: leave one out.")
    if own["env"] is None and not is_file(own["preset"]):
        raise ValueError("a race needs an environment: --env CartPole-v1 (env=), or preset files that name it.")
    has_selector = parts.get("selector") is not None
    if has_selector and parts.get("seeds") is None:
        raise ValueError(
            f"the selector {_selector_name(parts['selector'])} needs a population: say how many members each seed of "
            f"the contestant has, as in 'ppo selector=pbt seeds=16' (seeds= in a dict). Its score is that of the best "
            f"of them."
        )
    if has_selector:
        own["seeds"] = parts["seeds"]
    elif "seeds" in parts:
        raise ValueError(
            "seeds of a contestant are the members of a population with a selector, and it has none: the race itself "
            "chooses how many seeds it trains (at_most, batch)."
        )
    job = make_job(**{**options, **own}, trust_source=trust_source)
    spec = job.spec
    if spec.varying:
        raise ValueError(
            f"{', '.join(spec.varying)} has several values, and a contestant has one: name a contestant for each."
        )
    return job if has_selector else dataclasses.replace(job, spec=dataclasses.replace(spec, seeds=1))


def _selector_name(selector: Any) -> str:
    return selector if isinstance(selector, str) else name_of(selector, SELECTORS)[0]


def _name(parts: Mapping[str, Any], job: Job) -> str:
    """Return a name for a contestant: its agent, with what differs from the defaults; or its preset file."""
    agent, preset = parts.get("agent"), parts.get("preset")
    changed = dict(parts.get("fields", {}))
    if isinstance(agent, Agent):
        changed = {**changes_of(agent, AGENTS)[0], **changed}
    words = [Path(preset).name] if preset and is_file(preset) else [job.spec.agent.rpartition(":")[2]]
    words += [f"preset={preset}"] if preset and not is_file(preset) else []
    words += [setting_in_words({path: _in_short(value) for path, value in changed.items()})]
    words += [f"{name}={parts[name]}" for name in ("seed", "steps", "seeds") if parts.get(name) is not None]
    words += [f"selector={_selector_name(parts['selector'])}"] if parts.get("selector") is not None else []
    return " ".join(filter(None, words))


def _in_short(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str)) or value is None else f"{value}".replace(" ", "")


def _check_different(found: Sequence[Contestant]) -> None:
    """Raise ValueError for two contestants that train the same, or that have the same name."""
    first: dict[str, str] = {}
    for contestant in found:
        content = json.dumps(contestant.job.spec.to_json(), sort_keys=True, default=str)
        if content in first:
            raise ValueError(
                f"{first[content]} and {contestant.name} are the same contestant: all seeds would have the same scores."
            )
        first[content] = contestant.name
    for what in ("name", "folder"):
        name, count = Counter(getattr(contestant, what) for contestant in found).most_common(1)[0]
        if count > 1:
            raise ValueError(f"{count} contestants have the name {name!r}: give each one its own, as in name='small'.")


def _check_same_env(found: Sequence[Contestant]) -> None:
    one, *others = found
    for other in others:
        for path, (here, there) in env_differences(one.job.spec, other.job.spec).items():
            where = "" if path == "env" else f"{path}="
            raise ValueError(
                f"{one.name} is on {where}{here} and {other.name} on {where}{there}, whose scores cannot be compared: "
                f"say on which environment they race with --env (env=)."
            )


def notes_of(found: Sequence[Contestant]) -> list[str]:
    """Return sentences about what makes a race unfair, and about the presets of the contestants."""
    notes = [f"{contestant.name}: {note}" for contestant in found for note in contestant.job.notes]
    steps = {contestant.name: contestant.job.spec.steps for contestant in found}
    if len({*steps.values()}) > 1:
        words = ", ".join(f"{name} {count:,}" for name, count in steps.items())
        notes.append(f"the contestants are trained for different numbers of steps: {words} (--steps sets one for all)")
    return notes


def check_seeds(found: Sequence[Contestant], at_most: int) -> None:
    """Raise ValueError if the seeds of a race, or the numbers of its populations, do not fit into their types."""
    for contestant in found:
        spec: RunSpec = contestant.job.spec
        if contestant.is_population and not -(2**63) <= spec.seed + at_most - 1 < 2**63:
            raise ValueError(f"seed={spec.seed} leaves no room for {at_most} seeds in 64 bits: choose a smaller one.")
        if spec.first_seed + at_most > MOST_SEEDS:
            raise ValueError(f"at_most={at_most} seeds end after number {MOST_SEEDS - 1:,}, the largest one.")
