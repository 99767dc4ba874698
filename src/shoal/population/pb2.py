"""Population-based bandits (PB2): as `pbt`, but copies get the hyperparameters from which a model expects most.

Source: Parker-Holder, Nguyen and Roberts 2020, "Provably Efficient Online Hyperparameter Optimization with
Population-Based Bandits", and its implementation in Ray (`tune/schedulers/pb2_utils.py`). The gain of a member between
two replacements is a sample of an unknown function of its hyperparameters, which changes with time. A Gaussian process
models it, whose kernel falls with the distance of the points and with the time between them. Each copy takes the
maximum of the upper confidence bound mean + sqrt(0.2 log(0.4 n)) deviation with n samples, where copies that were
chosen before it count as observed in the deviation. Differences from Ray: the bound has the deviation and not the
variance; the kernel's length, its forgetting and the noise are the most likely ones of a grid, and the maximum is that
of 1,000 random points, which is repeatable to the bit; the newest 200 samples are used. Values of a list are numbered
in the order of their size.
"""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from shoal.core.agent import check_counts
from shoal.core.env import Key
from shoal.core.ranges import Range
from shoal.core.registry import selector
from shoal.core.schedules import peak_of
from shoal.core.struct import static, struct
from shoal.population.replacing import Replacing
from shoal.population.varying import generator
from shoal.specs.selector import Standing

CANDIDATES = 1000
LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)  # of the kernel, where each hyperparameter's range has the length 1
FORGETTING = (0.0, 0.02, 0.1, 0.3)  # share of the correlation that is lost between two replacements
NOISE = (0.01, 0.1, 1.0, 10.0)  # variance of a sample's noise, as a multiple of that of the function
LEAST, MOST = 4, 200  # samples before the model is used, and that it uses: the newest


@selector("pb2")
@struct
class PB2(Replacing):
    """Population-based bandits: as PBT, but a model of the members' gains chooses the hyperparameters of copies.

    `exploit` and `quantile` say which members are replaced (`Replacing`). The gain of a member is how much its score
    changed since the last replacement. A Gaussian process learns it from the hyperparameters, the score before, and the
    time; each copy gets the hyperparameters with the largest upper confidence bound. Before there are four gains, they
    are sampled. It needs fewer members than PBT, which perturbs at random: 4 to 8 are usual.
    """

    memory: int = static(32, help="replacements whose gains the model remembers")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "memory")

    def first_state(self, members: int) -> dict[str, np.ndarray]:
        """Where members were, their scores before and gains after, at each remembered replacement; NaN: none yet."""
        shape = (self.memory, members)
        empty = {name: np.full(shape, np.nan) for name in ("before", "gain", "time")}
        return {**empty, "points": np.full((*shape, len(self.vary)), np.nan), "score": np.full(members, np.nan)}

    def explored(
        self, state: Any, standing: Standing, source: np.ndarray, key: Key
    ) -> tuple[Any, Mapping[str, np.ndarray]]:
        """The points with the largest upper confidence bound, one after the other."""
        state = self._remembered(state, standing)
        samples, random = Samples.of(state), generator(key, "candidates")
        points = random.random((len(source), len(self.vary)))
        is_copy = source != np.arange(len(source))
        if len(samples.gain) >= LEAST:
            model = Model.most_likely(samples)
            chosen = self._points(standing)[~is_copy & standing.alive]  # those of members that train on
            before = np.where(np.isnan(state["score"]), 0.0, state["score"])
            inputs = samples.inputs(chosen, before[~is_copy & standing.alive])
            for slot in np.flatnonzero(is_copy):
                candidates = random.random((CANDIDATES, len(self.vary)))
                there = samples.inputs(candidates, np.full(CANDIDATES, before[source[slot]]))
                best = model.bound(there, inputs, self._now(standing) + 1).argmax()
                points[slot] = candidates[best]
                inputs = np.concatenate([inputs, there[best : best + 1]])
        spans = self._spans(standing.roster.hyperparameters)
        numbers = {path: _numbers(span, points[:, i]) for i, (path, span) in enumerate(spans.items())}
        return {**state, "score": state["score"][source]}, numbers

    def _remembered(self, state: Mapping[str, Any], standing: Standing) -> dict[str, Any]:
        """Return the state with the gains since the last replacement."""
        score = np.where(standing.alive, standing.score, np.nan)
        new = {
            "points": self._points(standing),
            "before": state["score"],
            "gain": score - state["score"],
            "time": np.full(len(score), self._now(standing)),
        }
        return {**state, "score": score, **{name: np.append(state[name][1:], [x], axis=0) for name, x in new.items()}}

    def _now(self, standing: Standing) -> float:
        """Return the number of replacements up to this one."""
        return (standing.record + 1) / self.every

    def _points(self, standing: Standing) -> np.ndarray:
        """Return the positions [M, D] of the members' hyperparameters in their ranges."""
        values = standing.roster.hyperparameters
        spans = self._spans(values)
        return np.stack([_positions(span, np.asarray(peak_of(values[path]))) for path, span in spans.items()], axis=-1)


