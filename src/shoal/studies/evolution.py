"""`shoal.evolve`: search for hyperparameters and learned losses with an evolution strategy over training runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import unknown_name
from shoal.core.keys import make_key, stream
from shoal.core.kinds import checked_kinds, python_numbers
from shoal.core.ranges import Range
from shoal.core.registry import AGENTS
from shoal.core.struct import Struct, info_of
from shoal.population.evolve import Evolve
from shoal.population.experiments import SIZES, Experiment, experiments
from shoal.population.varying import read_range
from shoal.specs.settings import AgentEnv, apply, get, separate, user_fields
from shoal.specs.spec import template
from shoal.studies.runs import train
from shoal.training.jobs import found_by, make_job
from shoal.training.result import Result

Varied = Mapping[str, Any] | Sequence[str]
DEFAULT_SIZES = {"generations": 100, "candidates": 32, "seeds": 2, "records": 5}


@checked_kinds()
def evolve(
    agent: str | Agent,
    env: str | Env | None = None,
    vary: Varied | None = None,
    *,
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

    `options` are fields of `Evolve`: strategy, sigma, learning_rate, fitness, segments and others. All other arguments
    are those of `shoal.train`. If the name of an experiment (`shoal.experiments()`) is given instead of agent and
    environment, the experiment sets all arguments, and those that are given replace its values.

    Raises ValueError or TypeError, before anything compiles, for a path that does not exist or cannot vary, an unknown
    strategy, and sizes that do not fit.
    """
    arguments = locals()
    values = {} if found is None else found_by(found, trust_source=trust_source)
    of_found = separate(values)
    published = _experiment(agent)._asdict() if env is None else {}
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
    steps = sizes.get("steps")
    job = make_job(agent, env, preset=preset, fields=fields, env_fields=env_fields, steps=steps)
    setting = template(job.spec, job.agent, job.env)
    starts = _starts(vary)
    if twice := [path for path in values if isinstance(starts.get(path), Struct | str)]:
        raise ValueError(
            f"{twice[0]} starts from what {found} has found: write vary=[{twice[0]!r}], without another start, or "
            f"leave found out."
        )
    varied, first = _varied(setting, starts, seed)
    fields, env_fields = ({**old, **new} for old, new in zip((fields, env_fields), separate(first), strict=True))
    seeds_each, records_each = sizes["seeds"], sizes["records"]  # of each candidate
    of_search = {"vary": varied, "generations": sizes["generations"], "seeds": seeds_each, "every": records_each}
    selector = Evolve(**{**of_search, **options})
    if records_each % selector.segments:
        raise ValueError(
            f"records={records_each} cannot be split into {selector.segments} segments: choose a multiple, such as "
            f"records={selector.segments}."
        )
    return train(
        agent,
        env,
        preset=preset,
        fields=fields,
        env_fields=env_fields,
        steps=steps,
        seeds=sizes["candidates"] * seeds_each,
        records=records_each,
        evaluations=of_run.pop("evaluations", 0),
        selector=selector.replace(every=records_each // selector.segments),
        seed=seed,
        **of_run,
    )


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


def _starts(vary: Varied) -> dict[str, Any]:
    """Return what `evolve` takes as `vary`, as a dict from paths to a range, a struct, its name, or None."""
    if isinstance(vary, str):
        raise TypeError(f"vary={vary!r} must be a list or a dict: vary=[{vary!r}].")
    if not vary:
        raise ValueError("nothing varies: name what evolves, such as learning_rate or value_loss=residual, in vary.")
    pairs: dict[str, Any] = {}
    for item in vary:
        path, _, start = item.partition("=")
        pairs[path] = python_numbers(vary[item]) if isinstance(vary, Mapping) else start or None
    return pairs


def _varied(pair: AgentEnv, vary: Mapping[str, Any], seed: int) -> tuple[tuple, dict[str, Struct]]:
    """Return (`Evolve.vary`, the structs to start from by path). `vary` comes from `_starts`."""
    pairs = dict(vary)
    first: dict[str, Struct] = {}
    for path in sorted(pairs, key=len):  # a struct before the numbers inside of it
        given, names = pairs[path], _first_of(pair, path)
        if isinstance(given, str):
            if given not in names:
                starts = f"It can start from: {', '.join(names)}." if names else "It takes no struct: give a range."
                raise ValueError(f"{path} cannot start from {given!r}. {starts}")
            given = names[given](stream(make_key(seed), path))
        if isinstance(given, Struct):
            first[path], pairs[path] = given, ()
            pair = apply(pair, {path: given})
        elif names and given is None and not isinstance(get(pair, path), Struct):
            starts = " or ".join(f"{path}={name}" for name in names)
            raise ValueError(f"{path} needs a struct to start from: write {starts}.")
        if not isinstance(start := get(pair, path), Struct):
            _check_start(path, start, read_range(pair, path, pairs[path]))
    return tuple((path, *(given or ())) for path, given in pairs.items()), first


def _check_start(path: str, start: Any, span: Range) -> None:
    """Raise ValueError for a range without width, and for a search that begins outside of its range."""
    ends = f"from {span.low:g} to {span.high:g}"
    if not span.low < span.high:
        raise ValueError(f"{path} cannot evolve {ends}: a range needs two different ends.")
    if not span.low <= start <= span.high:  # the candidates around it would all be clipped to the same end
        raise ValueError(
            f"{path} begins with {start:g}, outside of its range {ends}: widen the range, or begin inside of it."
        )


def _first_of(pair: AgentEnv, path: str) -> Mapping[str, Any]:
    """Return the structs that a field can start from, as functions by name. Raises TypeError for an unknown path."""
    get(pair, path)
    owner, _, name = path.rpartition(".")
    field = user_fields(get(pair, owner) if owner else pair.agent).get(name)
    return info_of(field).first or {} if field else {}
