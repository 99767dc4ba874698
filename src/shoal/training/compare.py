"""Compare runs: read their scores and curves, and put their members into groups and environments."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from shoal.core.errors import did_you_mean
from shoal.core.kinds import checked_kinds
from shoal.specs.spec import by_path, differences, plain
from shoal.training.comparison import Cell, Comparison, Environment, Group, env_differences, env_key, env_label
from shoal.training.folder import locate
from shoal.training.generations import is_evolution
from shoal.training.records import member_scores
from shoal.training.references import RANGE, Reference, range_of, read_references, reference_for
from shoal.training.result import Result
from shoal.training.suite_folder import expanded

METRICS = ("last", "best", "whole")
POINTS = 50  # of a curve


class _Member(NamedTuple):
    """A member of a run: where it belongs in a comparison."""

    run: int
    number: int
    name: str
    group: str
    env: Any
    score: float


@checked_kinds()
def compare(
    *runs: Any,
    metric: str = "last",
    group: str = "",
    label: Mapping | None = None,
    reference: Path | str = "",
) -> Comparison:
    """Compare runs by the scores of their members: `compare("runs/a", "runs/b")`, or a list of any number of runs.

    `metric` is the score: "last" or "best" evaluation, or "whole", the mean return over the whole training, which also
    measures how fast a member learns. `group` says what is compared: "agent", or a hyperparameter such as
    "learning_rate" or "env.gravity". `label` maps names to lists of runs instead. By default every run is a group if
    there are two runs or one environment; otherwise the runs of each agent are one.

    Environments that differ in a field are different ones. Scores are normalized in each: 0 is random play and 1 is
    the target of `envs/references.toml`; or those of `reference`, a TOML file of your own; or, where neither knows the
    environment and with `reference="range"`, the lowest and the highest compared score.

    The folder of a suite stands for its runs. Without `group` and `label` each suite is a group, and suites are
    compared in the environments that all of them have; those without a reference are left out.

    Members with the same setting, seed and generator are paired. Every interval is a 95 % bootstrap interval over
    seeds, NaN with fewer than six in an environment. Members without a finite score are left out and counted.
    `notes` are sentences about unfinished runs, numbers of steps, and environments that differ.

    Raises FileNotFoundError for what is no run, and ValueError for a run that is given twice, an evolution, a run
    without a score, a group that lacks an environment, one that has the same seed twice, and one group in all.
    """
    if metric not in METRICS:
        raise ValueError(f"metric={metric!r} is unknown. Choose one of {', '.join(METRICS)}.")
    if group and label:
        raise ValueError("group and label both say what is compared: give one of them.")
    whole = expanded(runs, label or {}, is_grouped=bool(group))
    label, known = whole.label, _references(reference, whole.references)
    given = given_runs(whole.runs, label)
    if whole.has_suites and known is not None:
        given = _with_reference(given, known, whole.notes)
    if len(given) == 1 and not (group or label):
        raise ValueError("compare needs a second run folder, or --group HYPERPARAMETER for the settings of one run.")
    results = [Result(folder) for folder in given]
    if evolved := [run.folder for run in results if is_evolution(run)]:
        raise ValueError(
            f"{evolved[0]} is an evolution, whose members are candidates with other values in every generation: train "
            f"with what it has found (`shoal train AGENT ENV --found {evolved[0]}`), and compare that run."
        )
    by_run = not (group or label) and (len(given) == 2 or len({env_key(r.spec) for r in results}) == 1)
    is_pooled = by_run and len(given) == 2  # also over environments that differ
    path = "" if by_run or label else (group or "agent").replace("-", "_")
    labels = {_resolved(run): name for name, of_name in label.items() for run in of_name}
    members = []
    for number, (name, run) in enumerate(zip(given, results, strict=True)):
        of_run = labels[_resolved(name)] if labels else name
        for m, (values, score) in enumerate(zip(run.members, _scores(run, metric), strict=True)):
            own = _named_value(run, path, values) if path else of_run
            key = None if is_pooled else env_key(run.spec, values, path)
            members.append(_Member(number, m, _seed_name(run, values, path, is_pooled), own, key, float(score)))
    shown = letters(len(given)) if by_run else given
    notes = whole.notes + _unfinished(shown, results)
    notes += _differing_environments(shown, results) if is_pooled else []
    environments = _environments(members, results, known, notes)
    names = dict.fromkeys(member.group for member in members)
    if len(names) == len(environments) == 1:
        raise ValueError(
            f"there is only one group, {next(iter(names))}, in one environment: give more runs, or say what is "
            "compared with another --group, or with --label NAME=RUN,RUN."
        )
    groups = tuple(_group(name, members, given, results, environments) for name in names)
    return Comparison(metric, tuple(environments.values()), groups, tuple(notes), by_run)


def _references(reference: Path | str, of_suites: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the user's own references, by default those of the suites; None: the range of the scores is asked for."""
    if str(reference) == RANGE:
        return None
    return read_references(reference) if reference else of_suites


