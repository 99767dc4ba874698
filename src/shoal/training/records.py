"""Records: the curves of a run, kept in memory as [records, M] and on disk after every chunk."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.core.agent import Metrics
from shoal.core.errors import DamagedError
from shoal.ops.statistics import bootstrap_interval, iqm, quantiles
from shoal.rollouts.evaluate import Evaluation
from shoal.tracking.jsonl import as_line
from shoal.training.folder import RunFolder, json_ready
from shoal.training.reading import damaged

WHO = ("occupant", "parent")  # columns that name members, of which a mean says nothing


class Records:
    """Columns of a run, a row per record. `env_steps` and `wall_seconds` are [records], the rest [records, M]."""

    def __init__(self, members: int) -> None:
        """No records yet."""
        self.members = members
        self.columns: dict[str, list[np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self.columns.get("env_steps", []))

    def append(
        self,
        env_steps: int,
        wall_seconds: float,
        metrics: Metrics,
        alive: np.ndarray,
        evaluation: Evaluation | None,
        slots: Mapping[str, np.ndarray] | None = None,
    ) -> dict[str, Any]:
        """Take in one record, of host arrays [M], and return it as a line for `metrics.jsonl`.

        `slots` says who was in each slot and with which hyperparameters, where that changes in a run.
        """
        row = {"env_steps": np.asarray(env_steps, np.int64), "wall_seconds": np.asarray(wall_seconds, np.float64)}
        row |= _episode_columns(metrics.episodes)
        row |= {name: np.asarray(loss) for name, loss in metrics.losses.items()}
        row["alive"] = alive
        row |= _eval_columns(evaluation, self.members)
        row |= slots or {}
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value)
        return _line(row)

    def arrays(self) -> dict[str, np.ndarray]:
        """Every column stacked."""
        return {name: np.stack(rows) for name, rows in self.columns.items()}

    def newest_scores(self) -> np.ndarray:
        """[M]: mean returns of the newest record, of its evaluation if it has one, otherwise of training."""
        evaluated, trained = self.columns["eval_return"][-1], self.columns["train_return"][-1]
        return np.where(np.isnan(evaluated), trained, evaluated)

    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint says of the curves that belong to it: dtype of each column, and SHA-256 of them all."""
        return _fingerprint(self.arrays())

    def save(self, folder: RunFolder) -> None:
        """Write the curves."""

        columns: dict[str, Any] = self.arrays()

        def write(path: Any) -> None:
            with open(path, "wb") as file:
                np.savez(file, **columns)

        folder.replace("curves.npz", write)

    @classmethod
    def load(cls, folder: RunFolder, members: int, records: int, fingerprint: dict[str, Any]) -> "Records":
        """The first `records` rows of a run, for resuming; `metrics.jsonl` is written anew from them.

        Raises DamagedError for curves that cannot be read, or are not those of the `fingerprint`.
        """
        self = cls(members)
        if records:
            columns = _read_columns(folder, members, records, fingerprint)
            self.columns = {name: [np.asarray(row) for row in rows] for name, rows in columns.items()}
        rows = ({name: column[i] for name, column in self.columns.items()} for i in range(records))
        text = "".join(as_line(_line(row)) for row in rows)
        folder.replace("metrics.jsonl", lambda path: path.write_text(text))
        return self


def member_scores(curves: dict[str, np.ndarray], which: str = "last") -> np.ndarray:
    """[M]: what each member had at the last evaluation, or the best of all (`which="best"`); NaN where it has none."""
    returns = curves["eval_return"]
    evaluated = returns[~np.isnan(returns).all(axis=1)]
    if not len(evaluated):
        return np.full(returns.shape[1], np.nan)
    return evaluated[-1] if which == "last" else np.fmax.reduce(evaluated)


def score_summary(scores: np.ndarray) -> dict[str, float]:
    """Mean, 5th percentile, extremes and interquartile mean with its 95 % bootstrap interval, of one score a member.

    The interval of a single member is NaN.
    """
    finite = scores[np.isfinite(scores)]
    if finite.size == 0:
        return {"members": 0}
    low, high = bootstrap_interval(finite, iqm) if finite.size > 1 else (np.nan, np.nan)  # one has no spread
    return {
        "members": int(finite.size),
        "mean": float(finite.mean()),
        "min": float(finite.min()),
        "percentile_5": float(np.percentile(finite, 5)),
        "max": float(finite.max()),
        "iqm": float(iqm(finite)),
        "iqm_low": float(low),
        "iqm_high": float(high),
    }


def _episode_columns(episodes: Any) -> dict[str, np.ndarray]:
    count = np.asarray(episodes.count)
    some = np.maximum(count, 1)
    mean = np.asarray(episodes.return_sum, np.float64) / some
    variance = np.maximum(np.asarray(episodes.return_square_sum, np.float64) / some - mean**2, 0)
    found = {
        "train_return": mean,
        "train_return_std": np.sqrt(variance),
        "train_return_min": episodes.return_min,
        "train_return_max": episodes.return_max,
        "train_length": episodes.length_sum / some,
    }
    columns = {name: np.where(count > 0, value, np.nan) for name, value in found.items()}
    return columns | {"episodes": count, "resets_reused": np.asarray(episodes.resets_reused)}


def _eval_columns(evaluation: Evaluation | None, members: int) -> dict[str, np.ndarray]:
    missing = np.full(members, np.nan)
    if evaluation is None:
        return {"eval_return": missing, "eval_length": missing}
    return {
        "eval_return": np.asarray(evaluation.episode_return).mean(axis=1),
        "eval_length": np.asarray(evaluation.episode_length).mean(axis=1),
    }


def _read_columns(folder: RunFolder, members: int, records: int, fingerprint: dict[str, Any]) -> dict[str, np.ndarray]:
    path = folder.path / "curves.npz"
    try:
        found = folder.read_curves(members)
    except FileNotFoundError as error:
        raise DamagedError(f"{path} is missing, and its run cannot go on without it.") from error
    if (rows := len(found["env_steps"])) < records:
        raise DamagedError(f"{path} has {rows} records, and its run's checkpoint was made after {records}.")
    columns = {name: column[:records] for name, column in found.items()}
    if rows > records:  # a later row without an evaluation widens that column
        for name, dtype in fingerprint["dtypes"].items():
            if name in columns and np.dtype(dtype).kind == columns[name].dtype.kind == "f":
                columns[name] = columns[name].astype(dtype)
    if _fingerprint(columns) != fingerprint:
        raise damaged(path, f"its first {records} records are not those that its run's checkpoint was made after")
    return columns


def _fingerprint(columns: dict[str, np.ndarray]) -> dict[str, Any]:
    names = sorted(columns)
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name} {columns[name].shape}".encode())
        digest.update(np.ascontiguousarray(columns[name]).tobytes())
    return {"dtypes": {name: columns[name].dtype.str for name in names}, "sha256": digest.hexdigest()}


def _line(row: dict[str, np.ndarray]) -> dict[str, Any]:
    """A record as plain data: numbers over the members as mean and quantiles."""
    line: dict[str, Any] = {}
    for name, value in row.items():
        if value.ndim == 0:
            line[name] = value.item()
        elif name == "alive":
            line["alive"] = int(value.sum())
        elif name not in WHO and not np.all(np.isnan(value)):
            low, middle, high = quantiles(value, (0.05, 0.5, 0.95))
            line[name] = {"mean": np.nanmean(value), "p05": low, "p50": middle, "p95": high}
    return json_ready(line)
