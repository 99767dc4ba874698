"""Decide between learners while more seeds are trained: sign-flip tests at looks that are fixed in advance. NumPy only.

The scores of two learners are compared by their differences d_i, one for each seed i that both have. Assumption under
the null hypothesis: given its size |d_i|, a difference is positive or negative with probability 1/2, independently of
the others. It holds if the two learners are exchangeable for each seed, for example where they are the same, whatever
the distribution of scores is. It does not hold for two learners of the same mean whose differences are skewed.

A look k is after n_k seeds. With signs s of N sign vectors, one of which is all 1 (the data as they are),

    T_k(s) = | sum over i <= n_k of s_i d_i |                                                         (1)

At a level, a look rejects the sign vectors with the largest T_k among those that no earlier look has rejected, as many
as its share of the level allows:

    | vectors rejected up to look k | <= level * w_k * N,    w_k = (n_k / n_K) ^ SPENDING               (2)

A pair is decided when the vector of the data is rejected. Given the |d_i|, all vectors are equally likely under the
null hypothesis, so the probability that any of the K looks rejects is at most the level. Nothing is approximated.

Source: Mathieu et al. 2023, "AdaStop: adaptive statistical testing for sound comparisons of deep RL agents"
(arXiv 2306.10882), algorithm 1: a group-sequential permutation test, there of unpaired scores and with equal shares of
the level, without those that earlier looks left. Equation 2: Lan and DeMets 1983, with the powers of Kim and DeMets
1987.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int8

EXHAUSTIVE = 14  # seeds of which all sign vectors are tried
SPENDING = 0.75  # exponent of (2): at 1, two learners could not be told apart after 8 of 64 seeds at the level 0.05
PRECISION = 1e9  # sums are rounded to this share of the largest one, so that rounding makes no difference between ties
TRIED_SHIFTS = 33  # of an interval, before its ends are searched between two of them
NEVER = 10**9  # the look at which a test rejects that does not
FIRST, SECOND, NO_DIFFERENCE, OPEN = "first", "second", "no difference", "open"  # outcomes of a pair

Pair = tuple[int, int]


class Design(NamedTuple):
    """The rules of a race, fixed before it begins: after how many seeds it looks, its error, and what is small."""

    looks: tuple[int, ...]
    alpha: float = 0.05
    margin: float = 0.0  # a difference below it is not worth knowing; 0: none is asked for
    seed: int = 0  # of the sign vectors

    @property
    def shares(self) -> Float[np.ndarray, "K"]:
        """The share w_k of the level that may be spent up to each look, by (2)."""
        return (np.asarray(self.looks) / self.looks[-1]) ** SPENDING

    @property
    def signs(self) -> Int8[np.ndarray, "N n"]:
        """The sign vectors of the tests."""
        return sign_vectors(self.looks[-1], self.seed)


class Path(NamedTuple):
    """A test at the looks so far: it rejects at the first look with p <= bound."""

    p: Float[np.ndarray, "k"]  # share of sign vectors with a T_k as large as that of the data
    bound: Float[np.ndarray, "k"]
    look: int  # at which it rejects, from 0; NEVER


class Verdict(NamedTuple):
    """The outcome of the race of a pair of learners, so far."""

    outcome: str  # which one has the higher scores, NO_DIFFERENCE, or OPEN
    look: int  # at which it was decided, from 0; NEVER
    level: float  # of its tests at the last look
    path: Path  # of the test for a difference, at this level


def looks_of(at_most: int, batch: int) -> tuple[int, ...]:
    """Return the numbers of seeds at which a race looks: after every batch, and at `at_most`."""
    return (*range(batch, at_most, batch), at_most)


@lru_cache(maxsize=4)
def sign_vectors(seeds: int, seed: int = 0) -> Int8[np.ndarray, "N seeds"]:
    """Return N sign vectors, the first of which is all 1: every one of the first EXHAUSTIVE seeds, random after that.

    Flipped by the signs of the data, they are again all vectors of the first seeds, with random signs after that. So
    the place of the data among them is random under the null hypothesis, and tests are exact for more seeds too.
    """
    first = min(seeds, EXHAUSTIVE)
    bits = (np.arange(2**first)[:, None] >> np.arange(first) & 1).astype(np.int8)
    later = np.random.default_rng(seed).integers(0, 2, (2**first, seeds - first), np.int8)
    later[0] = 0
    signs = 1 - 2 * np.concatenate([bits, later], axis=1)
    signs.flags.writeable = False
    return signs


def statistics(
    differences: Float[np.ndarray, "n"], design: Design, *, two_sided: bool = True
) -> list[Float[np.ndarray, "N"]]:
    """Return T_k of (1) for every sign vector at each look for which there are differences; one-sided: without | |.

    Differences that are not finite count as 0, which is evidence for neither side.
    """
    known = np.where(np.isfinite(differences), differences, 0.0)
    signs, found, total, before = design.signs, [], 0.0, 0
    for seeds in design.looks:
        if seeds > len(known):
            break
        total = total + signs[:, before:seeds] @ known[before:seeds]
        before, largest = seeds, max(np.abs(known[:seeds]).sum(), np.finfo(float).tiny)
        found.append(np.round((np.abs(total) if two_sided else total) / largest * PRECISION))
    return found


def path(of_looks: Sequence[Float[np.ndarray, "N"]], shares: Float[np.ndarray, "K"], level: float) -> Path:
    """Return what a test at this level finds at every look, for the statistics T_k of the sign vectors by (2)."""
    p, bound, first = [], [], NEVER
    is_left = np.ones(len(of_looks[0]), bool) if of_looks else np.ones(0, bool)
    for look, (values, share) in enumerate(zip(of_looks, shares, strict=False)):
        cut = _cut(values[is_left], int(level * share * len(values) + 1e-9) - int((~is_left).sum()))
        p.append(float((values >= values[0]).mean()))
        bound.append(float((values > cut).mean()))
        if first == NEVER and values[0] > cut:
            first = look
        is_left &= values <= cut
    return Path(np.array(p), np.array(bound), first)


def _cut(values: Float[np.ndarray, "_"], count: int) -> float:
    """Return the smallest value that at most `count` values are above."""
    if count >= len(values):
        return -np.inf
    return float(np.partition(values, len(values) - 1 - count)[len(values) - 1 - count])


class _Tests:
    """The tests of one pair at the looks so far, at any level."""

    def __init__(self, differences: Float[np.ndarray, "n"], design: Design) -> None:
        self._differences, self._looks = differences, design.looks
        self._shares, self._paths = design.shares, {}
        self._different = statistics(differences, design)
        self._within = []  # two one-sided tests: is the difference above -margin, and below margin?
        if design.margin:
            shifted = (differences + design.margin, design.margin - differences)
            self._within = [statistics(values, design, two_sided=False) for values in shifted]

    def path(self, level: float) -> Path:
        """Return the test for a difference."""
        if level not in self._paths:
            self._paths[level] = path(self._different, self._shares, level)
        return self._paths[level]

    def outcome(self, look: int, levels: Sequence[float]) -> str:
        """Return what all tests at these levels have decided up to a look."""
        if self._within and all(self._within_look(level) <= look for level in levels):
            return NO_DIFFERENCE
        if all(self.path(level).look <= look for level in levels):
            until = self._differences[: self._looks[look]]
            return FIRST if until[np.isfinite(until)].sum() > 0 else SECOND
        return OPEN

    def _within_look(self, level: float) -> int:
        return max(path(values, self._shares, level).look for values in self._within)


def verdicts(scores: Sequence[Float[np.ndarray, "_"]], design: Design) -> dict[Pair, Verdict]:
    """Return what the scores of C learners decide about each pair, at the looks that the open pairs have reached.

    Pairs are tested at alpha / r, where r pairs are still open: the step-down of Holm (1979), here on tests of (2). A
    pair is decided only if the tests at alpha / r', r' < r, decide it too, so that tests at higher levels never decide
    less. So with probability 1 - alpha no pair without a difference is ever called different.

    With a margin, a pair is also decided if both one-sided tests (Schuirmann 1987) reject that the difference is at
    least the margin. Then each pair is tested at alpha divided by all pairs: a pair that was decided as different
    could have been called "no difference" by mistake, so it must not free its share of alpha.
    """
    pairs = [*combinations(range(len(scores)), 2)]
    lengths = {(a, b): min(len(scores[a]), len(scores[b])) for a, b in pairs}
    tests = {(a, b): _Tests(_difference(scores[a], scores[b]), design) for a, b in pairs}
    found: dict[Pair, tuple[str, int, float]] = {}
    for look, seeds in enumerate(design.looks):
        left = [pair for pair in pairs if pair not in found]
        if not left or min(lengths[pair] for pair in left) < seeds:
            break
        while decided := _decided(tests, left, look, design, len(pairs)):
            found |= decided
            left = [pair for pair in left if pair not in found]
    return {
        pair: _verdict(tests[pair], found.get(pair), _levels(design, len(pairs) - len(found), len(pairs))[-1])
        for pair in pairs
    }


def _decided(
    tests: Mapping[Pair, _Tests], left: Sequence[Pair], look: int, design: Design, count: int
) -> dict[Pair, tuple[str, int, float]]:
    """Return those of the open pairs that are decided at this look, with outcome, look and level."""
    levels = _levels(design, len(left), count)
    outcomes = {pair: tests[pair].outcome(look, levels) for pair in left}
    return {pair: (outcome, look, levels[-1]) for pair, outcome in outcomes.items() if outcome != OPEN}


def _levels(design: Design, left: int, count: int) -> list[float]:
    """Return the levels at which a pair must be rejected while so many of `count` pairs are open, the highest first."""
    if design.margin:
        return [design.alpha / count]
    return [design.alpha / r for r in range(1, max(left, 1) + 1)]


def _verdict(tests: _Tests, found: tuple[str, int, float] | None, level: float) -> Verdict:
    outcome, look, level = found or (OPEN, NEVER, level)
    whole = tests.path(level)
    return Verdict(outcome, look, level, Path(whole.p[: look + 1], whole.bound[: look + 1], whole.look))


def _difference(first: Float[np.ndarray, "_"], second: Float[np.ndarray, "_"]) -> Float[np.ndarray, "n"]:
    count = min(len(first), len(second))
    return np.asarray(first[:count], float) - np.asarray(second[:count], float)


def interval(differences: Float[np.ndarray, "n"], design: Design, level: float) -> tuple[float, float]:
    """Return an interval of the mean difference: the shifts that no look so far rejects, with (1) of d_i - shift.

    It contains the center of symmetry of the differences with a probability of at least 1 - level, whenever the race
    stops. An end is infinite where there are too few seeds for it; both are NaN where every shift is rejected.
    """
    known = differences[np.isfinite(differences)]
    if not known.size:
        return np.nan, np.nan

    def is_left(shift: float) -> bool:
        return path(statistics(differences - shift, design), design.shares, level).look == NEVER

    room = 1e-6 * max(float(np.ptp(known)), float(np.abs(known).max()), np.finfo(float).tiny)
    evenly = np.linspace(known.min() - room, known.max() + room, TRIED_SHIFTS)
    shifts: list[float] = sorted([*evenly.tolist(), float(known.mean())])
    left = np.flatnonzero([is_left(shift) for shift in shifts])
    if not left.size:
        return np.nan, np.nan
    low, high = left[0], left[-1]
    return (
        _edge(is_left, shifts[low], shifts[low - 1]) if low else -np.inf,
        _edge(is_left, shifts[high], shifts[high + 1]) if high + 1 < len(shifts) else np.inf,
    )


def _edge(is_left: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return a shift between these two that is rejected, as its neighbor towards `inside` is not."""
    for _ in range(8):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if is_left(middle) else (inside, middle)
    return float(outside) if abs(outside) > np.finfo(float).tiny else 0.0