def _with_reference(given: list[str], own: Mapping[str, Any], notes: list[str]) -> list[str]:
    """Return the runs in environments with a reference, and note the others; all runs if none has one."""
    specs = {run: Result(run).spec for run in given}
    keys = [env_key(spec) for spec in specs.values()]
    names = {run: env_label(env_key(spec), keys) for run, spec in specs.items()}
    kept = [run for run, spec in specs.items() if reference_for(names[run], spec, own) is not None]
    if not kept or len(kept) == len(given):
        return given
    missing = dict.fromkeys(names[run] for run in given if run not in kept)
    notes.append(f"left out, because random play or a target is not known: {', '.join(missing)}")
    return kept


def letters(count: int) -> list[str]:
    """Return short names of so many runs: A to Z, or numbers if they are more."""
    return [chr(ord("A") + i) if count <= 26 else str(i + 1) for i in range(count)]


def given_runs(runs: Sequence[Any], label: Mapping[str, Any]) -> list[str]:
    """Return the folders of all runs, those that only labels name too. Raises ValueError as `compare` says."""
    folders = [run for item in runs for run in (item if isinstance(item, list | tuple) else [item])]
    names = [str(getattr(run, "folder", run)) for run in folders]
    places = {_resolved(name): name for name in names}
    if twice := next((name for name in names if names.count(name) > 1 or places[_resolved(name)] != name), None):
        raise ValueError(f"{twice} is given twice: a comparison needs different runs.")
    owners: dict[Path, str] = {}
    for name, of_name in label.items():
        if not name or isinstance(of_name, str) or not of_name:
            raise ValueError(f"the label {name!r} names no run: give it a list of runs, as in --label NAME=RUN,RUN.")
        for run in of_name:
            path = _resolved(run)
            if path in owners:
                raise ValueError(f"{run} has two labels, {owners[path]} and {name}: give each run one.")
            owners[path] = name
            places.setdefault(path, str(getattr(run, "folder", run)))
    if label and (bare := [name for path, name in places.items() if path not in owners]):
        raise ValueError(f"{bare[0]} has no label: name it in one of {', '.join(label)}, or leave it out.")
    if not places:
        raise ValueError("compare needs run folders, as in `shoal compare runs/a runs/b`.")
    return [*places.values()]


def _resolved(run: Any) -> Path:
    return locate(getattr(run, "folder", run)).resolve()


def _seed_name(run: Result, values: Mapping[str, Any], path: str, is_pooled: bool) -> str:
    """Return what members of two groups that form a pair have in common: generator, seed, and setting."""
    kept = {k: v for k, v in values.items() if k != path and (is_pooled or not k.startswith("env."))}
    return " ".join([f"{run.spec.prng} {run.spec.seed}", *(f"{name}={value}" for name, value in kept.items())])


def _named_value(run: Result, path: str, values: Mapping[str, Any]) -> str:
    """Return the name of the group of a member: its agent, or its value of a hyperparameter."""
    if path == "agent":
        return run.spec.agent.rpartition(":")[2]
    known = {**by_path(run.spec), **values}
    if path not in known:
        raise ValueError(
            f"{run.folder} ({run.spec.agent}) has no hyperparameter {path!r}.{did_you_mean(path, known)} --group takes "
            f"agent or one that all runs have; --label NAME=RUN,RUN names groups of runs."
        )
    return f"{path}={plain(known[path])}"


def _environments(
    members: Sequence[_Member], results: Sequence[Result], references: Mapping[str, Any] | None, notes: list[str]
) -> dict[Any, Environment]:
    """Return the environments by their keys, in their alphabetical order. Adds notes about numbers of steps.

    `references` are the user's own; None: scores are normalized by their range.
    """
    own = references or {}
    found = {}
    keys = sorted({member.env for member in members}, key=str)  # they share a stream of random numbers
    for key in keys:
        inside = [member for member in members if member.env == key]
        runs = [results[number] for number in dict.fromkeys(member.run for member in inside)]
        name = env_label(key, keys) if key else " and ".join(dict.fromkeys(run.spec.env_name for run in runs))
        ends = [int(run.curves["env_steps"][-1]) for run in runs]
        if len({*ends}) > 1:
            notes.append(
                f"the runs in {name} have {min(ends):,} to {max(ends):,} steps: curves end at {min(ends):,}, and "
                "scores are from the end of each run"
            )
        swept = any(path.startswith("env.") for run in runs for path in run.spec.varying)
        is_known = references is not None and (name in own or not swept and _are_alike(runs))
        known = reference_for(name, runs[0].spec, own) if is_known else None
        scores = np.array([member.score for member in inside])
        found[key] = Environment(name, known or _range(scores, name, own), np.linspace(0, min(ends), POINTS + 1)[1:])
    return found


