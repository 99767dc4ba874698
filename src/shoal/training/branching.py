"""Branches of a run: twins of its members that leave it at a checkpoint and differ from it in one value.

A branch is a run of its own, whose spec names the run and the record at which it begins (`RunSpec.branch`). Its
settings are those of the run, each once without a change and once with each value. So it is trained, resumed and drawn
as any other run, and branches of branches are possible.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from shoal.core.kinds import python_number, shown
from shoal.core.struct import NUMBERS, info_of
from shoal.ops.aggregates import paired_difference
from shoal.specs.points import check_read, from_settings, read_span
from shoal.specs.settings import AgentEnv, apply, get, hyperparameters, in_numpy, is_static, setting_in_words
from shoal.specs.sources import with_sources
from shoal.specs.spec import RunSpec, built, described, template
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.host_envs import needs_host
from shoal.training.jobs import Job, spec_to_resume
from shoal.training.plan import make_plan
from shoal.training.records import member_scores
from shoal.training.result import Result


class Trunk(NamedTuple):
    """A finished run that branches can leave."""

    folder: RunFolder
    spec: RunSpec
    pair: AgentEnv
    records: dict[int, Path]  # the checkpoint after so many records; the last record is left out


class Effect(NamedTuple):
    """The effect of one change on the rest of a run, over pairs of a changed and an unchanged twin."""

    change: str  # `learning_rate=0.0003`
    record: int  # the record at which the twins begin to differ
    score: str  # "last evaluation", or "training": the mean return of all records since then
    mean: float  # of the changed twins
    difference: float  # to the unchanged ones
    low: float  # of the 95 % interval of the difference; NaN for fewer than six pairs
    high: float
    pairs: int  # one for each member of the run, or for each twin of a single member


class Spread(NamedTuple):
    """How far chance alone spreads twins without a change: those of one member, which differ in their random keys."""

    record: int  # the record at which the twins begin to differ
    score: str  # as in `Effect`
    mean: float
    deviation: float  # standard deviation of the twins of one member, pooled over members
    twins: int


def trunk_of(run: Path | str, *, trust_source: bool = False) -> Trunk:
    """Return a run that branches can leave.

    Raises ValueError for one that is not finished, has a selector or environments that Python steps, or is an exported
    policy; and the errors of `train(resume=run)`.
    """
    folder = RunFolder(run)
    if folder.policy.is_dir():
        raise ValueError(f"{run} holds an exported policy, which has no checkpoints of its training.")
    spec = spec_to_resume(folder, trust_source=trust_source)
    if not folder.has("summary.json"):
        raise ValueError(f"{run} is not finished, so there is no rest of it to compare: shoal train --resume {run}")
    if spec.selector is not None:
        raise ValueError(f"{run} has a selector, which copies members, so that twins of one would not stay apart.")
    pair = template(spec)
    plan = make_plan(spec, pair=pair)
    if needs_host(plan.env):
        raise ValueError(f"{spec.env_name} is stepped by Python, which cannot copy its state for a twin.")
    records = {0: folder.path}
    for path in reversed(checkpoint.saved(folder.checkpoints)):
        about = checkpoint.read_about(path)
        if about["updates"] == plan.boundary(about["records"] - 1) < plan.updates_per_member and not about["finished"]:
            records[about["records"]] = path
    return Trunk(folder, spec, pair, records)


def branch_job(trunk: Trunk, at: int, vary: Mapping[str, Sequence[Any]], keys: int = 0) -> Job:
    """Return the job of a branch that begins after record `at`: a setting without a change, and one for each value.

    With `keys` each member has so many more twins with other random keys. Raises ValueError for a record without a
    checkpoint, a static field, a value that is out of range or there twice, and negative `keys`; TypeError for an
    unknown path, and for True where a number is needed.
    """
    spec = trunk.spec
    if keys < 0:
        raise ValueError(f"keys={keys} must not be negative.")
    if at not in trunk.records:
        there = ", ".join(map(str, trunk.records))
        raise ValueError(
            f"{trunk.folder.path} has no checkpoint after record {at}. Branches can begin at: {there}. A run keeps "
            f"more of them with --keep-checkpoints."
        )
    if not vary and not keys:
        raise ValueError(
            "a branch needs a change: --vary learning_rate=1e-3, or --keys 8 for other random keys; in Python "
            "vary={'learning_rate': [1e-3]}, or keys=8."
        )
    for path, values in vary.items():
        _check_traced(trunk.pair, path)
        _check_values(trunk.pair, path, [python_number(value) for value in values])
    if at:
        check_read(trunk.pair, vary)
    settings = []
    changes = [{path: python_number(value)} for path, values in vary.items() for value in values]
    for setting in spec.settings():
        pair = apply(trunk.pair, built(setting))
        own = {path: python_number(get(pair, path)) for path in vary}
        settings += [{**setting, **own, **change} for change in [{}, *changes]]
    new = dataclasses.replace(
        spec,
        sweep={},
        env_sweep={},
        points=from_settings(settings) if settings[0] else {},
        seeds=spec.seeds * (1 + keys),
        init=spec.init if at == 0 else {},
        branch={
            "run": str(trunk.folder.path.resolve()),
            "record": at,
            "spec": trunk.folder.spec_hash,
            "twins": 1 + len(changes),
            "seeds": spec.branch.get("seeds", spec.seeds),  # of the run that is no branch; the others have other keys
        },
    )
    return Job(with_sources(described(new, trunk.pair)), pair=trunk.pair)


def spaced_values(trunk: Trunk, path: str, span: Sequence[Any], count: int) -> list[Any]:
    """Return `count` evenly spaced values of a range, `(low, high)` or `(low, high, scale)`; fewer of whole numbers.

    Raises ValueError for a static field and for what is no range; TypeError for an unknown path.
    """
    _check_traced(trunk.pair, path)
    return read_span(trunk.pair, path, span).spaced(count)


def _check_traced(pair: AgentEnv, path: str) -> None:
    if is_static(pair, path):
        known = hyperparameters(pair).items()
        free = [name for name, found in known if not found.static and found.field.type in NUMBERS]
        raise ValueError(
            f"{path} is a static field: it shapes the program and the checkpoint, so it cannot change within a run. "
            f"What can: {', '.join(free)}."
        )


def _check_values(pair: AgentEnv, path: str, values: Sequence[Any]) -> None:
    """Raise ValueError without values and for a value twice, TypeError for True or False in the place of a number.

    The other way round too, for a field that is True or False.
    """
    if not len(values):
        raise ValueError(f"{path} has no values: give at least one.")
    found: dict[tuple, Any] = {}
    is_true_or_false = isinstance(python_number(get(pair, path)), bool)
    hyper = hyperparameters(pair).get(path)
    is_text = hyper is None or bool(info_of(hyper.field).names)  # a name of a choice
    for value in values:
        if isinstance(value, bool) != is_true_or_false or (isinstance(value, str) and not is_text):
            words = ("neither True nor False", "True or False") if is_true_or_false else ("no number", "a number")
            raise TypeError(f"{path}={shown(value)} is {words[0]}: give {words[1]}.")
        bits = tuple(x.tobytes() for x in jax.tree.leaves(get(in_numpy(apply(pair, {path: value})), path)))
        if bits in found:
            raise ValueError(
                f"{path}={found[bits]} and {path}={value} are the same value to the program, which has 32 bits: leave "
                f"one of them out."
            )
        found[bits] = value


def lineage(folder: Path | str) -> list[tuple[Path, int]]:
    """Return the runs that a branch comes from, with the record at which each was left; the parent first.

    It ends at a run that is no branch, or that is not there any more.
    """
    line: list[tuple[Path, int]] = []
    path = Path(folder)
    while (path / "spec.json").is_file() and (branch := RunFolder(path).read_spec().branch):
        path = Path(branch["run"])
        line.append((path, branch["record"]))
    return line


def columns_of(branch: Result) -> dict[str, np.ndarray]:
    """Return the members [N] of each change of a finished branch: `unchanged`, then `learning_rate=0.0003`, ...

    The n-th members of all changes are twins of each other.
    """
    settings, seeds, count = branch.settings, branch.spec.seeds, branch.spec.branch["twins"]
    groups = [settings[first : first + count] for first in range(0, len(settings), count)]  # of one setting of the run
    names = ["unchanged"]
    for i in range(1, count):
        changes = [{path: new for path, new in group[i].items() if new != group[0][path]} for group in groups]
        change = next(filter(None, changes), {})  # a setting of the run may have this value already
        names.append(setting_in_words(change) or f"unchanged ({i})")
    members = np.arange(branch.spec.members).reshape(-1, count, seeds)
    return {name: members[:, i].reshape(-1) for i, name in enumerate(names)}


def effects(branch: Result) -> list[Effect]:
    """Return the effect of each change of a finished branch, on the last evaluation and on the returns in training."""
    record, columns = branch.spec.branch["record"], columns_of(branch)
    found = []
    for score, values in _scores(branch).items():
        for change, members in columns.items():
            if change == "unchanged":
                continue
            new, old = _pairs(branch, values[members], values[columns["unchanged"]])
            if not len(new):
                continue
            difference, low, high = map(float, paired_difference([new], [old]))
            found.append(Effect(change, record, score, float(new.mean()), difference, low, high, len(new)))
    return found


def spreads(branch: Result) -> list[Spread]:
    """Return the spread of each score over the twins without a change of a finished branch; none without other keys."""
    found, members = [], columns_of(branch)["unchanged"]
    for score, values in _scores(branch).items():
        of_members = _by_member(branch, np.ma.masked_invalid(values[members]))
        deviation = np.ma.sqrt(of_members.var(axis=1, ddof=1).mean()) if of_members.shape[1] > 1 else np.ma.masked
        if deviation is not np.ma.masked:
            mean, twins = float(of_members.mean()), int(of_members.count())
            found.append(Spread(branch.spec.branch["record"], score, mean, float(deviation), twins))
    return found


def _scores(branch: Result) -> dict[str, Float[np.ndarray, "M"]]:
    """Return the scores of all members since the twins began to differ."""
    record = branch.spec.branch["record"]
    rest = {name: branch.curves[name][record:] for name in ("train_return", "eval_return")}
    return {"training": member_scores(rest, "whole"), "last evaluation": member_scores(rest)}


def _pairs(
    branch: Result, new: Float[np.ndarray, "N"], old: Float[np.ndarray, "N"]
) -> tuple[Float[np.ndarray, "P"], Float[np.ndarray, "P"]]:
    """Return the scores of pairs of a changed and an unchanged twin, without pairs in which one has no finite score.

    Twins with other keys have the beginning of one member in common, so they are not independent: their pairs are
    averaged to one. Only where all are twins of a single member they stay apart; the effect is then about this member.
    """
    lacks = ~(np.isfinite(new) & np.isfinite(old))
    of_members = [_by_member(branch, np.ma.array(scores, mask=lacks)) for scores in (new, old)]
    if of_members[0][:, 0].size > 1:
        of_members = [scores.mean(axis=1) for scores in of_members]
    new, old = (scores.compressed() for scores in of_members)
    return new, old


def _by_member(branch: Result, scores: Any) -> Any:
    """Return the scores [N] of the twins of one change as [settings of the run, keys, seeds of the run]."""
    seeds = branch.spec.branch.get("seeds", branch.spec.seeds)
    return scores.reshape(-1, branch.spec.seeds // seeds, seeds)


def has_bits_of_run(branch: Result) -> bool:
    """Return whether the twins without a change have every bit of the run's curves that both have."""
    trunk = Result(branch.spec.branch["run"])
    seeds, ours = trunk.spec.seeds, columns_of(branch)["unchanged"].reshape(-1, branch.spec.seeds)
    members, there, here = ours[:, :seeds].reshape(-1), trunk.curves, branch.curves
    count = min(len(there["env_steps"]), len(here["env_steps"]))
    names = [name for name in there if there[name].ndim == 2]
    return all(np.array_equal(there[n][:count], here[n][:count, members], equal_nan=True) for n in names)
