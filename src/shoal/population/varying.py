"""The base class of `pbt`, `pb2`, `halving` and `random`: what varies, the ranges, and members in order of score.

Selectors run on the host, so their random numbers come from NumPy, seeded with the words of a JAX key.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import jax
import numpy as np

from shoal.core.agent import Agent, check_choices
from shoal.core.env import Env, Key
from shoal.core.errors import did_you_mean
from shoal.core.ranges import Range
from shoal.core.schedules import Scheduled, peak_of, with_peaks
from shoal.core.struct import FieldInfo, static, struct
from shoal.specs.points import check_read, is_initial, is_used, read_span
from shoal.specs.roster import Roster
from shoal.specs.selector import Schedule, Selector, Standing, UserChoices
from shoal.specs.settings import AgentEnv, apply, get, hyperparameters, is_of_env, is_static

Bound = TypeVar("Bound", bound="Varying")


@struct
class Varying(Selector):
    """A selector that samples the hyperparameters of new members, each from its own range.

    `vary` is a list of paths (`learning_rate`, `env.gravity`), or a mapping from paths to ranges: `(low, high)`,
    `(low, high, "log")`, `(a, b, c, "choice")` for a list of values, or None for the range that the hyperparameter
    declares. By default all hyperparameters of the agent vary that declare a range and that the user did not set. The
    values of the first members are sampled too, except those that the run sweeps, samples or sets itself.

    Of a hyperparameter with a schedule the number farthest from 0 varies, and all other numbers of the schedule are
    multiplied by the same factor.
    """

    vary: Any = FieldInfo(
        ranges=True,
        help="the hyperparameters that vary, as PATH=RANGE, or PATH for the range that it declares; default: all of "
        "the agent that declare a range and that you did not set",
    ).field(None)
    changes_members: ClassVar[bool] = False  # whether members that have begun get other hyperparameters

    first_given: tuple | None = static(None, help="paths of `vary` whose first values the user gave; set by `bind`")

    def __post_init__(self) -> None:
        check_choices(self)

    def bind(self: Bound, agent: Agent, env: Env, given: UserChoices) -> Bound:
        """Return the selector with the ranges of all that varies. Raises ValueError or TypeError for a wrong range."""
        setting, asked = AgentEnv(agent, env), _asked(self.vary)
        if asked is None:
            swept = {
                path: _range_of_first(setting, path, given) for path in given.first if path in hyperparameters(setting)
            }
            asked = {**_declared(setting, given), **swept}
            if self.changes_members:
                asked = {path: span for path, span in asked.items() if not is_initial(setting, path)}
            if not asked:
                raise ValueError(
                    "nothing is left to vary: every hyperparameter with a search range was given a value. Leave one "
                    'out, or name what varies, as in vary=["learning_rate"].'
                )
        if not asked:
            raise ValueError('vary is empty: name at least one hyperparameter, as in vary=["learning_rate"].')
        spans = {path: read_range(setting, path, span, may_scale=True) for path, span in asked.items()}
        if self.changes_members and self.first_given is None:  # not where the selector comes from a file
            check_read(setting, asked)
        for path, span in spans.items():
            first = given.first.get(path) or [get(setting, path)] * (path in given.fixed)
            _check_first(path, span, [peak_of(value) for value in first])
        first = [path for path in spans if path in given.first or path in given.fixed or path in self._first]
        return self.replace(vary={path: span.written() for path, span in spans.items()}, first_given=tuple(first))

    def ranges(self, agent: Agent, env: Env) -> Mapping[str, tuple[float, float]]:
        """The lowest and the highest value of all that varies."""
        del agent, env
        return {path: (span.low, span.high) for path, span in self._spans({}).items()}

    def begin(self, roster: Roster, key: Key) -> tuple[dict[str, Any], dict[str, Any]]:
        """The first state, and sampled values of all paths that are not in `first_given`. `key` is consumed."""
        sampled = self._samples(roster, len(roster.occupant), key)
        new = {path: values for path, values in sampled.items() if path not in self._first}
        changes = {path: with_peaks(roster.hyperparameters[path], values) for path, values in new.items()}
        next_seed = np.asarray(roster.seed_index.max() + 1, np.int64)
        return {"next_seed": next_seed, **self.first_state(len(roster.occupant))}, changes

    def first_state(self, members: int) -> dict[str, np.ndarray]:
        """The arrays that a subclass adds to the selector's first state, by name. Default: nothing."""
        del members
        return {}

    def with_fresh(
        self, state: Mapping[str, Any], roster: Roster, is_fresh: np.ndarray, key: Key
    ) -> tuple[dict[str, Any], dict[str, Any], np.ndarray]:
        """Return (next state, hyperparameters, seeds [M]) with samples and unused seeds where `is_fresh` [M] is true.

        `key` is consumed.
        """
        sampled = self._samples(roster, len(is_fresh), key)
        values = {path: with_peaks(roster.hyperparameters[path], new, is_fresh) for path, new in sampled.items()}
        seeds = roster.seed_index.copy()
        seeds[is_fresh] = int(state["next_seed"]) + np.arange(is_fresh.sum())
        return {**state, "next_seed": np.asarray(state["next_seed"] + is_fresh.sum())}, values, seeds

    @property
    def _first(self) -> tuple:
        return self.first_given or ()

    def _spans(self, hyperparameters: Mapping[str, Any]) -> dict[str, Range]:
        """The span of each path that varies, of whole numbers where the roster's `hyperparameters` are integers."""
        whole = {p for p, values in hyperparameters.items() if np.issubdtype(np.asarray(values).dtype, np.integer)}
        return {path: Range.of(entry, path in whole) for path, entry in self.vary.items()}

    def _samples(self, roster: Roster, count: int, key: Key) -> dict[str, np.ndarray]:
        spans = self._spans(roster.hyperparameters)
        return {path: np.asarray(span.sample(generator(key, path), count)) for path, span in spans.items()}


