"""The search space of a study: which hyperparameters and static fields its trials choose, and from which values.

Each path has one of Optuna's distributions. Static fields, such as `hidden` or `num_envs`, shape the program, so trials
are trained in groups, one for every combination of static values: each group compiles once.
"""

import dataclasses
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from shoal.core.errors import did_you_mean
from shoal.core.kinds import python_numbers, shown
from shoal.core.ranges import Range
from shoal.core.schedules import Scheduled
from shoal.core.struct import info_of
from shoal.population.varying import read_range
from shoal.specs.points import is_used
from shoal.specs.settings import AgentEnv, apply, get, hyperparameters, is_of_env, is_static

MOST_SHAPES = 8  # programs that are compiled without asking
PLAIN = (bool, int, float, str)
GRID_POINTS = 5  # of a range of numbers


class Dimension(NamedTuple):
    """A path of the search, and the values from which trials choose: those of a range or of a list."""

    path: str
    is_static: bool
    span: Range  # of a list: from its lowest to its highest value, where these are numbers of the program
    values: Mapping[Any, Any] = {}  # of a list: from what Optuna holds to the value of the field

    @property
    def distribution(self) -> BaseDistribution:
        """Optuna's distribution. It has no scale near 1: there the parameter is 1 - x, on a log scale."""
        low, high, scale = self.span[:3]
        if self.values:
            return CategoricalDistribution([*self.values])
        if scale == "near1":
            return FloatDistribution(1 - high, 1 - low, log=True)
        if self.span.is_whole:
            return IntDistribution(int(low), int(high), log=scale == "log")
        return FloatDistribution(low, high, log=scale == "log")

    def value(self, param: Any) -> Any:
        """Return the value of the field for a parameter of a trial."""
        if self.values:
            return self.values[param]
        return 1 - param if self.span.scale == "near1" else param

    def param(self, value: Any) -> Any:
        """Return the parameter of a trial for a value of the field, or for its name. Raises ValueError if outside."""
        value = python_numbers(value)
        if self.values:
            names = [param for param, held in self.values.items() if value in (param, held)]
            if not names:
                raise ValueError(f"{self.path}={shown(value)} is not one of {', '.join(map(str, self.values))}.")
            return names[0]
        low, high = self.span[:2]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise ValueError(f"{self.path}={shown(value)} is not a number from {low:g} to {high:g}.")
        if self.span.is_whole and value != int(value):
            raise ValueError(f"{self.path}={value!r} is not a whole number.")
        if self.span.scale == "near1":
            return min(max(1 - float(value), 1 - high), 1 - low)
        return int(value) if self.span.is_whole else float(value)

    def described(self) -> dict[str, Any]:
        """Return the dimension as data for JSON: its values, or the ends and the scale of its range."""
        if self.values:
            return {"values": [list(v) if isinstance(v, tuple) else param for param, v in self.values.items()]}
        low, high, scale = self.span[:3]
        if scale != "near1":
            low, high = (int(end) if self.span.is_whole else float(end) for end in (low, high))
        return {"low": low, "high": high, "scale": scale}

    def grid(self) -> list[Any]:
        """Return the parameters of a grid search: all in a list, `GRID_POINTS` of a range, fewer if it has fewer."""
        if self.values:
            return [*self.values]
        d: Any = self.distribution
        low, high = (math.log(x) if d.log else float(x) for x in (d.low, d.high))
        points = [low + (high - low) * i / (GRID_POINTS - 1) for i in range(GRID_POINTS)]
        numbers = [min(max(math.exp(x) if d.log else x, d.low), d.high) for x in points]
        if isinstance(d, FloatDistribution):
            return [d.low, *numbers[1:-1], d.high]
        return [*range(d.low, d.high + 1)] if d.high - d.low < GRID_POINTS else sorted({round(x) for x in numbers})


