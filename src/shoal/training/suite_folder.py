"""The folder of a suite: `suite.json`, which says what is trained, and an ordinary run folder for each environment."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shoal.specs.spec import ZOO_PREFIX
from shoal.training.folder import RunFolder, about_folder, locate

SUITE = "suite.json"
SCORES = "suite-scores.json"


class SuiteFolder:
    """The files of a suite that was begun. Each is read when it is needed."""

    def __init__(self, folder: Path | str) -> None:
        """Open a suite. Raises FileNotFoundError if the folder has none, DamagedError for a damaged `suite.json`."""
        self.path = locate(folder)
        if not is_suite(self.path):
            raise FileNotFoundError(f"{folder} is not the folder of a suite: {about_folder(self.path, SUITE)}")
        self._data = RunFolder(self.path).read_json(SUITE)

    @property
    def name(self) -> str:
        """The name of the suite, or that of its file without the suffix."""
        return self._data["suite"]

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self._data["agent"]

    @property
    def specs(self) -> dict[str, dict[str, Any]]:
        """The data of `spec.json` of each run, by the label of its environment, in the order of training."""
        return {label: run["spec"] for label, run in self._data["runs"].items()}

    @property
    def folders(self) -> dict[str, RunFolder]:
        """The folder of each run by label. It does not exist before the run begins."""
        return {label: RunFolder(self.path / run["folder"]) for label, run in self._data["runs"].items()}

    @property
    def begun(self) -> dict[str, Path]:
        """The folders of the runs that have begun, by label."""
        return {label: folder.path for label, folder in self.folders.items() if folder.has("spec.json")}

    @property
    def left_out(self) -> dict[str, str]:
        """The environments of the suite that are not trained, each with the reason."""
        return self._data["left_out"]

    @property
    def references(self) -> dict[str, dict[str, float]]:
        """The returns that the suite's own file gives for normalization, as in `training/references.py`."""
        return self._data["references"]


def is_suite(folder: Path | str) -> bool:
    """Return whether a folder is that of a suite."""
    return not str(folder).startswith(ZOO_PREFIX) and (locate(folder) / SUITE).is_file()


class Expanded(NamedTuple):
    """Run folders in the place of suites: what `compare` takes, and notes for the reader."""

    runs: list[Any]
    label: dict[str, list[Any]]
    references: dict[str, dict[str, float]]  # of the suites' own files
    notes: list[str]
    has_suites: bool


def expanded(runs: Iterable[Any], label: Mapping[str, Any], *, is_grouped: bool = False) -> Expanded:
    """Return the runs and the labels of a comparison with the runs of each suite in its place.

    Without labels, and unless the user says what is compared (`is_grouped`), each suite is a group of its own, and so
    is each other run. Groups of suites are compared in the environments that all of them have; a note names the others.
    Raises ValueError for a suite without a run.
    """
    given = [run for item in runs for run in (item if isinstance(item, list | tuple) else [item])]
    suites = {id(run): SuiteFolder(_folder(run)) for run in given if _is_suite(run)}
    suites |= {id(run): SuiteFolder(_folder(run)) for of_name in label.values() for run in of_name if _is_suite(run)}
    if not suites:
        return Expanded(given, dict(label), {}, [], False)
    references = {name: table for suite in suites.values() for name, table in suite.references.items()}

    def inside(run: Any) -> list[Any]:
        return _runs_of(suites[id(run)]) if id(run) in suites else [run]

    if label or is_grouped:
        labels = {name: [one for run in of_name for one in inside(run)] for name, of_name in label.items()}
        return Expanded([one for run in given for one in inside(run)], labels, references, [], True)
    names = [str(_folder(run)) for run in given]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice} is given twice: a comparison needs different suites.")
    groups = dict(zip(names, map(inside, given), strict=True))
    notes = _keep_common([suites[id(run)].begun for run in given if id(run) in suites], groups)
    return Expanded([], groups, references, notes, True)


def _keep_common(suites: list[dict[str, Path]], groups: dict[str, list[Any]]) -> list[str]:
    """Remove from the groups the runs of environments that not all suites have, and return a note about them."""
    common = set(suites[0]).intersection(*suites)
    missing = list(dict.fromkeys(env for suite in suites for env in suite if env not in common))
    if not common:
        raise ValueError("the suites have no environment in common, so there is nothing to compare.")
    removed = {path for suite in suites for env, path in suite.items() if env not in common}
    for name, runs in groups.items():
        groups[name] = [run for run in runs if run not in removed]
    return [f"left out, because not all suites have it: {', '.join(missing)}"] if missing else []


def _runs_of(suite: SuiteFolder) -> list[Path]:
    if not suite.begun:
        raise ValueError(f"{suite.path} has no run yet: start it again with `shoal train --resume {suite.path}`.")
    return [*suite.begun.values()]


def _folder(run: Any) -> Any:
    return getattr(run, "folder", run)


def _is_suite(run: Any) -> bool:
    return isinstance(_folder(run), str | os.PathLike) and is_suite(_folder(run))
