"""Write a report: find out what the folders are, make the page, and write it to one file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.core.kinds import checked_kinds
from shoal.reports.comparison import comparison_report
from shoal.reports.facts import Facts
from shoal.reports.run import run_report
from shoal.reports.study import is_study, study_report
from shoal.specs.disk import replace
from shoal.training.compare import given_runs
from shoal.training.folder import RunFolder, locate
from shoal.training.suite_folder import expanded, is_suite

NAME = "report.html"


@checked_kinds()
def report(
    *what: Any,
    out: Path | str | None = None,
    trust_source: bool = False,
    group: str = "",
    label: Mapping | None = None,
    reference: Path | str = "",
) -> Path:
    """Write one HTML page about a run, a comparison of several runs, or a study, and return its path.

    `what` are folders (also `zoo:AGENT/ENV`), or the results that `train`, `evolve` and `tune` return. The page is one
    file that needs no network. It is written to `out`; by default to `report.html` in the folder of a single run or
    study, and in the working folder for several runs and for exported policies. A report that exists is replaced.

    A run may be unfinished, or miss its figures, curves or summary: the page then says so. `trust_source` is as in
    `shoal.load_result`, for an evolution whose found values need a Python file of your own. `group`, `label` and
    `reference` are those of `shoal.compare`, for several runs. The folder of a suite stands for its runs.

    Raises FileNotFoundError for what is no run, DamagedError for a damaged spec, ValueError for a study among several
    folders, and PermissionError if the page cannot be written.
    """
    if not (what or label):
        raise ValueError("there is nothing to report: give at least one run folder.")
    how = {"group": group, "label": label, "reference": reference}
    whole = expanded(what, label or {}, is_grouped=bool(group))
    suites = [folder for run in what if is_suite(folder := getattr(run, "folder", run))]
    alone = [getattr(run, "folder", run) for run in whole.runs]
    folders = given_runs(whole.runs, whole.label) if len(alone) > 1 or whole.label else alone
    studies = [folder for folder in folders if is_study(locate(folder))]
    if studies and len(folders) > 1:
        raise ValueError(f"{studies[0]} is a study, and a study has a report of its own: leave the others out.")
    if len(folders) == 1 and not suites and (unused := [name for name, value in how.items() if value]):
        raise ValueError(f"{unused[0]} is for a report of several runs: give more of them, or leave it out.")
    if studies:
        made = study_report(locate(folders[0]))
    else:
        runs = [Facts(folder, trust_source=trust_source) for folder in folders]
        is_alone = len(runs) == 1 and not suites
        made = run_report(runs[0]) if is_alone else comparison_report(runs, what, suites, **how)
    return _write(Path(out) if out else _default(suites or folders), made)


def _default(folders: list[Any]) -> Path:
    """The path of a report: in the folder of the only run, if it is one that was trained here."""
    if len(folders) > 1 or RunFolder(folders[0]).policy.is_dir():
        return Path(NAME)
    return locate(folders[0]) / NAME


def _write(path: Path, made: str) -> Path:
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report named {path.name!r} is no page: end its name in .html.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give a file that ends in .html.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, lambda target: target.write_text(made, encoding="utf-8"))
    except PermissionError as error:
        raise PermissionError(f"{path} cannot be written: {error.strerror}. Choose another file with --out.") from error
    return path
