"""The files of a study: `study.json` (what was asked), `trials.csv` (a row for each trial) and `summary.json`."""

import csv
import io
import json
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from shoal.core.errors import DamagedError
from shoal.specs.spec import RunSpec
from shoal.training.reading import damaged, opened, read_json, size_of

SPEC, TRIALS, SUMMARY, BEST, FRESH = "study.json", "trials.csv", "summary.json", "best.toml", "fresh"
OF_TRIAL = ("number", "state", "records", "worker", "group", "seconds", "retry_of", "seed")  # no parameters
SCORE = re.compile(r"scores?([_.\[].*)?$")  # `score`; with several objectives `score_0`, `score_return`
MOST_BYTES = 256 * 2**20  # of trials.csv
COMPLETE, PRUNED, FAILED, RUNNING, WAITING = "complete", "pruned", "fail", "running", "waiting"
PASSWORD = re.compile(r"(\w+://[^/\s:@]+):[^@\s]+@")


class Study:
    """A study as its folder describes it. Raises DamagedError for a damaged file."""

    def __init__(self, folder: Path) -> None:
        """Read the files; all but `study.json` may be missing."""
        self.folder = folder
        self.name = folder.resolve().name
        self.spec: dict[str, Any] = without_passwords(read_json(folder / SPEC, dict))
        self.damages: list[str] = []
        self.summary = self._json(SUMMARY)
        self.columns = self._table()

    def _json(self, name: str) -> dict[str, Any]:
        try:
            return without_passwords(read_json(self.folder / name, dict))
        except FileNotFoundError:
            return {}
        except DamagedError as error:
            self.damages.append(str(error))
            return {}

    def _table(self) -> dict[str, list[str]]:
        """The columns of `trials.csv` as texts, by name; none if the file does not exist."""
        try:
            rows = _rows(self.folder / TRIALS)
        except FileNotFoundError:
            return {}
        except DamagedError as error:
            self.damages.append(str(error))
            return {}
        head, *body = rows or [[]]
        return {name: [row[i] for row in body] for i, name in enumerate(head)}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    @cached_property
    def states(self) -> list[str]:
        """The state of every trial, in small letters."""
        given = self.columns.get("state", [COMPLETE] * len(self))
        return [state.rpartition(".")[2].lower() for state in given]

    @cached_property
    def numbers(self) -> np.ndarray:
        """The number of every trial, int [N]."""
        given = self.columns.get("number")
        return np.arange(len(self)) if given is None else np.nan_to_num(as_numbers(given), nan=-1).astype(int)

    @cached_property
    def objectives(self) -> list[str]:
        """The names of the columns with scores; more than one in a study of several objectives."""
        return [name for name in self.columns if SCORE.match(name)]

    @cached_property
    def scores(self) -> np.ndarray:
        """The scores [N, objectives]; NaN for trials without one."""
        return np.stack(
            [as_numbers(self.columns[name]) for name in self.objectives] or [np.full(len(self), np.nan)], axis=1
        )

    @cached_property
    def parameters(self) -> dict[str, list[Any]]:
        """The values [N] of every parameter, as numbers where all are; None where a trial has none."""
        found = {}
        for name, column in self.columns.items():
            if name in OF_TRIAL or name in self.objectives:
                continue
            numbers = as_numbers(column)
            is_numeric = all(not text or np.isfinite(value) for text, value in zip(column, numbers, strict=True))
            values = [float(value) if text else None for text, value in zip(column, numbers, strict=True)]
            found[re.sub(r"^params?[_.]", "", name)] = values if is_numeric else [text or None for text in column]
        return found

    @property
    def title(self) -> str:
        """The agent and the environment that the study is about."""
        return f"{self.run.agent.rpartition(':')[2]} on {self.run.env_name}" if self.run else self.name

    @cached_property
    def run(self) -> RunSpec | None:
        """The spec of one trial, without what is searched; None if this version cannot read it."""
        try:
            return RunSpec.from_json(self.spec["run"])
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    @property
    def searched(self) -> dict[str, Any]:
        """The ranges and lists of the search by path, from `study.json`."""
        search = self.spec.get("search")
        return search if isinstance(search, dict) else {}

    def count(self, state: str) -> int:
        """Return the number of trials in a state."""
        return self.states.count(state)

    @cached_property
    def complete(self) -> np.ndarray:
        """Bool [N]: trials that were trained to the end and have every score."""
        return np.array([state == COMPLETE for state in self.states], bool) & np.isfinite(self.scores).all(axis=1)

    @cached_property
    def best(self) -> list[int]:
        """The rows of the best trials: one, or with several objectives those that no trial exceeds in all of them."""
        rows = np.flatnonzero(self.complete)
        if not rows.size:
            return []
        signs = np.array([-1.0 if str(direction).lower() == "minimize" else 1.0 for direction in self.directions])
        scores = self.scores[rows] * signs
        if scores.shape[1] == 1:
            return [int(rows[np.argmax(scores[:, 0])])]
        exceeded = [bool(((scores >= s).all(axis=1) & (scores > s).any(axis=1)).any()) for s in scores]
        return [int(row) for row, is_exceeded in zip(rows, exceeded, strict=True) if not is_exceeded]

    @cached_property
    def directions(self) -> list[str]:
        """Whether each objective is to be "maximize"d or "minimize"d; the first unless study.json says otherwise."""
        given = self.spec.get("directions") or [self.spec.get("direction", "maximize")]
        return (
            [str(direction) for direction in given]
            if len(given) == self.scores.shape[1]
            else ["maximize"] * self.scores.shape[1]
        )

    def parameters_of(self, row: int) -> dict[str, Any]:
        """Return the parameters of one trial by name."""
        return {name: values[row] for name, values in self.parameters.items() if values[row] is not None}


def is_study(folder: Path) -> bool:
    """Return whether a folder holds a study."""
    return (folder / SPEC).is_file()


def as_numbers(texts: list[str]) -> np.ndarray:
    """Return texts as numbers [N]; NaN for those that are none."""
    return np.array([_number(text) for text in texts], float)


def without_passwords(data: Any) -> Any:
    """Return JSON data with `***` in the place of passwords in addresses such as postgresql://user:password@host."""
    return json.loads(PASSWORD.sub(r"\1:***@", json.dumps(data)))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float({"true": 1, "false": 0}.get(text.lower(), float("nan")))


def _rows(path: Path) -> list[list[str]]:
    with opened(path) as file:
        if size_of(file) > MOST_BYTES:
            raise damaged(path, f"it has more than {MOST_BYTES:,} bytes")
        content = file.read()
    try:
        rows = [row for row in csv.reader(io.StringIO(content.decode("utf-8"), newline="")) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise damaged(path, str(error)) from error
    if any(len(row) != len(rows[0]) for row in rows):
        raise damaged(path, "its rows have different lengths")
    return rows
