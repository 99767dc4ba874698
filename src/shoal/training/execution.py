"""Execute parts of a run again: random members from its spec, and from the checkpoints that were kept.

They train to the next record or checkpoint. Their curves and states must be those in the folder. All of it is a `Run`
in a temporary folder, so there is no second training loop.
"""

import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jax
import numpy as np

from shoal.core.errors import CheckpointError, DamagedError
from shoal.core.keys import key_words
from shoal.core.struct import hyper_fields, info_of
from shoal.specs.roster import NOBODY, Roster
from shoal.training import checkpoint
from shoal.training.folder import RunFolder, json_ready
from shoal.training.host_envs import needs_host
from shoal.training.jobs import job_to_resume
from shoal.training.loop import Run
from shoal.training.records import WIDEST
from shoal.training.stopping import StopRequest
from shoal.training.summary import results_of

SAME, CLOSE, FAR, DIFFERS, OPEN = "same", "within tolerance", "beyond tolerance", "differs", "not checked"
ORDER = (SAME, CLOSE, FAR, DIFFERS)  # from good to bad
RELATIVE, ABSOLUTE = 1e-3, 1e-4  # tolerance for results of another machine or of other versions
EXACT = frozenset({"state/key", "state/age"})  # leaves that have the same bits on every machine
TOGETHER = 8  # members that are executed again at the same time
TIMES = ("compile_seconds", "train_seconds", "eval_seconds", "other_seconds", "total_seconds")


class Check(NamedTuple):
    """One row of the table: what was compared, the outcome, and the first difference or a note."""

    what: str
    outcome: str
    note: str = ""


