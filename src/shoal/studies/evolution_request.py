"""What is asked of `shoal.evolve`, and the search in one environment that follows from it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.keys import make_key, stream
from shoal.core.kinds import python_numbers
from shoal.core.ranges import Range
from shoal.core.struct import Struct, info_of
from shoal.population.evolve import Evolve
from shoal.population.varying import read_range
from shoal.specs.settings import AgentEnv, apply, get, separate, user_fields
from shoal.specs.spec import RunSpec, template
from shoal.training.jobs import make_job

Varied = Mapping[str, Any] | Sequence[str]


class Search(NamedTuple):
    """An evolution in one environment: the other arguments of `train`, and what it starts from."""

    arguments: dict[str, Any]
    spec: RunSpec  # of a run with the same agent and environment, without the structs in `first`
    start: AgentEnv  # agent and environment with the values at which the search starts
    first: dict[str, Struct]  # by path: the structs that `vary` names


class Request(NamedTuple):
    """What `evolve` was asked for, without the environment. Experiments and what was found before are in it."""

    agent: Any
    starts: dict[str, Any]  # by path, as `starts_of` has them
    sizes: dict[str, int]  # by the names in `SIZES`
    fields: dict[str, Any]
    env_fields: dict[str, Any]
    options: dict[str, Any]  # fields of `Evolve`
    preset: Path | str | None
    seed: int
    of_run: dict[str, Any]  # other arguments of `train`

    def search(self, env: Any) -> Search:
        """Return the search in one environment. Raises ValueError or TypeError for what cannot vary there."""
        sizes, fields, env_fields = self.sizes, self.fields, self.env_fields
        chosen: dict[str, Any] = {"preset": self.preset, "steps": sizes.get("steps")}
        job = make_job(self.agent, env, fields=fields, env_fields=env_fields, **chosen)
        pair = template(job.spec, job.agent, job.env)
        varied, first = _varied(pair, self.starts, self.seed)
        fields, env_fields = ({**old, **new} for old, new in zip((fields, env_fields), separate(first), strict=True))
        seeds_each, records_each = sizes["seeds"], sizes["records"]  # of each candidate
        of_search = {"vary": varied, "generations": sizes["generations"], "seeds": seeds_each, "every": records_each}
        selector = Evolve(**{**of_search, **self.options})
        if records_each % selector.segments:
            raise ValueError(
                f"records={records_each} cannot be split into {selector.segments} segments: choose a multiple, such as "
                f"records={selector.segments}."
            )
        arguments = dict(
            **chosen,
            fields=fields,
            env_fields=env_fields,
            seeds=sizes["candidates"] * seeds_each,
            records=records_each,
            selector=selector.replace(every=records_each // selector.segments),
            seed=self.seed,
            **{"evaluations": 0, **self.of_run},  # raises TypeError for an argument above
        )
        return Search(arguments, job.spec, apply(pair, first), first)


def starts_of(vary: Varied) -> dict[str, Any]:
    """Return what `evolve` takes as `vary`, as a dict from paths to a range, a struct, its name, or None."""
    if isinstance(vary, str):
        raise TypeError(f"vary={vary!r} must be a list or a dict: vary=[{vary!r}].")
    if not vary:
        raise ValueError(
            "nothing varies: name what evolves, such as learning_rate or value_loss=residual, in vary (on the command "
            "line --vary)."
        )
    pairs: dict[str, Any] = {}
    for item in vary:
        path, _, start = item.partition("=")
        pairs[path] = python_numbers(vary[item]) if isinstance(vary, Mapping) else start or None
    return pairs


def _varied(pair: AgentEnv, vary: Mapping[str, Any], seed: int) -> tuple[tuple, dict[str, Struct]]:
    """Return (`Evolve.vary`, the structs to start from by path). `vary` comes from `starts_of`."""
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