class Samples(NamedTuple):
    """Gains of members [N], and what they may depend on."""

    points: np.ndarray  # [N, D] positions of the hyperparameters in their ranges, from 0 to 1
    before: np.ndarray  # [N] scores before
    gain: np.ndarray  # [N]
    time: np.ndarray  # [N] numbers of the replacements

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "Samples":
        """Return the newest gains that a selector's state remembers, without those that are not finite."""
        known = np.isfinite(state["gain"])
        return cls(*(np.asarray(state[name])[known][-MOST:] for name in cls._fields))

    def inputs(self, points: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Return what the model takes [K, D + 1]: points, and scores before in units of the range of the samples'."""
        low, high = self.before.min(), self.before.max()
        return np.column_stack([points, (before - low) / (high - low or 1.0)])


class Model(NamedTuple):
    """A Gaussian process of the gains, in units of their standard deviation, above their mean."""

    inputs: np.ndarray  # [N, D + 1] of the samples
    time: np.ndarray  # [N]
    length: float
    forgetting: float
    noise: float
    variance: float  # of the function
    weights: np.ndarray  # [N]: the mean at x is k(x, inputs) @ weights

    @classmethod
    def most_likely(cls, samples: Samples) -> "Model":
        """Return the process of the grid with the largest marginal likelihood, each with its best variance."""
        inputs = samples.inputs(samples.points, samples.before)
        gain = (samples.gain - samples.gain.mean()) / (samples.gain.std() or 1.0)
        models = []
        for length, forgetting in itertools.product(LENGTHS, FORGETTING):
            kernel = _kernel(inputs, inputs, _differences(samples.time), length, forgetting)
            for noise in NOISE:
                lower = linalg.cholesky(kernel + noise * np.eye(len(gain)), lower=True)
                weights = linalg.cho_solve((lower, True), gain)
                variance = max(float(gain @ weights) / len(gain), 1e-12)
                likelihood = -0.5 * len(gain) * np.log(variance) - np.log(np.diag(lower)).sum()
                models.append((likelihood, cls(inputs, samples.time, length, forgetting, noise, variance, weights)))
        return max(models, key=lambda pair: pair[0])[1]

    def bound(self, inputs: np.ndarray, pending: np.ndarray, time: float) -> np.ndarray:
        """Return the upper confidence bounds [K] at `inputs` [K, D + 1] and a time.

        `pending` [P, D + 1] are inputs whose gains at that time are not known yet: they lower the deviation near them.
        """
        late = np.abs(time - self.time)
        mean = self._kernel(inputs, self.inputs, late) @ self.weights
        seen, lags = np.concatenate([self.inputs, pending]), np.append(late, np.zeros(len(pending)))
        among = self._kernel(seen, seen, _differences(np.append(self.time, np.full(len(pending), time))))
        lower = linalg.cholesky(among + self.noise * np.eye(len(seen)), lower=True)
        known = linalg.solve_triangular(lower, self._kernel(seen, inputs, lags[:, None]), lower=True)
        deviation = np.sqrt(np.maximum(self.variance * (1 - (known**2).sum(axis=0)), 0))
        return mean + np.sqrt(max(0.2 * np.log(0.4 * len(self.time)), 0)) * deviation

    def _kernel(self, a: np.ndarray, b: np.ndarray, lags: np.ndarray) -> np.ndarray:
        return _kernel(a, b, lags, self.length, self.forgetting)


def _kernel(a: np.ndarray, b: np.ndarray, lags: np.ndarray, length: float, forgetting: float) -> np.ndarray:
    """Return the correlations [A, B] of gains at inputs `a` [A, D] and `b` [B, D], `lags` replacements apart."""
    squares = ((a[:, None] - b) ** 2).sum(axis=-1)
    return np.exp(-squares / (2 * length**2)) * (1 - forgetting) ** (np.abs(lags) / 2)


def _differences(numbers: np.ndarray) -> np.ndarray:
    return numbers[:, None] - numbers


def _positions(span: Range, numbers: np.ndarray) -> np.ndarray:
    """Return where numbers [M] lie in a range, from 0 to 1; of a list, the place of the nearest value."""
    if span.values:
        choices = np.sort(np.asarray(span.values, np.float64))
        return np.abs(numbers[:, None] - choices).argmin(axis=1) / max(len(choices) - 1, 1)
    return span.position(numbers) if span.low < span.high else np.zeros(len(numbers))


def _numbers(span: Range, positions: np.ndarray) -> np.ndarray:
    """Return the numbers [M] of a range at positions from 0 to 1."""
    if span.values:
        choices = np.sort(np.asarray(span.values, np.float64))
        return choices[np.rint(positions * (len(choices) - 1)).astype(int)]
    return np.asarray(span.at(positions))