class Deadline(StopRequest):
    """Asks a run to stop at a time, as a signal does."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.at = time.perf_counter() + seconds

    def is_set(self) -> bool:
        """Return whether the time has come."""
        return time.perf_counter() >= self.at


class Execution:
    """Trains parts of a run again in a temporary folder."""

    def __init__(self, folder: RunFolder, abouts: dict[Path, dict], seed: int, trust_source: bool) -> None:
        self.folder, self.abouts = folder, abouts
        job = job_to_resume(folder.path, None, None, {}, trust_source=trust_source)
        origin = folder.read_json("provenance.json")
        if origin["devices"] and origin["devices"][0].startswith("cpu"):  # the block decides the last bits
            job = dataclasses.replace(job, spec=dataclasses.replace(job.spec, block=origin.get("block", 0)))
        self.plan = job.plan(resume=True)
        self.there = Run(self.plan, folder)  # only restores checkpoints; it never trains and writes no file
        self.random = np.random.default_rng(seed)
        self.curves = folder.read_curves(self.plan.members)
        self.total = [*abouts.values()][-1]["records"]
        self.done = np.zeros((self.total, self.plan.members), bool)  # [records, M] that were compared
        self.best_at = np.full(self.plan.members, -1)  # the record of each member's best policy
        self.changes: list[str] = []  # how this system differs from that of the run
        self.at: Path | None = None  # the checkpoint that `there` has restored

    def checks(self, seconds: float) -> tuple[list[Check], float]:
        """Return what was found, and the share of all records of members that was executed again."""
        found: list[Check] = []
        try:
            for path, about in self.abouts.items():
                found.append(self._of_checkpoint(path, about))
            found += self._of_end()
            if reason := self._why_not_again():
                found.append(Check("training", OPEN, reason))
            elif seconds and all(check.outcome != DIFFERS for check in found):
                found += self._of_training(seconds)
        except CheckpointError as error:  # the agent is another one here
            found.append(Check("training", OPEN, str(error)))
        return found, float(self.done.mean())

    def _why_not_again(self) -> str:
        now = self.plan.env.revision
        if (then := self.folder.read_json("provenance.json").get("env_revision", now)) != now:
            return f"{self.plan.spec.env_name} is in revision {now} here, and was in revision {then}"
        if self.plan.selector is not None and not self.plan.selector.is_repeatable:
            return "its selector decided with what this run does not have: trials of a study, or other runs"
        return ""

    # What follows from the checkpoints without training.

    def _of_checkpoint(self, path: Path, about: Mapping[str, Any]) -> Check:
        """Compare the policies, the best scores and the roster of a checkpoint with its learners and the curves."""
        self._restore(path)
        state, members = self.there.state, self.there.population.to_host()
        policies = self.there.policies_of(members)
        saved = checkpoint.restore(path, checkpoint.POLICIES, policies, self.folder.spec_hash)
        is_best = _evaluations(self.curves, about["records"], state.roster.occupant) == state.best_return
        is_kept = is_best.any(axis=0) & self.there.has_best_policy
        self.best_at = np.where(is_kept, is_best.argmax(axis=0) if len(is_best) else -1, -1)
        wrong = ""
        if _differing(saved, policies):
            wrong = "its policies are not those of its learners"
        elif not (is_best.any(axis=0) | np.isneginf(state.best_return)).all():
            wrong = "its best returns are not in the curves"
        elif self.plan.selector is None and _differing(_unborn(state.roster), _unborn(self.plan.roster)):
            wrong = "its roster is not that of spec.json"
        return Check(f"checkpoints/{path.name}", DIFFERS if wrong else SAME, wrong or "its policies, scores and roster")

    def _of_end(self) -> Iterator[Check]:
        """Compare the best policies, the summary and the length of the run with its newest checkpoint."""
        is_finished, has_best = self.folder.has("summary.json"), self.there.has_best_policy
        if self.folder.best.exists() and not has_best.all():  # of a run that was killed they may be newer
            members = ", ".join(map(str, np.flatnonzero(~has_best)))
            newer = f"those of members {members} are not of the best evaluation before the newest checkpoint"
            wrong = "its returns are not the best ones of the newest checkpoint"
            yield Check("checkpoints/best", *((DIFFERS, wrong) if is_finished else (OPEN, newer)))
        if not is_finished:
            yield Check("summary.json", OPEN, "the run is not finished")
            return
        if not self.there.is_over:
            yield Check("spec.json", DIFFERS, f"it says {self.plan.steps:,} steps, but the run ended before them")
        try:
            wrong = _wrong_in_summary(self.folder.read_json("summary.json"), self.there)
        except DamagedError as error:
            wrong = str(error)
        yield Check("summary.json", DIFFERS if wrong else SAME, wrong or "computed again from the curves")

    def _restore(self, path: Path) -> None:
        if self.at != path:
            self.there.restore(path)
            self.at = path

    # Training again.

    def _of_training(self, seconds: float) -> Iterator[Check]:
        deadline, programs = None, None
        with TemporaryDirectory(prefix="shoal-verify-") as temporary:
            for number, rows in enumerate(self._groups()):
                parts = "ab" if any(path for *_, path in self._spans()) else "a"
                try:
                    first, *others = (self._begun(Path(temporary) / f"{number}{x}", rows, programs) for x in parts)
                except (FileNotFoundError, CheckpointError, ValueError) as error:  # of the run that it began with
                    yield Check("training", OPEN, str(error))
                    return
                programs = getattr(first.population, "programs", None)
                self.changes = [*self.folder.provenance_changes(first.provenance()), *self._resumed_elsewhere()]
                deadline = deadline or Deadline(seconds)
                yield from self._of_members(rows, first, others, deadline)
                if deadline.is_set():
                    break
        if self.changes:
            yield Check("this system", OPEN, f"not that of the whole run: {'; '.join(self.changes)}")

    def _resumed_elsewhere(self) -> list[str]:
        resumed = self.folder.read_json("provenance.json").get("resumed", [])
        return [f"resumed after {start['updates']:,} updates with {'; '.join(start['changes'])}" for start in resumed]

    def _groups(self) -> np.ndarray:
        """Return groups of members [N, G] that train together, in a random order: all members where they may interact.

        On an accelerator the number of members decides the last bits, so there they are all members too.
        """
        spec, members, size = self.plan.spec, self.plan.members, max(TOGETHER, self.plan.placement.block)
        if (
            members <= size
            or self.plan.selector is not None
            or spec.stop_at is not None
            or spec.init.get("member") == "all"
            or spec.branch
            or self.plan.placement.mesh
        ):
            return np.arange(members)[None]
        order = self.random.permutation(members)
        return np.sort(np.append(order, order[: -members % size]).reshape(-1, size))

    def _begun(self, path: Path, rows: np.ndarray, programs: Any) -> Run:
        """Return a new run of the members `rows`, with compiled programs, at the beginning of its training."""
        plan = self.plan if len(rows) == self.plan.members else self.plan.of_members(rows)
        folder = RunFolder(path)
        folder.create()
        run = Run(plan, folder, save_share=1e-9)  # it saves at its end only
        if programs is not None:
            run.population.programs = programs
        run.open()
        return run

    def _of_members(self, rows: np.ndarray, first: Run, others: list[Run], deadline: Deadline) -> Iterator[Check]:
        spans = self._spans()
        for start, end, path in spans:
            if path is not None:
                self._restore(path)
                (later,) = others
                later.take_over(self.there, rows)
                yield from self._compare(later, rows, start, end, path.name, deadline)
            else:
                left = deadline.at - time.perf_counter()
                yield from self._compare(first, rows, 0, end, "the spec", Deadline(left / min(len(spans), 2)))
        if (start := len(first.records)) and self._from_spec:  # the time that was left over
            yield from self._compare(first, rows, start, self._from_spec, "the spec", deadline)

    def _spans(self) -> list[tuple[int, int, Path | None]]:
        """Return what is to be executed again: (records before it, records after it, its checkpoint or None).

        The newest is the first, then that from the spec, then the others in a random order.
        """
        starts = {about["records"]: path for path, about in self.abouts.items() if about["records"] < self.total}
        ends = [*starts, self.total]
        pairs = zip(starts.items(), ends[1:], strict=True)
        kept: list[tuple[int, int, Path | None]] = [(start, end, path) for (start, path), end in pairs]
        if needs_host(self.plan.env):  # whose environments begin anew
            kept = []
        if self._was_extended:
            return kept[-1:]
        others = [kept[i] for i in self.random.permutation(len(kept[:-1]))]
        return [*kept[-1:], (0, self._from_spec, None), *others]

    @property
    def _from_spec(self) -> int:
        """The number of records that are executed again from the spec: those before the first checkpoint."""
        if self._was_extended:
            return 0
        return self.total if needs_host(self.plan.env) else min(about["records"] for about in self.abouts.values())

    @property
    def _was_extended(self) -> bool:
        """Whether schedules changed when the run got more steps; the folder does not say at which record it did."""
        spanning = [name for name, field in hyper_fields(self.plan.agent).items() if info_of(field).spans_run]
        spec = self.plan.spec
        return bool(spec.first_steps) and any(not spec.fields.get(name) for name in spanning)

    def _compare(
        self, run: Run, rows: np.ndarray, start: int, end: int, origin: str, deadline: Deadline
    ) -> Iterator[Check]:
        """Train to record `end` or until the deadline, and compare each record and checkpoint on the way."""
        before, outcome, note = len(run.records), SAME, ""
        while len(run.records) < end and not deadline.is_set() and outcome != DIFFERS:
            record = len(run.records)
            if not run.step(deadline) or len(run.records) == record:
                break
            for found, words in self._differences(run, rows, record):
                if ORDER.index(found) > ORDER.index(outcome):
                    outcome, note = found, f"{words}, record {record + 1}"
            self.done[record, rows] |= outcome != DIFFERS
        if len(run.records) > before:
            members = f"members {', '.join(map(str, rows[:TOGETHER]))}{' ...' * (len(rows) > TOGETHER)}"
            what = f"{members}: records {max(start, before) + 1} to {len(run.records)}, from {origin}"
            yield Check(what, outcome, note)

    def _differences(self, run: Run, rows: np.ndarray, record: int) -> Iterator[tuple[str, str]]:
        """Yield (outcome, words) for the curves of a record, and for the states and policies that are in the folder."""
        for name in {**run.records.columns, **self.curves}:
            if name == "wall_seconds" or (name.startswith("eval_") and not self._knows_evaluation(record)):
                continue
            if name not in run.records.columns or name not in self.curves:
                yield DIFFERS, f"the column {name}"
                continue
            there = self.curves[name][record]
            yield self._outcome_of(run.records.columns[name][record], there if there.ndim == 0 else there[rows], name)
        if (is_best := self.best_at[rows] == record).any():
            mine, saved = run.best.policies, self.there.best.policies
            mine = jax.tree.map(lambda x: np.asarray(x)[is_best], mine)
            yield self._outcome_of(mine, jax.tree.map(lambda x: x[rows[is_best]], saved), "the best policies")
        for path, about in self.abouts.items():
            if about["records"] == record + 1:
                self._restore(path)
                there = jax.tree.map(lambda x: x[rows], self.there.population.to_host())
                yield self._outcome_of(run.population.to_host(), there, "states")
                if self.plan.selector is not None:
                    yield self._outcome_of(run.state.arrays(), self.there.state.arrays(), "selector")

    def _knows_evaluation(self, record: int) -> bool:
        """Whether the plan says if a record has an evaluation: a run that was extended had one at each of its ends."""
        return not self.plan.spec.first_steps or self.plan.evaluates(record)

    def _outcome_of(self, here: Any, there: Any, what: str) -> tuple[str, str]:
        """Return the outcome of comparing two trees of arrays, and the first leaf that differs in words."""
        found = _differing(there, here)
        if not found:
            return SAME, ""
        must_agree = not self.changes or not EXACT.isdisjoint(found)
        outcome = DIFFERS if must_agree else CLOSE if all(found.values()) else FAR
        return outcome, f"{what} {next(iter(found))}".strip()


def _unborn(roster: Roster) -> dict[str, Any]:
    """Return a roster without `born`, which the spec does not determine: members of a branch began at its record."""
    return {name: part for name, part in roster._asdict().items() if name != "born"}


def _evaluations(curves: Mapping[str, np.ndarray], records: int, occupant: np.ndarray) -> np.ndarray:
    """Return the evaluations [records, M] of the members that are in the slots now; NaN where there is none."""
    returns = curves["eval_return"][:records]
    if "occupant" not in curves:
        return returns
    return np.where((curves["occupant"][:records] == occupant) & (occupant != NOBODY), returns, np.nan)


def _differing(there: Any, here: Any) -> dict[str, bool]:
    """Return the leaves of two trees whose bits differ, by name, and whether they are within the tolerance."""
    one, other = checkpoint.leaves(there), checkpoint.leaves(here)
    found = {}
    for name in {**one, **other}:
        if name not in one or name not in other:
            found[name] = False
            continue
        a, b = _wide(one[name]), _wide(other[name])
        if a.dtype != b.dtype or a.shape != b.shape:
            found[name] = False
        elif a.tobytes() != b.tobytes():
            found[name] = np.allclose(a.astype(np.float64), b.astype(np.float64), RELATIVE, ABSOLUTE, equal_nan=True)
    return found


def _wide(leaf: Any) -> np.ndarray:
    """Return an array in the widest dtype of its kind, because a file may have a wider one; with one kind of NaN."""
    array = np.asarray(key_words(leaf))
    array = array.astype(WIDEST.get(array.dtype.kind, array.dtype))
    return np.where(np.isnan(array), np.nan, array) if array.dtype.kind == "f" else array


def _wrong_in_summary(data: Mapping[str, Any], run: Run) -> str:
    """Return the first part of a summary that does not follow from the newest checkpoint of the run; or nothing."""
    expected = json_ready(results_of(run.plan, run.state, run.records))
    for name, value in expected.items():
        if name not in data or data[name] != value:
            return f"{name} does not follow from the curves"
    measured = {name: data.get(name, -1.0) for name in TIMES}
    if unknown := {*data} - {*expected, *TIMES}:
        return f"{min(unknown)} is no part of a summary"
    if any(data[name] != getattr(run.state, name) for name in ("train_seconds", "eval_seconds")):
        return "its seconds are not those of the newest checkpoint"
    parts = sum(measured[name] for name in TIMES[:-1])
    is_known = measured["compile_seconds"] >= run.state.compile_seconds and min(measured.values()) >= 0
    is_whole = abs(parts - measured["total_seconds"]) < 1e-6 * max(parts, 1)
    if not (is_known and is_whole and measured["total_seconds"] >= run.records.columns["wall_seconds"][-1]):
        return "its seconds contradict each other"
    return ""
