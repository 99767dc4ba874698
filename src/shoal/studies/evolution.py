"""`shoal.evolve`: search for hyperparameters and learned losses with an evolution strategy over training runs."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import unknown_name
from shoal.core.kinds import checked_kinds
from shoal.core.registry import AGENTS
from shoal.core.struct import Struct
from shoal.population.experiments import SIZES, Experiment, experiments
from shoal.specs.settings import separate
from shoal.studies.evolution_request import Request, Varied, starts_of
from shoal.studies.runs import train
from shoal.studies.shared_evolution import jobs_in, jobs_of, train_shared
from shoal.studies.suites import ON_RESUME
from shoal.training.folder import RunFolder
from shoal.training.generations import SHARED
from shoal.training.jobs import found_by, refuse_on_resume
from shoal.training.result import Result

DEFAULT_SIZES = {"generations": 100, "candidates": 32, "seeds": 2, "records": 5}


@checked_kinds()
def evolve(  # noqa: PLR0913  # written out, for editors
    agent: str | Agent | None = None,
    env: str | Env | None = None,
    vary: Varied | None = None,
    *,
    envs: Sequence[str | Env] | None = None,
    held_out: Sequence[str | Env] = (),
    test_seeds: int = 8,
    resume: Path | str | None = None,
    generations: int | None = None,
    candidates: int | None = None,
    seeds: int | None = None,
    steps: int | None = None,
    records: int | None = None,
    fields: Mapping[str, Any] | None = None,
    env_fields: Mapping[str, Any] | None = None,
    preset: Path | str | None = "",
    seed: int = 0,
    found: Path | str | None = None,
    trust_source: bool = False,
    options: Mapping[str, Any] | None = None,
    **of_run: Any,
) -> Result:
    """Evolve hyperparameters and structs with weights, such as losses. Returns the run's `Result`, with `result.found`.

    In each of `generations` (100), `candidates` (32) are trained from the beginning for `steps` environment steps, each
    with `seeds` (2) seeds. The fitness of a candidate is its mean return in training, by default over all `records` (5)
    of the training.

    `vary` names what evolves, by path. `{"learning_rate": (1e-5, 1e-2, "log")}` gives the range of a number, and
    `["learning_rate"]`, or None in the place of a range, takes the range that the field declares. A field for a struct
    takes a struct to start from, as in `{"value_loss": LearnedValueLoss.init(key)}`, or the name of one, as in
    `{"value_loss": "residual"}` or `["value_loss=residual"]`.

    With `found="runs/x"` the search starts at the values that another evolution has found, and the agent has those that
    do not evolve here; a struct that was found needs no other start in `vary`.

    With `envs=["CartPole-v1", "Acrobot-v1"]` in the place of `env`, every candidate is trained in each of them. Its
    fitness is then the mean of its normalized returns: 0 is random play and 1 is the target of
    `envs/references.toml`, or the lowest and the highest candidate of the generation where these are not known. At the
    end agents are trained from the beginning, with `test_seeds` (8) seeds that the search did not use, in these
    environments and in those in `held_out`: with the values at which the search started, and with those that it has
    found. `result.summary["transfer"]` compares the two in each environment; 0 seeds leave this out.

    `resume="runs/x"` continues an evolution that was stopped, with the same bits as one that was not.

    `options` are fields of `Evolve`: strategy, sigma, learning_rate, fitness, segments and others. All other arguments
    are those of `shoal.train`. If the name of an experiment (`shoal.experiments()`) is given instead of agent and
    environment, the experiment sets all arguments, and those that are given replace its values.

    Raises ValueError or TypeError, before anything compiles, for a path that does not exist or cannot vary, an unknown
    strategy, sizes that do not fit, and environments in which the agent cannot act. Raises `Stopped` after a signal.
    """
    arguments = locals()
    if resume is not None:
        return _resumed(resume, {**arguments, **of_run})
    _check_envs(env, envs, held_out, test_seeds)
    values = {} if found is None else found_by(found, trust_source=trust_source)
    of_found = separate(values)
    is_published = env is None and (envs is None or agent in experiments())
    published = _experiment(agent)._asdict() if is_published else {}
    agent, env = published.get("agent", agent), published.get("env", env)
    if vary is None:
        published_vary = published.get("vary", {})
        names = {path for path, start in published_vary.items() if isinstance(start, str)}
        vary = {**published_vary, **dict.fromkeys(names & {*values})}  # not from the start of the experiment
    fields = {**published.get("fields", {}), **of_found[0], **(fields or {})}
    env_fields = {**published.get("env_fields", {}), **of_found[1], **(env_fields or {})}
    options = {**published.get("options", {}), **(options or {})}
    own_sizes = {name: arguments[name] for name in SIZES if arguments[name] is not None}
    sizes = {**DEFAULT_SIZES, **published.get("sizes", {}), **own_sizes}
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size} must be at least 1.")
    starts = starts_of(vary)
    if twice := [path for path in values if isinstance(starts.get(path), Struct | str)]:
        raise ValueError(
            f"{twice[0]} starts from what {found} has found: write vary=[{twice[0]!r}], without another start, or "
            f"leave found out."
        )
    request = Request(agent, starts, sizes, fields, env_fields, options, preset, seed, of_run)
    if envs is None and not held_out:
        return train(agent, env, **request.search(env).arguments)
    jobs = jobs_of(request, [env] if envs is None else envs, held_out, test_seeds, check=of_run.get("check", True))
    return train_shared(jobs, trust_source=trust_source, **of_run)


def _resumed(folder: Path | str, arguments: Mapping[str, Any]) -> Result:
    """Continue the evolution in a folder. Raises ValueError for arguments that are for a new one."""
    defaults = inspect.signature(evolve).parameters
    given = {
        name: value
        for name, value in arguments.items()
        if name not in ("resume", "of_run") and (name not in defaults or value != defaults[name].default)
    }
    refuse_on_resume(folder, **{name: value for name, value in given.items() if name not in (*ON_RESUME, "cache")})
    if not RunFolder(folder).has(SHARED):
        return train(resume=folder, **given)
    trust_source = given.pop("trust_source", False)
    jobs = jobs_in(folder, trust_source=trust_source)
    return train_shared(jobs, resume=folder, trust_source=trust_source, **given)


def _check_envs(env: Any, envs: Any, held_out: Any, test_seeds: int) -> None:
    """Raise ValueError for arguments about several environments that do not fit each other."""
    if envs is not None and env is not None:
        raise ValueError("env and envs both name environments: give one of them.")
    if envs is not None and not envs:
        raise ValueError("envs is empty: name at least one environment.")
    if test_seeds < 0:
        raise ValueError(f"test_seeds={test_seeds} must be 0 or more.")
    if held_out and not test_seeds:
        raise ValueError("test_seeds=0 trains nothing in the environments in held_out: leave one of them out.")


def _experiment(name: Any) -> Experiment:
    known = experiments()
    if not isinstance(name, str) or name not in known:
        if isinstance(name, str) and name not in AGENTS:
            raise unknown_name("experiment", name, known, f"The experiments are: {', '.join(known)}.")
        raise TypeError(
            "evolve needs an agent, an environment and what varies, as in shoal.evolve('ppo', 'CartPole-v1', "
            f"['learning_rate']), or an experiment: {', '.join(known)}."
        )
    return known[name]
