"""The records of a run: its learning curves, in memory and, after every chunk, in the files of `curve_files`."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.core.agent import Metrics
from shoal.core.errors import DamagedError
from shoal.ops.statistics import bootstrap_interval, iqm, quantiles
from shoal.rollouts.evaluate import Evaluation
from shoal.specs.roster import NOBODY
from shoal.tracking.jsonl import as_line
from shoal.training import curve_files
from shoal.training.folder import RunFolder, json_ready
from shoal.training.reading import damaged

WIDEST = {"b": "?", "i": "<i8", "u": "<u8", "f": "<f8"}  # by kind of dtype
IDENTITY_COLUMNS = ("occupant", "trial", "parent")  # columns with numbers of members, whose mean has no meaning


class Records:
    """The columns of a run, with a row for each record: `env_steps`, `wall_seconds` [records], others [records, M]."""

    def __init__(self, members: int) -> None:
        """Begin without records, for M members."""
        self.members = members
        self.columns: dict[str, list[np.ndarray]] = {}
        self._dtypes: dict[str, np.dtype] = {}  # of each column as one array
        self._digest = hashlib.sha256()  # of all records
        self._in_npz = 0  # the number of records in `curves.npz`
        self._changed = True  # whether a record since then has changed the dtype of a column

    def __len__(self) -> int:
        return len(self.columns.get("env_steps", []))

    @property
    def env_steps(self) -> int:
        """The environment steps of each member at the newest record; 0 without one."""
        return int(self.columns["env_steps"][-1]) if len(self) else 0

    def append(
        self,
        env_steps: int,
        wall_seconds: float,
        metrics: Metrics,
        alive: np.ndarray,
        evaluation: Evaluation | None,
        slots: Mapping[str, np.ndarray] | None = None,
    ) -> dict[str, Any]:
        """Append one record of NumPy arrays [M], and return it as data for a line of `metrics.jsonl`.

        `slots`: with a selector, the columns for occupant, parent and hyperparameters of each slot.
        """
        row = {"env_steps": np.asarray(env_steps, np.int64), "wall_seconds": np.asarray(wall_seconds, np.float64)}
        row |= _episode_columns(metrics.episodes)
        row |= metrics.mean_losses
        row["alive"] = alive
        row |= _eval_columns(evaluation, self.members)
        row |= slots or {}
        for name, value in row.items():
            self.columns.setdefault(name, []).append(value)
        self._count(row)
        return _line(row)

    def _count(self, row: Mapping[str, np.ndarray]) -> None:
        """Add a record to the hash and to the dtypes of the columns."""
        self._digest.update(_hashed({name: np.asarray(value)[None] for name, value in row.items()}))
        dtypes = {name: np.result_type(self._dtypes.get(name, value), value) for name, value in row.items()}
        self._changed |= dtypes != self._dtypes
        self._dtypes = dtypes

    def arrays(self) -> dict[str, np.ndarray]:
        """Return every column as one array: [records] or [records, M]."""
        return {name: np.stack(rows) for name, rows in self.columns.items()}

    def newest_scores(self) -> np.ndarray:
        """Return the mean returns [M] of the newest record: of its evaluation if it has one, otherwise of training."""
        evaluated, trained = self.columns["eval_return"][-1], self.columns["train_return"][-1]
        return np.where(np.isnan(evaluated), trained, evaluated)

    def fingerprint(self) -> dict[str, Any]:
        """Return what a checkpoint keeps to recognize its curves: the dtype of each column, and the SHA-256 of all."""
        return {"dtypes": {name: dtype.str for name, dtype in self._dtypes.items()}, "rows": self._digest.hexdigest()}

    def save(self, folder: RunFolder) -> None:
        """Write the newest record. A long file is not written whole every time: see `curve_files`."""
        number = len(self) - 1
        row = curve_files.as_rows(
            {name: self.columns[name][-1].astype(kind)[None] for name, kind in self._dtypes.items()}
        )
        is_short = len(self) * row.nbytes <= curve_files.SHORT
        if self._changed or is_short or len(self) - self._in_npz > curve_files.GROWTH * len(self):
            self.save_whole(folder)
        else:
            curve_files.append(folder.path, row, number)

    def save_whole(self, folder: RunFolder) -> None:
        """Write all records to `curves.npz`, unless it has them."""
        if self._in_npz != len(self):
            curve_files.write_whole(folder.path, self.arrays())
            self._in_npz, self._changed = len(self), False

    @classmethod
    def load(cls, folder: RunFolder, members: int, records: int, fingerprint: dict[str, Any]) -> "Records":
        """Read the first `records` rows of a run, to go on from them.

        Raises DamagedError for curves that cannot be read or do not have this `fingerprint`.
        """
        self = cls(members)
        if records:
            columns = _read_columns(folder, members, records, fingerprint)
            self.columns = {name: [np.asarray(row) for row in rows] for name, rows in columns.items()}
            self._dtypes = {name: column.dtype for name, column in columns.items()}
            self._digest.update(_hashed(columns))
        return self

    def lines(self) -> str:
        """Return the text of `metrics.jsonl`, which follows from the curves."""
        rows = ({name: column[i] for name, column in self.columns.items()} for i in range(len(self)))
        return "".join(as_line(_line(row)) for row in rows)

    def of(self, rows: np.ndarray) -> "Records":
        """Return the records of the members `rows` [N] only; a member may be there several times."""
        chosen = Records(len(rows))
        for name, column in self.columns.items():
            dtype = self._dtypes[name]
            chosen.columns[name] = [np.asarray(x if np.ndim(x) == 0 else x[rows], dtype) for x in column]
        for i in range(len(self)):
            chosen._count({name: column[i] for name, column in chosen.columns.items()})
        return chosen


def member_scores(curves: dict[str, np.ndarray], which: str = "last") -> np.ndarray:
    """Return the mean return [M] of each member's last or, with `which="best"`, best evaluation; NaN without any.

    Evaluations of a slot that was idle do not count. With `which="whole"`: of all its training, the mean over the
    records in which an episode ended.
    """
    if which == "whole":
        counted = np.isfinite(curves["train_return"])
        total = np.where(counted, curves["train_return"], 0).sum(axis=0)
        return np.where(counted.any(axis=0), total / np.maximum(counted.sum(axis=0), 1), np.nan)
    returns = curves["eval_return"]
    if "occupant" in curves:
        returns = np.where(curves["occupant"] == NOBODY, np.nan, returns)
    evaluated = returns[~np.isnan(returns).all(axis=1)]
    if not len(evaluated):
        return np.full(returns.shape[1], np.nan)
    return evaluated[-1] if which == "last" else np.fmax.reduce(evaluated)


def steps_to(curves: dict[str, np.ndarray], target: float, most: int) -> np.ndarray:
    """Return the environment steps [M] after which an evaluation of each member first reached the return `target`.

    A member that does not reach it within `most` steps has `most`; NaN for one without an evaluation.
    """
    returns, steps = curves["eval_return"], curves["env_steps"]
    has_reached = returns >= target
    found = np.where(has_reached.any(axis=0), steps[has_reached.argmax(axis=0)], np.inf)
    return np.where(np.isfinite(returns).any(axis=0), np.minimum(found, most), np.nan)


def score_summary(scores: np.ndarray) -> dict[str, float]:
    """Summarize scores [M]: mean, minimum, 5th percentile, maximum, interquartile mean and its 95 % bootstrap interval.

    Scores that are not finite are left out. The interval of fewer than `FEWEST` members is NaN.
    """
    finite = scores[np.isfinite(scores)]
    if finite.size == 0:
        return {"members": 0}
    low, high = bootstrap_interval(finite, iqm)
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
    path = folder.path / curve_files.NPZ
    try:
        found = folder.read_curves(members)
    except FileNotFoundError as error:
        raise DamagedError(f"{path} is missing, and its run cannot go on without it.") from error
    if (rows := len(found["env_steps"])) < records:
        raise DamagedError(
            f"{path} has {rows} records, but the checkpoint of its run was made after {records} records."
        )
    columns = {name: column[:records] for name, column in found.items()}
    for name, dtype in fingerprint.get("dtypes", {}).items():
        # A later row without an evaluation holds float64 NaN, which widens the column's dtype.
        if name in columns and np.dtype(dtype).kind == columns[name].dtype.kind == "f":
            columns[name] = columns[name].astype(dtype)
    if _fingerprint(columns, "rows" in fingerprint) != fingerprint:
        raise damaged(path, f"its first {records} records differ from those at the time of the checkpoint")
    return columns


def _fingerprint(columns: dict[str, np.ndarray], of_rows: bool) -> dict[str, Any]:
    """Return the fingerprint of columns; not `of_rows`: as older checkpoints have it, column by column."""
    if of_rows:
        dtypes = {name: column.dtype.str for name, column in columns.items()}
        return {"dtypes": dtypes, "rows": hashlib.sha256(_hashed(columns)).hexdigest()}
    names = sorted(columns)
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name} {columns[name].shape}".encode())
        digest.update(np.ascontiguousarray(columns[name]).tobytes())
    return {"dtypes": {name: columns[name].dtype.str for name in names}, "sha256": digest.hexdigest()}


def _hashed(columns: Mapping[str, np.ndarray]) -> bytes:
    """Return what a fingerprint covers of records: of each the names and numbers, in the widest dtype of their kind."""
    wide = {name: columns[name].astype(WIDEST[columns[name].dtype.kind]) for name in sorted(columns)}
    names = " ".join(wide).encode()
    return b"".join(names + row.tobytes() for row in curve_files.as_rows(wide))


def _line(row: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return a record as data for JSON: of a column [M] its mean and quantiles over members.

    They are computed in the widest dtype, because a resumed run reads some columns in a wider one than it wrote.
    """
    line: dict[str, Any] = {}
    for name, narrow in row.items():
        value = narrow.astype(WIDEST[narrow.dtype.kind])
        if value.ndim == 0:
            line[name] = value.item()
        elif name == "alive":
            line["alive"] = int(value.sum())
        elif name not in IDENTITY_COLUMNS and not np.all(np.isnan(value)):
            low, middle, high = quantiles(value, (0.05, 0.5, 0.95))
            line[name] = {"mean": np.nanmean(value), "p05": low, "p50": middle, "p95": high}
    return json_ready(line)
