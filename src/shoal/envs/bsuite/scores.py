"""bsuite's scores: a number from 0 to 1 for each experiment, and the mean of each tag. Pure functions of logs.

Source: bsuite 0.3.6, `experiments/*/analysis.py`, `experiments/summary_analysis.py` and `utils/plotting.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal.envs.bsuite.experiments import EXPERIMENTS

TAGS = ("basic", "credit_assignment", "exploration", "generalization", "memory", "noise", "scale")
LOG_RATIOS = (1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
EXTRA_EPISODES = 100  # a deep sea must be solved before episode 2 ** size + this


class Log(NamedTuple):
    """The log of one id: one row per logged episode, in increasing order.

    `columns` maps `episode`, `total_return` and the counters of `bsuite_info` to arrays [rows].
    """

    setting: Mapping[str, Any]
    columns: Mapping[str, np.ndarray]

    def first(self, episodes: float) -> "Log":
        """The rows up to episode number `episodes`."""
        rows = self.columns["episode"] <= episodes
        return Log(self.setting, {name: column[rows] for name, column in self.columns.items()})

    @property
    def episode(self) -> np.ndarray:
        """The numbers of the logged episodes."""
        return self.columns["episode"]


Logs = Sequence[Log]


def log_episodes(last: int) -> list[int]:
    """The episodes after which bsuite logs: {1, 1.2, 1.4, 1.7, 2, 2.5, 3, ..., 9} x 10^k, whole ones, up to `last`."""
    powers = range(len(str(last)))
    wanted = (round(ratio * 10**power, 6) for power in powers for ratio in LOG_RATIOS)
    return [int(episode) for episode in wanted if episode == int(episode) and episode <= last]


def score(experiment: str, logs: Logs) -> float:
    """The score of an experiment, equal to bsuite's. Raises ValueError without logs or for an unknown experiment.

    For unfinished runs, as in bsuite: the score is computed at the last episode that any id has reached, from the ids
    that have reached it.
    """
    if experiment not in SCORES:
        raise ValueError(f"experiment {experiment!r} has no score. bsuite has: {', '.join(SCORES)}.")
    if not any(len(log.episode) for log in logs):
        raise ValueError(f"{experiment} has no logged episode yet, so there is nothing to score.")
    return float(SCORES[experiment]([log for log in logs if len(log.episode)]))


def finished(experiment: str, logs: Logs) -> bool:
    """Whether every log has as many episodes as bsuite requires."""
    return all(len(log.episode) and log.episode[-1] >= EXPERIMENTS[experiment].episodes for log in logs)


def tag_scores(scores: Mapping[str, float]) -> dict[str, float]:
    """The mean score of the experiments with each tag: the axes of bsuite's radar plot.

    A tag without scores gets NaN. Scores that are NaN (MNIST's, before its last episodes) are left out.
    """
    valid = {name: s for name, s in scores.items() if not np.isnan(s)}
    found = {tag: [s for name, s in valid.items() if tag in EXPERIMENTS[name].tags] for tag in TAGS}
    return {tag: float(np.mean(values)) if values else float("nan") for tag, values in found.items()}


# Functions that several scores use.


def _last_mean(logs: Logs, column: Callable[[Log], np.ndarray], episodes: int) -> tuple[float, float]:
    """(mean of a column at the last logged episode, at most `episodes`; the number of that episode)."""
    last = min(max(log.episode[-1] for log in logs), episodes)
    values = [column(log)[log.episode == last] for log in logs]
    return float(np.mean(np.concatenate(values))), float(last)


def _regret_score(logs: Logs, regret: Callable[[Log], np.ndarray], base: float, episodes: int) -> float:
    """1 without regret, 0 for a regret of `base` per episode or more."""
    total, last = _last_mean(logs, regret, episodes)
    return float(np.clip((base - total / last) / base, 0, 1))


def _grouped_by(logs: Logs, field: str) -> list[list[Log]]:
    """Logs grouped by the value of one field of their settings."""
    groups: dict[Any, list[Log]] = {}
    for log in logs:
        groups.setdefault(log.setting[field], []).append(log)
    return list(groups.values())


def _column(name: str) -> Callable[[Log], np.ndarray]:
    return lambda log: np.asarray(log.columns[name], float)


def _over_scales(inner: Callable[[Logs], float], field: str) -> Callable[[Logs], float]:
    """Half the mean score over scales, plus half (the mean minus the standard deviation over scales)."""

    def scaled(logs: Logs) -> float:
        scores = [inner(group) for group in _grouped_by(logs, field)]
        mean = np.mean(scores)
        return 0.5 * float(np.clip(mean, 0, 1) + np.clip(mean - np.std(scores), 0, 1))

    return scaled


def _fraction_below(column: Callable[[Log], np.ndarray], field: str, limit: float) -> Callable[[Logs], float]:
    """The fraction of the values of `field` for which the mean of a column per episode is below a limit."""

    def fraction(logs: Logs) -> float:
        means = (_last_mean(group, column, 10_000) for group in _grouped_by(logs, field))
        return float(np.mean([total / last < limit for total, last in means]))

    return fraction


# The experiments.


def _bandit(logs: Logs) -> float:
    return _regret_score(logs, _column("total_regret"), 0.5, 10_000)


def _catch(logs: Logs) -> float:
    return _regret_score(logs, _column("total_regret"), 1.6, 10_000)


def _mnist(logs: Logs) -> float:
    """Half the regret score, half the accuracy in the last tenth of the episodes."""
    accuracy = [
        0.5 * (2 - np.diff(log.columns["total_regret"]) / np.diff(log.episode))[log.episode[1:] > 9_000] for log in logs
    ]
    return 0.5 * (_regret_score(logs, _column("total_regret"), 1.8, 10_000) + _mean(np.concatenate(accuracy)))


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _cartpole(logs: Logs) -> float:
    """Half the regret score, half the fraction of ids with an episode above 500."""
    logs = [log.first(1_000) for log in logs]
    regret = _regret_score(logs, lambda log: 1_000 * log.episode - log.columns["raw_return"], 1_000, 1_000)
    return 0.5 * (regret + float(np.mean([np.max(log.columns["best_episode"]) > 500 for log in logs])))


def _swingup(logs: Logs) -> float:
    """The mean over heights of: half the regret score, half the fraction of ids with an episode above 100."""

    def height_score(group: Logs) -> float:
        regret = _regret_score(group, lambda log: 700 * log.episode - log.columns["total_return"], 700, 1_000)
        return 0.5 * (regret + float(np.mean([np.max(log.columns["best_episode"]) > 100 for log in group])))

    return float(
        np.mean([height_score(group) for group in _grouped_by([log.first(1_000) for log in logs], "height_threshold")])
    )


def _mountain_car(logs: Logs) -> float:
    return _regret_score(logs, lambda log: -100 * log.episode - log.columns["raw_return"], 1_000, 1_000)


def _discounting_chain(logs: Logs) -> float:
    total, last = _last_mean(logs, _column("total_return"), 1_000)
    return float(np.clip(1 - 10 * (1.1 - total / last), 0, 1))


def _deep_sea(threshold: float, patience: int) -> Callable[[Logs], float]:
    """The fraction of sizes that are solved before episode 2 ** size + 100.

    Solved: at some logged episode from number `patience` on, the fraction of bad episodes is below `threshold`.
    """

    def solved(group: Logs) -> bool:
        episode, bad = (
            np.concatenate([log.columns[name] for log in group]) for name in ("episode", "total_bad_episodes")
        )
        good = (episode >= patience) & (episode <= 10_000) & (bad / np.maximum(episode, 1) < threshold)
        return bool(good.any() and episode[good].min() < 2 ** float(group[0].setting["size"]) + EXTRA_EPISODES)

    def fraction(logs: Logs) -> float:
        groups = _grouped_by([log for log in logs if log.episode[-1] >= patience], "size")
        return float(np.mean([solved(group) for group in groups])) if groups else 0.0

    return fraction


def _memory(field: str) -> Callable[[Logs], float]:
    """The fraction of settings with fewer than three quarters of the mistakes of a random policy."""
    return _fraction_below(lambda log: 2 * (log.episode - log.columns["total_perfect"]), field, 0.75)


SCORES: Mapping[str, Callable[[Logs], float]] = {
    "bandit": _bandit,
    "bandit_noise": _over_scales(_bandit, "noise_scale"),
    "bandit_scale": _over_scales(_bandit, "reward_scale"),
    "cartpole": _cartpole,
    "cartpole_noise": _over_scales(_cartpole, "noise_scale"),
    "cartpole_scale": _over_scales(_cartpole, "reward_scale"),
    "cartpole_swingup": _swingup,
    "catch": _catch,
    "catch_noise": _over_scales(_catch, "noise_scale"),
    "catch_scale": _over_scales(_catch, "reward_scale"),
    "deep_sea": _deep_sea(0.9, 0),
    "deep_sea_stochastic": _deep_sea(0.8, 100),
    "discounting_chain": _discounting_chain,
    "memory_len": _memory("memory_length"),
    "memory_size": _memory("num_bits"),
    "mnist": _mnist,
    "mnist_noise": _over_scales(_mnist, "noise_scale"),
    "mnist_scale": _over_scales(_mnist, "reward_scale"),
    "mountain_car": _mountain_car,
    "mountain_car_noise": _over_scales(_mountain_car, "noise_scale"),
    "mountain_car_scale": _over_scales(_mountain_car, "reward_scale"),
    "umbrella_distract": _fraction_below(_column("total_regret"), "n_distractor", 0.5),
    "umbrella_length": _fraction_below(_column("total_regret"), "chain_length", 0.5),
}
