"""Settings that do not form a grid: a list of settings, values for each member, or random samples.

`RunSpec.points` holds them as lists of values by path.
"""

import sys
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from shoal.core.kinds import python_numbers, shown
from shoal.core.ranges import SCALES, Range
from shoal.core.schedules import Scheduled
from shoal.core.struct import Struct, info_of
from shoal.specs.describe import PLAIN
from shoal.specs.settings import AgentEnv, Hyperparameter, apply, hyperparameters, is_static
from shoal.specs.spec import check_settings

LARGEST = sys.float_info.max


def from_settings(settings: Sequence[Mapping[str, Any]]) -> dict[str, list]:
    """Return {path: [value in each setting]} for a list of settings. Raises ValueError if their paths differ."""
    if not settings:
        raise ValueError("settings is empty: give at least one, such as {'learning_rate': 1e-3}.")
    for number, setting in enumerate(settings):
        if odd := {*setting} ^ {*settings[0]}:
            raise ValueError(
                f"every setting needs the same hyperparameters: the first has {', '.join(settings[0]) or 'none'}, and "
                f"number {number} differs in {', '.join(sorted(odd))}."
            )
    return {path: [setting[path] for setting in settings] for path in settings[0]}


def from_members(members: Mapping[str, Any], seeds: int | None) -> dict[str, list]:
    """Return points with a value for each member: of arrays [M], or of trees whose leaves are [M, ...], by path.

    Raises ValueError for more than one of the `seeds`, and for other shapes.
    """
    if seeds is not None and seeds != 1:
        raise ValueError(
            f"members gives every member values of its own, so seeds={seeds} cannot be used: leave it out."
        )
    return {path: _values_of_members(path, values) for path, values in members.items()}


def _values_of_members(path: str, values: Any) -> list:
    """Return a list with the value of each member, of an array [M] or of a tree whose leaves are [M, ...]."""
    if not isinstance(values, (Mapping, Struct)):
        numbers = python_numbers(values)
        if not isinstance(numbers, (list, tuple)) or not all(isinstance(number, PLAIN) for number in numbers):
            raise ValueError(f"{path} needs one value for each member, [M], and has {shown(values)}.")
        return np.asarray([*numbers]).tolist()
    shapes = {np.shape(leaf) for leaf in jax.tree.leaves(values)}
    if len(counts := {shape[:1] for shape in shapes}) != 1 or counts == {()}:
        raise ValueError(
            f"{path} needs a tree whose leaves have one row for each member, [M, ...], and their shapes are "
            f"{', '.join(map(str, sorted(shapes))) or 'none'}."
        )
    arrays = jax.tree.map(np.asarray, values)
    return [jax.tree.map(lambda x, m=m: x[m], arrays) for m in range(counts.pop()[0])]


def from_samples(
    count: int,
    pair: AgentEnv,
    seed: int,
    search: Mapping[str, Sequence | None] | Sequence[str] | None = None,
    fixed: Collection[str] = (),
) -> dict[str, list]:
    """Return {path: [value in each setting]} of `count` random settings; numbers are rounded to four digits.

    The samples are independent, and log-uniform or uniform as the range says.

    `search` is a list of paths, or a dict of ranges such as `{"env.gravity": (5, 15), "clip": None}`, where None means
    the declared range; `(5, 10, 15, "choice")` has values that are equally likely. Without `search`, all
    hyperparameters that declare a range are sampled, except those in `fixed`, those with a schedule, and those whose
    range the agent does not accept for this environment. Every path has its own random numbers, so adding a path does
    not change the samples of the others.

    Raises ValueError if a range is missing or empty, or no hyperparameter is left.
    """
    if count < 1:
        raise ValueError(f"random={count} must be at least 1.")
    check_settings(count)
    found = hyperparameters(pair)
    if search is None:
        free = {p: hyper for p, hyper in found.items() if p not in fixed and not isinstance(hyper.value, Scheduled)}
        ranges = {path: None for path, hyper in free.items() if is_used(pair, path, hyper)}
        if not ranges:
            raise ValueError("nothing is left to sample: every hyperparameter with a search range was given a value.")
    else:
        ranges = dict(search) if isinstance(search, Mapping) else dict.fromkeys(search)
    spans = {path: read_span(pair, path, span) for path, span in ranges.items()}
    return {path: span.sample(samples_for(path, seed), count) for path, span in spans.items()}


