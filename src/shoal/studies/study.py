"""A study: what was asked for, and the folder where its workers write.

study.json            the description of the study (`StudySpec`)
study.log             its trials, unless they are in another storage
workers/NAME/         of one process: slots.csv, and group-K/, an ordinary run folder for each program
summary.json          written when the study ends
"""

import csv
import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import optuna

from shoal.core.errors import DamagedError
from shoal.core.secrets import without_password
from shoal.specs.options import OF_STUDY, StudyOptions
from shoal.specs.spec import RunSpec
from shoal.studies.errors import StorageError
from shoal.studies.objectives import SINGLE
from shoal.studies.results import best_trials, pareto_front, trial_counts
from shoal.studies.search import Space
from shoal.studies.storage import LOST, Direction, open_storage
from shoal.training.folder import RunFolder, about_folder, json_ready, named
from shoal.training.reading import read_json

SPEC, LOG, SUMMARY = "study.json", "study.log", "summary.json"


@dataclasses.dataclass(frozen=True)
class StudySpec(StudyOptions):
    """The description of a study, complete enough to go on with it in another process."""

    name: str  # in the storage
    run: RunSpec  # of one trial: agent, environment, fields that are not searched, steps, seeds, records, evaluations
    search: Mapping[str, Any]  # by path: a list of values, or [low, high, "log" or "linear"]
    sources: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # SHA-256 of the files of sampler and pruner

    def to_json(self) -> dict[str, Any]:
        own = ("sources",) if self.sources else ()
        data = {name: getattr(self, name) for name in ("name", "run", "search", *OF_STUDY, *own)}
        return json_ready({**data, "run": self.run.to_json(), "storage": without_password(self.storage)})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "StudySpec":
        """Return the description of JSON data, the inverse of `to_json`."""
        objectives = tuple(data.get("objectives", SINGLE))
        return cls(**{**data, "run": RunSpec.from_json(data["run"]), "objectives": objectives})

    @property
    def run_with_sources(self) -> RunSpec:
        """The run of a trial, with the SHA-256 of all files of the study: those of its sampler and its pruner too."""
        return dataclasses.replace(self.run, sources={**self.run.sources, **self.sources})

    @property
    def directions(self) -> list[Direction]:
        return ["maximize"] * len(self.objectives)

    @property
    def identity(self) -> dict[str, Any]:
        """The parts that all workers share, as data for JSON: a study that differs in them is another one."""
        data = self.to_json()
        several = ("objectives",) if len(self.objectives) > 1 else ()
        return {name: data[name] for name in ("run", "search", "score", "pruner", *several)}


class StudyFolder:
    """The paths and files of a study."""

    def __init__(self, path: Path | str) -> None:
        """Use the folder at `path`. Nothing is read or written."""
        self.path = Path(path)

    def create(self) -> None:
        """Make the folder. Raises FileExistsError if it holds a study or a run, PermissionError if none can be made."""
        if (self.path / SPEC).exists():
            raise FileExistsError(
                f"{self.path} already holds a study. Continue it with `shoal tune --resume {self.path}`, or choose "
                f"another --name."
            )
        RunFolder(self.path).create()

    def remove_if_empty(self) -> None:
        """Remove the folder of a new study that could not begin, so that its name stays free."""
        with suppress(OSError):
            self.path.rmdir()

    def write(self, name: str, data: Any) -> None:
        RunFolder(self.path).write_json(name, data)

    def read_spec(self) -> StudySpec:
        """Read `study.json`. Raises FileNotFoundError if the folder holds no study, ValueError for a damaged file."""
        try:
            return StudySpec.from_json(read_json(self.path / SPEC, advice="Restore it from a copy."))
        except DamagedError:
            raise
        except (FileNotFoundError, NotADirectoryError) as error:
            about = about_folder(self.path, SPEC)
            raise FileNotFoundError(f"{self.path} is not the folder of a study: {about}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{self.path / SPEC} is damaged: {error}. Restore it from a copy.") from error

    def worker(self, name: str) -> Path:
        """Return the folder of a worker. Raises ValueError unless its name is that of one folder."""
        return named(self.path / "workers", name, "worker")

    def storage(self, spec: StudySpec) -> str:
        return spec.storage or f"journal:{self.path / LOG}"


class StudyResult:
    """The result of a study, read from its folder and its storage."""

    def __init__(self, folder: Path | str) -> None:
        """Open a study. Raises FileNotFoundError if the folder holds none."""
        self._files = StudyFolder(folder)
        self.spec = self._files.read_spec()

    @property
    def folder(self) -> Path:
        return self._files.path

    @cached_property
    def study(self) -> optuna.Study:
        return open_trials(self.folder)

    @property
    def summary(self) -> dict[str, Any]:
        """The data of `summary.json`. Raises FileNotFoundError if no worker has ended yet."""
        return read_json(self.folder / SUMMARY)

    def __repr__(self) -> str:
        return f"<StudyResult {self.spec.run.agent} on {self.spec.run.env_name} in {self.folder}>"


def open_trials(folder: Path | str) -> optuna.Study:
    """Return the study of a folder, for reading. Raises FileNotFoundError if the folder holds none."""
    files = StudyFolder(folder)
    spec = files.read_spec()
    try:
        return optuna.load_study(study_name=spec.name, storage=open_storage(files.storage(spec), is_new=False))
    except KeyError as error:
        raise StorageError(f"the storage of {folder} has no study {spec.name!r}. {LOST}") from error


def summary_of(folder: StudyFolder, study: optuna.Study, space: Space) -> dict[str, Any]:
    """Return the data of `summary.json`: how many trials ended how, the best one, and what each worker's slots did.

    With several objectives there is no best trial, but "pareto_front".
    """
    is_single = len(study.directions) == 1
    best = next(iter(best_trials(study)), None) if is_single else None
    return {
        "trials": trial_counts(study),
        **({} if is_single else {"pareto_front": pareto_front(study)}),
        "best": best and {"number": best.number, "score": best.value, "values": space.values(best.params)},
        "workers": {path.parent.name: slots_in(path) for path in sorted(folder.path.glob("workers/*/slots.csv"))},
    }


def slots_in(path: Path) -> dict[str, float]:
    """Return what a `slots.csv` says: chunks, seconds, and shares of these.

    "busy": the share of the slot time in which a slot had a trial; "busy_until_last": the same until the last trial had
    begun; "training": the share of the time in which the compiled program trained.
    """
    with open(path, newline="") as file:
        rows = [{name: float(row[name]) for name in row if name != "group"} for row in csv.DictReader(file)]
    filling = [row for row in rows if row["to_start"] > 0]

    def busy(rows: list[dict[str, float]]) -> float:
        slots = sum(row["parallel"] * row["seconds"] for row in rows)
        return sum(row["trials"] * row["seconds"] for row in rows) / slots if slots else float("nan")

    seconds = sum(row["seconds"] for row in rows)
    training = sum(row["train_seconds"] for row in rows)
    return {
        "chunks": len(rows),
        "seconds": seconds,
        "busy": busy(rows),
        "busy_until_last": busy(filling),
        "training": training / max(seconds, 1e-9),
    }
