"""Schedules of hyperparameters: numbers that follow the progress of a member's training.

A user writes a schedule as a text in the place of a number: `learning_rate="cosine(3e-4, 3e-5, warmup=0.05)"`. The
field of the agent then holds a `Scheduled`, and `Agent.at` replaces it by its number before every update. Progress is 0
when a member begins and 1 at the horizon, by default the end of the run. The forms:

    constant(3e-4)                         3e-4; unlike a plain number it also replaces `anneal`
    linear(3e-4, 3e-5)                     on a straight line from the first number to the second
    cosine(3e-4, 3e-5)                     on half a period of a cosine (Loshchilov and Hutter 2017, eq. 5, one period)
    steps(3e-4, 1e-4 @ 0.5, 3e-5 @ 0.8)    another number from each of these points of progress on
    steps(3e-4, 1e-4, 3e-5)                the same for parts of equal length

`warmup=0.05` multiplies the first 5 % by a factor that rises linearly from 0 to 1; a line or cosine begins after it, as
in `optax.warmup_cosine_decay_schedule`. `horizon=1e6` sets the environment steps at which progress is 1.
"""

import dataclasses
import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from shoal.core.calls import read_arguments
from shoal.core.errors import did_you_mean

# The kind "number" is that of a plain number in a population where other members have schedules.
KINDS = ("number", "constant", "steps", "linear", "cosine")
NUMBER, CONSTANT, STEPS, LINEAR, COSINE = range(len(KINDS))
WRITTEN = KINDS[1:]
MOST_LEVELS = 8  # numbers of one schedule; all schedules have this shape, so that they share a program
CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
OPTIONS = ("warmup", "horizon")
EXAMPLE = "cosine(3e-4, 3e-5, warmup=0.05)"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Scheduled:
    """A hyperparameter that follows the progress of training.

    All its numbers are traced, the kind too, so that schedules of different kinds share one compiled program. In a
    population the leaves have a leading member axis. `Scheduled.of` reads one from a text.
    """

    kind: Any  # the index in KINDS
    levels: Any  # [K]: the numbers of the text, filled up with the last one
    begins: Any  # [K]: the progress from which on each number holds; infinity for those that are filled up
    warmup: Any  # the fraction of the horizon in which it rises from 0
    horizon: Any  # environment steps until progress 1; 0: those of the agent's `horizon`, or all of the run

    @classmethod
    def of(cls, value: Any) -> "Scheduled":
        """Return the schedule that a text describes, or the one that is always this number.

        Raises ValueError, in words, for a text that describes none.
        """
        if isinstance(value, Scheduled):
            return value
        if not isinstance(value, str):
            return _made(NUMBER, [float(value)], [0.0])
        kind, numbers, begins, options = _read(value)
        return _made(KINDS.index(kind), numbers, begins, **options)

    def written(self) -> str | float:
        """Return the text from which `of` makes this schedule again; of a plain number the number.

        Its numbers have as many digits as their dtype needs. Raises ValueError for schedules of several members.
        """
        if np.ndim(self.kind):
            raise ValueError("these are the schedules of several members: each has a text of its own.")
        kind, count = int(self.kind), int(np.isfinite(self.begins).sum())
        levels = [_shortest(level) for level in np.asarray(self.levels)[: 2 if kind in (LINEAR, COSINE) else count]]
        if kind == NUMBER:
            return levels[0]
        begins = [_shortest(at) for at in np.asarray(self.begins)[:count]]
        is_even = np.allclose(begins, _even(count), rtol=0, atol=1e-7)
        points = [f"{levels[0]!r}", *(f"{x!r} @ {at!r}" for x, at in zip(levels[1:], begins[1:], strict=False))]
        words = points if kind == STEPS and not is_even else [f"{level!r}" for level in levels]
        numbers = ((name, _shortest(getattr(self, name))) for name in OPTIONS)
        return f"{KINDS[kind]}({', '.join([*words, *(f'{name}={number!r}' for name, number in numbers if number)])})"

    def __repr__(self) -> str:
        """Return the text of the schedule of one member, as a user writes it."""
        is_one = isinstance(self.levels, (np.ndarray, jax.Array)) and np.ndim(self.levels) == 1
        return repr(self.written()) if is_one and not isinstance(self.levels, Tracer) else super().__repr__()

    def __str__(self) -> str:
        """Return the text of the schedule of one member."""
        return repr(self).strip("'")

    def at(self, progress: Float[Array, ""]) -> Float[Array, ""]:
        """Return the number at a progress; one member only."""
        levels, begins = jnp.asarray(self.levels), jnp.asarray(self.begins)
        share = jnp.clip((progress - self.warmup) / (1 - self.warmup), 0, 1)
        share = jnp.where(self.kind == COSINE, (1 - jnp.cos(jnp.pi * share)) / 2, share)
        between = levels[0] + (levels[1] - levels[0]) * share
        level = levels[jnp.maximum(jnp.sum(progress >= begins) - 1, 0)]
        number = jnp.where((self.kind == LINEAR) | (self.kind == COSINE), between, level)
        rise = jnp.where(progress < self.warmup, progress / jnp.maximum(self.warmup, 1e-9), 1.0)
        return number * rise

    def after(self, steps: Float[Array, ""], horizon: Any) -> Float[Array, ""]:
        """Return the number after so many environment steps; one member only.

        `horizon` is used if the schedule has none of its own. If both are 0 (unknown), the number is the one at the
        start, after the warm-up.
        """
        length = jnp.where(self.horizon > 0, self.horizon, horizon)
        return self.at(jnp.where(length > 0, steps / jnp.maximum(length, 1.0), self.warmup))

    @property
    def lowest(self) -> Any:
        """The lowest number of the schedule: [M] for a population."""
        lowest = np.min(np.asarray(self.levels), axis=-1)
        return np.where(np.asarray(self.warmup) > 0, np.minimum(lowest, 0), lowest)

    @property
    def highest(self) -> Any:
        """The highest number of the schedule: [M] for a population."""
        highest = np.max(np.asarray(self.levels), axis=-1)
        return np.where(np.asarray(self.warmup) > 0, np.maximum(highest, 0), highest)

    @property
    def peak(self) -> np.ndarray:
        """The number of the schedule that is farthest from 0: [M] for a population. `with_peaks` scales by it."""
        levels = np.asarray(self.levels)
        index = np.argmax(np.abs(levels), axis=-1)
        return np.take_along_axis(levels, index[..., None], axis=-1)[..., 0]

    def points(self) -> list[tuple[float, float]]:
        """Return (progress, number) where the schedule of one member has its highest and lowest numbers."""
        levels, begins = ([_shortest(x) for x in np.asarray(numbers)] for numbers in (self.levels, self.begins))
        warmup = _shortest(self.warmup)
        rise = [(0.0, 0.0)] if warmup > 0 else []
        if self.kind in (LINEAR, COSINE):
            return [*rise, (warmup, levels[0]), (1.0, levels[1])]
        return [*rise, *((max(at, warmup * (at == 0)), x) for at, x in zip(begins, levels, strict=True) if at < 2)]