def _are_alike(runs: Sequence[Result]) -> bool:
    return not any(env_differences(runs[0].spec, run.spec) for run in runs[1:])


def _range(scores: np.ndarray, name: str, own: Mapping[str, Any]) -> Reference:
    if not np.isfinite(scores).any():
        raise ValueError(f"no run has a finite score in {name}: leave it out.")
    found = range_of(scores, "score of these runs")
    return found._replace(about=found.about + did_you_mean(name, own))


def _group(
    name: str,
    members: Sequence[_Member],
    given: Sequence[str],
    results: Sequence[Result],
    environments: Mapping[Any, Environment],
) -> Group:
    own = [member for member in members if member.group == name]
    cells = []
    for key, env in environments.items():
        inside = [member for member in own if member.env == key]
        finite = [member for member in inside if np.isfinite(member.score)]
        if not finite:
            why = "no finite score" if inside else "no run"
            raise ValueError(
                f"{name} has {why} in {env.name}, which the others have: every group needs the same environments. "
                f"Train what is missing, or leave out the runs in {env.name}."
            )
        _check_once(finite, given, results, env.name)
        curves = np.stack([_on_grid(results[m.run], m.number, env.steps) for m in finite], axis=1)
        cells.append(Cell(tuple(m.name for m in finite), np.array([m.score for m in finite]), curves))
    runs = tuple(given[number] for number in dict.fromkeys(member.run for member in own))
    return Group(name, runs, tuple(cells), sum(not np.isfinite(member.score) for member in own))


def _check_once(members: Sequence[_Member], given: Sequence[str], results: Sequence[Result], env: str) -> None:
    """Raise ValueError if two members of a group have the same seed in one environment: they are what is compared."""
    first: dict[str, _Member] = {}
    for member in members:
        other = first.setdefault(member.name, member)
        if other is not member:
            differ = differences(results[other.run].spec, results[member.run].spec)
            apart = f"which differ in {', '.join(differ[:3])}" if differ else "which are the same run"
            raise ValueError(
                f"{given[other.run]} and {given[member.run]} are both {member.group} in {env} and have the same seeds, "
                f"{apart}: say what is compared with --group HYPERPARAMETER or --label NAME=RUN,RUN, or leave one out."
            )


def _on_grid(run: Result, member: int, steps: np.ndarray) -> Float[np.ndarray, "T"]:
    """Return the newest return of a member at these steps; NaN before the first one."""
    returns = run.curves["train_return"]
    if not np.isfinite(returns).any():  # training has no episodes (`bc`)
        returns = run.curves["eval_return"]
    known = np.flatnonzero(np.isfinite(returns[:, member]))
    at = np.searchsorted(run.curves["env_steps"][known], steps * (1 + 1e-9), side="right") - 1
    return np.where(at >= 0, returns[known[at], member] if known.size else np.nan, np.nan)


def _unfinished(names: Sequence[str], runs: Sequence[Result]) -> list[str]:
    pairs = zip(names, runs, strict=True)
    return [f"{name} is not finished: {_steps_done(run)}" for name, run in pairs if not run.is_finished]


def _differing_environments(names: Sequence[str], runs: Sequence[Result]) -> list[str]:
    return [
        f"the environments differ: {'' if field == 'env' else f'{field}='}{a} in {names[0]}, {b} in {names[1]}"
        for field, (a, b) in env_differences(runs[0].spec, runs[1].spec).items()
    ]


def _steps_done(run: Result) -> str:
    """The steps that a run was trained for, in words: `256 of 512 steps`."""
    return f"{int(run.curves['env_steps'][-1]):,} of {run.spec.steps:,} steps"


def _scores(run: Result, metric: str) -> Float[np.ndarray, "M"]:
    """Return the scores of the members. Raises ValueError if none is finite."""
    values = member_scores(run.curves, metric)
    if metric == "whole" and np.isnan(values).all():
        raise ValueError(f"{run.folder} has no score to compare: no episode has ended in training.")
    if np.isnan(values).all() and not run.is_finished:
        raise ValueError(
            f"{run.folder} has no evaluation to compare: the run did not finish ({_steps_done(run)}). "
            f"Continue it with `shoal train --resume {run.folder}`."
        )
    if np.isnan(values).all():
        raise ValueError(f"{run.folder} has no evaluation to compare: train with --evaluations 1 or more.")
    if not np.isfinite(values).any():
        raise ValueError(f"{run.folder} has no finite score to compare.")
    return values