def generator(key: Key, purpose: str) -> np.random.Generator:
    """Return NumPy's random generator for a purpose, such as a path. `key` is consumed, once for each purpose."""
    words = np.asarray(jax.random.key_data(key)).ravel().tolist()
    return np.random.default_rng([*words, zlib.crc32(purpose.encode())])


def effective_score(standing: Standing) -> np.ndarray:
    """Return the scores [M]; -inf for members without one (NaN) and for members that are no longer trained."""
    return np.where(standing.alive & ~np.isnan(standing.score), standing.score, -np.inf)


def ranked(standing: Standing) -> np.ndarray:
    """Return the slots that have a member, from the best score to the worst.

    Members without a score (NaN) come after all others, and after these the members that stopped because of NaN or
    infinity. Members with equal scores are in the order of their slots.
    """
    slots = np.arange(len(standing.score))
    order = np.lexsort((slots, -effective_score(standing), ~standing.alive))
    return order[~standing.roster.is_idle[order]]


def check_scored(schedule: Schedule, first: int, what: str) -> None:
    """Raise ValueError if members may have no score, or took no gradient step yet, after the first `first` records.

    `what` names, for the message, what the selector does then.
    """
    steps = schedule.steps[first - 1]
    record = f"{what} comes after record {first} ({steps:,} steps of each member)"
    by_evaluations = schedule.is_scored_by_evaluations
    if not schedule.is_evaluated[first - 1] if by_evaluations else schedule.scored_from > steps:
        why = "training has no episodes" if np.isinf(schedule.scored_from) else "no episode may have ended by then"
        which = "this record is not evaluated" if by_evaluations else "not every record is evaluated"
        raise ValueError(
            f"{record}, where members have no score yet: {why}, and {which}. Use --evaluations "
            f"{len(schedule.steps)}, or a later record for {what}."
        )
    if schedule.learns_from >= steps:
        raise ValueError(
            f"{record}, but the first gradient step comes after {schedule.learns_from:,.0f} steps: members have "
            f"learned nothing before it. Choose a later record for {what}, or let the agent learn earlier."
        )


def _asked(vary: Any) -> dict[str, Any] | None:
    """Return what the user gave as `vary`, as a mapping from paths to ranges or None."""
    if vary is None or isinstance(vary, Mapping):
        return None if vary is None else dict(vary)
    if isinstance(vary, str):
        return {vary: None}
    if isinstance(vary, Sequence) and all(isinstance(path, str) for path in vary):
        return dict.fromkeys(vary)
    raise TypeError(f'vary={vary!r} is not a list of paths and not a dict of ranges: write vary=["learning_rate"].')


def _declared(pair: AgentEnv, given: UserChoices) -> dict[str, Any]:
    """Return the paths of the agent that declare a range, with None; those with a value of the user are left out."""
    return {
        path: None
        for path, found in hyperparameters(pair).items()
        if not is_of_env(path) and path not in given.fixed and found.value is not None and is_used(pair, path, found)
    }


def _range_of_first(pair: AgentEnv, path: str, given: UserChoices) -> Sequence:
    """Return the range from which first values were sampled, or the declared one, widened to contain these values."""
    values = [peak_of(value) for value in given.first[path]]
    if span := given.search.get(path):
        return span
    if hyperparameters(pair)[path].search is None:
        return min(values), max(values)
    span = read_span(pair, path)
    widened = (min(span.low, *values), max(span.high, *values), span.scale)
    return widened[:2] if Range.of(widened).fault() else widened


def read_range(pair: AgentEnv, path: str, span: Sequence | None, *, may_scale: bool = False) -> Range:
    """Return the span of a path. Raises ValueError or TypeError if it cannot vary; the message names paths that can.

    A schedule can vary only where the caller scales it (`may_scale`).
    """
    if is_static(pair, path):
        can_vary = [p for p, found in hyperparameters(pair).items() if not found.static and found.search]
        near = did_you_mean(path, can_vary) or f" These can: {', '.join(can_vary)}."
        raise ValueError(f"{path} shapes the program, so it cannot vary during a run.{near}")
    value = get(pair, path)
    if value is None:
        raise ValueError(f"{path} is None, which needs another compiled program than a number: give it a number first.")
    if isinstance(value, Scheduled) and not may_scale:
        raise ValueError(f"{path} has the schedule {value}, and a search chooses numbers: give {path} a number first.")
    found = hyperparameters(pair).get(path)
    if span is None and found is not None and found.search is None:
        raise ValueError(
            f"{path} declares no search range: write one, as in --selector.vary {path}=LOW..HIGH, or in Python "
            f"vary={{{path!r}: (low, high)}}."
        )
    read = read_span(pair, path, span)
    for end in (read.low, read.high):
        try:
            apply(pair, {path: with_peaks(value, end) if isinstance(value, Scheduled) else end})
        except ValueError as error:
            raise ValueError(f"{path} cannot vary from {read.low:g} to {read.high:g}: {error}") from None
    return read


def _check_first(path: str, span: Range, values: Sequence) -> None:
    if outside := [value for value in values if not span.low <= value <= span.high]:
        raise ValueError(
            f"{path} begins with {outside[0]:g}, outside of its range from {span.low:g} to {span.high:g}: widen the "
            f"range, or begin inside of it."
        )