@dataclasses.dataclass(frozen=True)
class Space:
    """The dimensions of a search, in order."""

    dimensions: tuple[Dimension, ...]

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        return {dimension.path: dimension.distribution for dimension in self.dimensions}

    @property
    def traced(self) -> tuple[Dimension, ...]:
        """The dimensions whose values change without compiling."""
        return tuple(dimension for dimension in self.dimensions if not dimension.is_static)

    @property
    def static(self) -> tuple[Dimension, ...]:
        """The dimensions that shape the program."""
        return tuple(dimension for dimension in self.dimensions if dimension.is_static)

    @property
    def shapes(self) -> list[dict[str, Any]]:
        """The static values of every group, by path: all combinations."""
        choices = [[dimension.value(param) for param in params_of(dimension)] for dimension in self.static]
        paths = [dimension.path for dimension in self.static]
        return [dict(zip(paths, values, strict=True)) for values in itertools.product(*choices)]

    @property
    def shape_count(self) -> int:
        return math.prod(len(params_of(dimension)) for dimension in self.static)

    def values(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {dimension.path: dimension.value(params[dimension.path]) for dimension in self.dimensions}

    def params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a trial with these values; some may be missing. Raises ValueError or TypeError."""
        known = {dimension.path: dimension for dimension in self.dimensions}
        for path in values:
            if path not in known:
                near = did_you_mean(path, known) or f" It searches {', '.join(known)}."
                raise ValueError(f"the study does not search {path!r}.{near}")
        return {path: known[path].param(value) for path, value in values.items()}

    def group_of(self, params: Mapping[str, Any]) -> int:
        """Return the index in `shapes` of the group that trains a trial."""
        index = 0
        for dimension in self.static:
            choices = params_of(dimension)
            index = index * len(choices) + choices.index(params[dimension.path])
        return index

    def grid(self) -> dict[str, list[Any]]:
        return {dimension.path: dimension.grid() for dimension in self.dimensions}

    def described(self) -> dict[str, Any]:
        """Return the space as data for JSON, which `read_space` takes: each dimension by its path."""
        return {dimension.path: dimension.described() for dimension in self.dimensions}


def read_space(pair: AgentEnv, search: Any, fixed: Collection[str] = ()) -> Space:
    """Return the search space of a study.

    `search` is None for all hyperparameters of the agent that declare a range, without those in `fixed` and those with
    a schedule; a list of
    paths with declared ranges; or a mapping from paths to `(low, high)`, `(low, high, "log")`, a list of values (also
    `(a, b, "choice")`), a dimension of `Space.described`, or None for what the field declares: its range, or its
    `choices` if it is static.

    Raises TypeError, with the nearest paths, for a path that does not exist; ValueError for a range that is missing or
    empty, and for paths in `fixed`.
    """
    found = hyperparameters(pair)
    if search is None:
        spans: dict[str, Any] = {
            path: None
            for path, hyper in found.items()
            if not is_of_env(path) and path not in fixed and _is_free(hyper.value) and is_used(pair, path, hyper)
        }
    elif isinstance(search, str):
        raise TypeError(f'search={search!r} must be a list or a mapping: search=["{search}"].')
    elif isinstance(search, Mapping):
        spans = dict(search)
    else:
        spans = dict.fromkeys(search)
    if not spans:
        why = "every hyperparameter with a range was given a value" if search is None else "it names no path"
        raise ValueError(f'the search is empty: {why}. Name what to search, as in search=["learning_rate"].')
    for path in spans:
        if search is not None and path in fixed:
            raise ValueError(f"{path} is searched, and has a value too: leave one of them out.")
    return Space(tuple(_dimension(pair, path, span) for path, span in spans.items()))


def _is_free(value: Any) -> bool:
    """Return whether a search without a list of paths chooses a number in the place of a value."""
    return value is not None and not isinstance(value, Scheduled)


def params_of(dimension: Dimension) -> list[Any]:
    """Return all parameters of a static dimension."""
    if dimension.values:
        return [*dimension.values]
    d: Any = dimension.distribution
    return [*range(d.low, d.high + 1)]


def _dimension(pair: AgentEnv, path: str, span: Any) -> Dimension:
    is_shape = is_static(pair, path)  # raises TypeError for an unknown path
    span = python_numbers(_undescribed(path, span) if isinstance(span, Mapping) else span)
    declared = hyperparameters(pair).get(path)
    if span is None and is_shape:
        span = info_of(declared.field).choices if declared is not None else None
        if not span:
            raise ValueError(f"{path} declares no choices: give a list of values, as in search={{{path!r}: [...]}}.")
        span = [*span]
    names = info_of(declared.field).names if declared is not None else None
    if span is None and names:
        span = [*names]
    if isinstance(span, list) or (isinstance(span, tuple) and span and span[-1] == "choice"):
        return _of_values(pair, path, [*span] if isinstance(span, list) else [*span[:-1]], is_shape)
    if is_shape:
        return _of_static_range(pair, path, span)
    read = read_range(pair, path, span)
    if read.low == read.high:
        raise ValueError(f"{path} has one value, {read.low:g}: give it as a field, not as a range to search.")
    return Dimension(path, False, read)


def _of_values(pair: AgentEnv, path: str, values: Sequence[Any], is_shape: bool) -> Dimension:
    values = [tuple(value) if isinstance(value, list) else value for value in values]
    held = {value if isinstance(value, PLAIN) else _label(value): value for value in values}
    if len(held) < len(values):
        raise ValueError(f"{path} has a value twice: {', '.join(map(_label, values))}.")
    if len(held) < 2:
        raise ValueError(f"{path} needs at least two values to search: give a single one as a field.")
    fields = {param: _field(pair, path, value) for param, value in held.items()}
    if is_shape:
        return Dimension(path, True, Range(0, 0), fields)
    return Dimension(path, False, read_range(pair, path, (min(fields.values()), max(fields.values()))), fields)


def _of_static_range(pair: AgentEnv, path: str, span: Any) -> Dimension:
    low, high, *scale = span if isinstance(span, tuple) and len(span) > 1 else (0, 0)
    if scale not in ([], ["linear"]) or type(low) is not int or type(high) is not int or low >= high:
        raise ValueError(
            f"{path} shapes the program, so it needs a list of values, or a range of whole numbers such as (2, 4)."
        )
    for end in (low, high):
        _field(pair, path, end)
    return Dimension(path, True, Range(low, high, is_whole=True))


def _field(pair: AgentEnv, path: str, value: Any) -> Any:
    """Return a value as the field holds it. Raises ValueError or TypeError if it does not fit."""
    try:
        return get(apply(pair, {path: value}), path)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{path} cannot be {_label(value)}: {error}") from None


def _label(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _undescribed(path: str, described: Mapping[str, Any]) -> Any:
    if {*described} == {"values"}:
        return [*described["values"]]
    if not {"low", "high"} <= {*described} <= {"low", "high", "scale"}:
        raise ValueError(f"{path} needs low and high, and perhaps scale, or values; it has {', '.join(described)}.")
    return described["low"], described["high"], described.get("scale", "linear")
