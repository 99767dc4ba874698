"""Settings beyond a grid: a list of them, one value for each member, or random draws. All become `RunSpec.points`."""

import math
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from shoal.core.struct import Range
from shoal.training.settings import Hyperparameter, Setting, apply, hyperparameters, is_static

DIGITS = 4  # of a drawn number: as many as its name in tables and curves shows


def from_settings(settings: Sequence[Mapping[str, Any]]) -> dict[str, list]:
    """A list of settings, each with a value by path. Raises ValueError where two of them name different paths."""
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
    """One value of each hyperparameter for each member, [M]. Raises ValueError for several seeds or other shapes."""
    if seeds is not None and seeds != 1:
        raise ValueError(f"members gives every member values of its own, so seeds={seeds} has no place: leave it out.")
    for path, values in members.items():
        if np.ndim(values) != 1:
            raise ValueError(f"{path} needs one value for each member, [M], and has shape {np.shape(values)}.")
    return {path: np.asarray(values).tolist() for path, values in members.items()}


def from_draws(
    count: int,
    setting: Setting,
    seed: int,
    search: Mapping[str, Sequence | None] | Sequence[str] | None = None,
    fixed: Collection[str] = (),
) -> dict[str, list]:
    """`count` independent draws: log-uniform where a range says so, else uniform, rounded to four digits.

    `search` names the hyperparameters, or gives ranges such as `{"env.gravity": (5, 15), "clip": None}`; by default
    they are all that declare a range, without those in `fixed` and those that change nothing for this pair. Every path
    has its own stream of random numbers, so that one more does not change the others. Raises ValueError where a range
    is missing or empty, or nothing is left to draw.
    """
    if count < 1:
        raise ValueError(f"random={count} must be at least 1.")
    found = hyperparameters(setting)
    if search is None:
        ranges = {path: None for path, place in found.items() if path not in fixed and _is_worth(setting, path, place)}
        if not ranges:
            raise ValueError("nothing is left to draw: every hyperparameter with a search range was given a value.")
    else:
        ranges = dict(search) if isinstance(search, Mapping) else dict.fromkeys(search)
    return {path: _draws(count, seed, setting, path, found.get(path), given) for path, given in ranges.items()}


def _draws(
    count: int, seed: int, setting: Setting, path: str, place: Hyperparameter | None, given: Sequence | None
) -> list:
    if is_static(setting, path):
        raise ValueError(f"{path} shapes the program, so it cannot be drawn: sweep it, which is a run for each value.")
    if place is None:
        raise ValueError(f"{path} is no number: it cannot be drawn.")
    if given is None and place.search is None:
        raise ValueError(f"{path} declares no search range: give one, as in search={{{path!r}: (low, high)}}.")
    low, high, log = _range(path, *(given or place.search or ()))
    share = np.random.default_rng([seed, zlib.crc32(b"points"), zlib.crc32(path.encode())]).random(count)
    if log:
        numbers = np.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    else:
        numbers = low + share * (high - low)
    if isinstance(place.field.default, int) and not isinstance(place.field.default, bool):
        return [round(number) for number in numbers.tolist()]
    return [min(max(float(f"{number:.{DIGITS}g}"), low), high) for number in numbers.tolist()]


def _range(path: str, low: float, high: float, scale: Any = "linear") -> Range:
    log = scale in ("log", True)
    if not (math.isfinite(low) and math.isfinite(high) and low <= high) or (log and low <= 0):
        raise ValueError(f"{path} cannot be drawn from ({low}, {high}{', log' * log}): the lower end comes first.")
    return Range(low, high, log)


def _is_worth(setting: Setting, path: str, place: Hyperparameter) -> bool:
    """Whether a hyperparameter declares a range, and `bind` takes both ends of it for this environment."""
    if place.static or place.search is None:
        return False
    for end in (place.value, *place.search[:2]):
        try:
            made = apply(setting, {path: end})
            made.agent.bind(made.env)
        except ValueError:
            return end is place.value  # it does not bind at all, and the plan will say why
    return True