jax.tree_util.register_dataclass(Scheduled, ("kind", "levels", "begins", "warmup", "horizon"), ())


def is_written(text: Any) -> bool:
    """Return whether a value is a text in the form of a schedule, `name(...)`."""
    return isinstance(text, str) and CALL.fullmatch(text) is not None


def canonical(value: Any) -> Any:
    """Return the text of a schedule as `Scheduled.written` writes it; any other value as it is."""
    return Scheduled.of(value).written() if is_written(value) and _name(value) in WRITTEN else value


def lifted(values: list) -> list:
    """Return hyperparameters of several members as schedules if one of them is a schedule; otherwise as they are."""
    if not any(isinstance(value, Scheduled) for value in values):
        return values
    return [Scheduled.of(value) for value in values]


def peak_of(value: Any) -> Any:
    """Return the number that stands for a hyperparameter: of a schedule, or of its text, the one farthest from 0."""
    if is_written(value):
        value = Scheduled.of(value)
    return value.peak if isinstance(value, Scheduled) else value


def with_peaks(values: Any, peaks: Any, is_changed: Any = True) -> Any:
    """Return hyperparameters [M] with the numbers `peaks` [M] in their place where `is_changed` [M] is true.

    A schedule is scaled: all its numbers are multiplied by the factor that makes `peak` this number.
    """
    if not isinstance(values, Scheduled):
        return np.where(is_changed, peaks, values)
    peak = np.asarray(values.peak, np.float64)
    factor = np.where(is_changed & (peak != 0), np.asarray(peaks) / np.where(peak == 0, 1, peak), 1.0)
    return dataclasses.replace(values, levels=np.asarray(values.levels) * factor[..., None])