def read_span(pair: AgentEnv, path: str, span: Sequence | None = None) -> Range:
    """Return the range of a hyperparameter, written as `Range.of` reads it; None: the declared one.

    Raises ValueError for a static field, for what is no number, and for a range that is missing, empty or not finite;
    TypeError, with the nearest paths, for a path that does not exist.
    """
    if is_static(pair, path):
        raise ValueError(
            f"{path} shapes the program, so it cannot be sampled: give it a list of values, which makes a run with its "
            f"own samples for each."
        )
    hyper = hyperparameters(pair).get(path)
    if hyper is None:
        raise ValueError(f"{path} is no number: it cannot be sampled.")
    span = python_numbers(span)
    if span is None and hyper.search is None:
        raise ValueError(f"{path} declares no search range: give one, as in search={{{path!r}: (low, high)}}.")
    if isinstance(span, (list, tuple)) and span and span[-1] == "choice":
        return Range.of((*_choices(path, span[:-1], hyper), "choice"))
    return _checked(path, hyper.search.written() if span is None else span, hyper.is_whole)  # type: ignore[union-attr]  # not None


def samples_for(path: str, seed: int) -> np.random.Generator:
    """Return the random numbers of one hyperparameter, so that another one does not change them."""
    return np.random.default_rng([seed, zlib.crc32(b"points"), zlib.crc32(path.encode())])


def _choices(path: str, values: Sequence, hyper: Hyperparameter) -> tuple[float | bool, ...]:
    """Return the values to choose from.

    Raises ValueError without values, and for a value that is no number (true or false for a boolean hyperparameter).
    """
    is_true_or_false = isinstance(hyper.field.default, bool)
    kind = bool if is_true_or_false else (int, float)
    if not values or not all(isinstance(v, kind) and isinstance(v, bool) == is_true_or_false for v in values):
        what = "true or false" if is_true_or_false else "numbers"
        raise ValueError(f"{path} cannot be sampled from {tuple(values)}: give one or more values that are {what}.")
    return tuple(values)


def _checked(path: str, span: Any, is_whole: bool) -> Range:
    parts: tuple[Any, ...] = tuple(span) if isinstance(span, (list, tuple)) else ()
    ends, scale = parts[:2], parts[2:]
    is_known = scale == () or (len(scale) == 1 and isinstance(scale[0], str) and scale[0] in SCALES)
    are_numbers = len(ends) == 2 and all(type(end) in (int, float) and abs(end) <= LARGEST for end in ends)
    if not are_numbers or not is_known or Range.of(parts).fault():
        bounds = {("log",): ", both above 0", ("near1",): ", both below 1"}.get(scale, "") if is_known else ""
        raise ValueError(
            f"{path} cannot be sampled from {shown(span)}: write two finite numbers, the lower one first{bounds}, as "
            f"in (0.1, 1) or (0.1, 1, 'log')."
        )
    return Range.of(parts, is_whole)


def is_initial(pair: AgentEnv, path: str) -> bool:
    """Return whether only a member that begins reads a hyperparameter (see `hyper(initial=...)`)."""
    found = hyperparameters(pair).get(path)
    initial: Any = found is not None and info_of(found.field).initial
    return bool(initial(pair.agent.bind(pair.env)) if callable(initial) else initial)


def check_read(pair: AgentEnv, paths: Iterable[str]) -> None:
    """Raise ValueError for a hyperparameter that has no effect where it is set after a member has begun."""
    for path in paths:
        if is_initial(pair, path):
            raise ValueError(
                f"{path} is read only when a member begins, so setting it later does nothing: leave it out here, or "
                f"sweep it."
            )


def is_used(pair: AgentEnv, path: str, hyper: Hyperparameter) -> bool:
    """Return whether a hyperparameter declares a range, and the agent binds with both ends of it."""
    if hyper.static or hyper.search is None:
        return False
    if all(_binds(pair, {path: end}) for end in hyper.search[:2]):
        return True
    return not _binds(pair, {})  # if not even the present value binds, the plan raises the error


def _binds(pair: AgentEnv, values: Mapping[str, Any]) -> bool:
    try:
        changed = apply(pair, values)
        changed.agent.bind(changed.env)
    except ValueError:
        return False
    return True
