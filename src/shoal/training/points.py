"""Settings that are no grid: a list of them, one value for each member, or random samples (`RunSpec.points`)."""

import math
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from shoal.core.struct import Range, Struct
from shoal.training.settings import Hyperparameter, Setting, apply, hyperparameters, is_static

DIGITS = 4  # significant digits of a sampled number: as many as tables and curves show


def from_settings(settings: Sequence[Mapping[str, Any]]) -> dict[str, list]:
    """Return the points of a list of settings, each with values by path. Raises ValueError if paths differ."""
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

    Raises ValueError for several seeds or other shapes.
    """
    if seeds is not None and seeds != 1:
        raise ValueError(
            f"members gives every member values of its own, so seeds={seeds} cannot be used: leave it out."
        )
    return {path: _values_of_members(path, values) for path, values in members.items()}


def _values_of_members(path: str, values: Any) -> list:
    """Return a list with the value of each member, of an array [M] or of a tree whose leaves are [M, ...]."""
    if not isinstance(values, (Mapping, Struct)):
        if np.ndim(values) != 1:
            raise ValueError(f"{path} needs one value for each member, [M], and has shape {np.shape(values)}.")
        return np.asarray(values).tolist()
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
    setting: Setting,
    seed: int,
    search: Mapping[str, Sequence | None] | Sequence[str] | None = None,
    fixed: Collection[str] = (),
) -> dict[str, list]:
    """Return points of `count` independent random samples, log-uniform or uniform, rounded to four digits.

    `search` is a list of paths, or a dict of ranges such as `{"env.gravity": (5, 15), "clip": None}`, where None means
    the declared range; `(5, 10, 15, "choice")` has values that are equally likely. By default these are all
    hyperparameters that declare a range, except those in `fixed` and those whose range the agent does not accept for
    this environment. Every path has its own random numbers, so another path does not change them. Raises ValueError if
    a range is missing or empty, or no hyperparameter is left.
    """
    if count < 1:
        raise ValueError(f"random={count} must be at least 1.")
    found = hyperparameters(setting)
    if search is None:
        ranges = {path: None for path, hyper in found.items() if path not in fixed and _is_used(setting, path, hyper)}
        if not ranges:
            raise ValueError("nothing is left to sample: every hyperparameter with a search range was given a value.")
    else:
        ranges = dict(search) if isinstance(search, Mapping) else dict.fromkeys(search)
    return {path: _samples(count, seed, setting, path, found.get(path), span) for path, span in ranges.items()}


def _samples(
    count: int, seed: int, setting: Setting, path: str, hyper: Hyperparameter | None, span: Sequence | None
) -> list:
    if is_static(setting, path):
        raise ValueError(
            f"{path} shapes the program, so it cannot be sampled: give it a list of values, which makes a run with its "
            f"own samples for each."
        )
    if hyper is None:
        raise ValueError(f"{path} is no number: it cannot be sampled.")
    if span is None and hyper.search is None:
        raise ValueError(f"{path} declares no search range: give one, as in search={{{path!r}: (low, high)}}.")
    generator = np.random.default_rng([seed, zlib.crc32(b"points"), zlib.crc32(path.encode())])
    if span and span[-1] == "choice":
        return _choices(generator, count, path, span[:-1], hyper)
    low, high, log = _range(path, *(span or hyper.search or ()))
    fractions = generator.random(count)
    if log:
        numbers = np.exp(math.log(low) + fractions * (math.log(high) - math.log(low)))
    else:
        numbers = low + fractions * (high - low)
    if isinstance(hyper.field.default, int) and not isinstance(hyper.field.default, bool):
        return [round(number) for number in numbers.tolist()]
    return [min(max(float(f"{number:.{DIGITS}g}"), low), high) for number in numbers.tolist()]


def _choices(
    generator: np.random.Generator, count: int, path: str, values: Sequence, hyper: Hyperparameter
) -> list[float | bool]:
    """Return `count` of the values, each equally likely. Raises ValueError if there are none, or some are not real."""
    is_true_or_false = isinstance(hyper.field.default, bool)
    kind = bool if is_true_or_false else (int, float)
    if not values or not all(isinstance(v, kind) and isinstance(v, bool) == is_true_or_false for v in values):
        what = "true or false" if is_true_or_false else "numbers"
        raise ValueError(f"{path} cannot be sampled from {tuple(values)}: give one or more values that are {what}.")
    return [values[i] for i in generator.integers(len(values), size=count)]


def _range(path: str, low: float, high: float, scale: Any = "linear") -> Range:
    log = scale in ("log", True)
    if not (math.isfinite(low) and math.isfinite(high) and low <= high) or (log and low <= 0):
        raise ValueError(
            f"{path} cannot be sampled from ({low}, {high}{', log' * log}): write finite numbers, the lower one first"
            f"{', both above 0' * log}."
        )
    return Range(low, high, log)


def _is_used(setting: Setting, path: str, hyper: Hyperparameter) -> bool:
    """Return whether a hyperparameter declares a range, and the agent binds with both ends of it."""
    if hyper.static or hyper.search is None:
        return False
    for end in (hyper.value, *hyper.search[:2]):
        try:
            changed = apply(setting, {path: end})
            changed.agent.bind(changed.env)
        except ValueError:
            return end is hyper.value  # the setting does not bind as it is; the plan will raise the error
    return True