def steps_taken(age: Int[Array, ""], steps_per_update: int, within: Any = 0) -> Float[Array, "*axes"]:
    """Environment steps before the update at this age, plus `within` steps of it.

    In float32: exact up to 2^24 steps, and without integer overflow beyond.
    """
    return age.astype(jnp.float32) * steps_per_update + jnp.asarray(within, jnp.float32)


def _made(kind: int, numbers: list[float], begins: list[float], warmup: float = 0.0, horizon: float = 0.0) -> Scheduled:
    fill = MOST_LEVELS - len(numbers)
    levels = np.asarray([*numbers, *[numbers[-1]] * fill])
    return Scheduled(kind, levels, np.asarray([*begins, *[math.inf] * (MOST_LEVELS - len(begins))]), warmup, horizon)


def _name(text: str) -> str:
    found = CALL.fullmatch(text)
    return found[1] if found else ""


def _read(text: str) -> tuple[str, list[float], list[float], dict[str, float]]:
    """Return (kind, numbers, where they begin, options) of a text. Raises ValueError, in words, for a wrong one."""
    found = CALL.fullmatch(text)
    if found is None or found[1] not in WRITTEN:
        near = did_you_mean(found[1], WRITTEN) if found else ""
        raise ValueError(f"{text!r:.60} is no schedule.{near} Write {', '.join(WRITTEN)}, as in {EXAMPLE}.")
    kind = found[1]
    points, given = read_arguments(text, found[2])
    for name in given:
        if name not in OPTIONS:
            raise ValueError(
                f"{text} has no {name!r}.{did_you_mean(name, OPTIONS)} A schedule has {' and '.join(OPTIONS)}."
            )
    options = {name: _number(text, number) for name, number in given.items()}
    numbers, begins = _points(text, kind, points)
    if not 0 <= options.get("warmup", 0) < 1:
        raise ValueError(f"{text} has warmup={options['warmup']:g}: it is a share of the horizon, from 0 to below 1.")
    if options.get("horizon", 1) <= 0:
        raise ValueError(f"{text} has horizon={options['horizon']:g}: it is a number of environment steps above 0.")
    return kind, numbers, begins, options


def _points(text: str, kind: str, points: list[str]) -> tuple[list[float], list[float]]:
    """Return the numbers of a text, and the progress from which on each holds; lines and cosines have only 0."""
    needed = {"constant": (1, 1), "steps": (2, MOST_LEVELS)}.get(kind, (2, 2))
    if not needed[0] <= len(points) <= needed[1]:
        one = "one number" if needed[1] == 1 else "two numbers, at the start and at the end"
        what = f"2 to {MOST_LEVELS} numbers" if kind == "steps" else one
        raise ValueError(f"{text} has {len(points)} number{'s' * (len(points) != 1)}, and {kind} needs {what}.")
    pairs = [point.partition("@") for point in points]
    numbers, marked = [_number(text, number) for number, _, _ in pairs], [bool(mark) for _, mark, _ in pairs]
    if kind != "steps" or not any(marked):
        if any(marked):
            raise ValueError(f"{text} has a point of progress after @, which only steps has.")
        return numbers, _even(len(numbers)) if kind == "steps" else [0.0]
    begins = [0.0, *(_number(text, at) for _, mark, at in pairs[1:] if mark)]
    is_rising = all(low < high for low, high in zip(begins, begins[1:], strict=False))
    if marked[0] or not all(marked[1:]) or not is_rising or begins[-1] >= 1:
        raise ValueError(
            f"{text} is not in order: the first number holds from the start, and every other one needs the point of "
            f"progress from which it holds, below 1 and rising, as in steps(3e-4, 1e-4 @ 0.5, 3e-5 @ 0.8)."
        )
    return numbers, begins


def _even(count: int) -> list[float]:
    """Return where `count` parts of equal length begin."""
    return [i / count for i in range(count)]


def _number(text: str, word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{text} has {word.strip()!r} where a finite number is needed, as in {EXAMPLE}.")
    return number


def _shortest(number: Any) -> float:
    """Return a number as a Python float with no more digits than its dtype needs: 0.0003 for a float32."""
    return float(str(np.asarray(number)[()]))
