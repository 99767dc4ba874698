"""`shoal.branch`: what would have happened, had one value been another one from some record on?"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.core.kinds import checked_kinds
from shoal.studies.runs import run_job
from shoal.tracking.events import Sink
from shoal.tracking.progress import shown
from shoal.tracking.request import Track
from shoal.training.branching import (
    Effect,
    Spread,
    branch_job,
    effects,
    has_bits_of_run,
    lineage,
    spreads,
    trunk_of,
)
from shoal.training.folder import RunFolder, named, new_folder
from shoal.training.host import keep_programs
from shoal.training.jobs import Job
from shoal.training.plan import Plan
from shoal.training.result import Result
from shoal.viz.branches import plot_when

ALL = "all"


@dataclasses.dataclass(frozen=True)
class Branches:
    """The branches of a run: their results, one for each record at which they leave it, and the effects of changes."""

    results: list[Result]

    @property
    def effects(self) -> list[Effect]:
        """The effect of every change at every record, compared with the twins without a change."""
        return [effect for result in self.results for effect in effects(result)]

    @property
    def spreads(self) -> list[Spread]:
        """How far twins without a change that differ in their random keys spread, at every record; needs `keys`."""
        return [spread for result in self.results for spread in spreads(result)]

    @property
    def has_bits_of_run(self) -> bool:
        """Whether the twins without a change have every bit of the run."""
        return all(map(has_bits_of_run, self.results))

    @property
    def lineage(self) -> list[tuple[Path, int]]:
        """The runs that these branches come from, and the record at which each was left, the parent first."""
        return lineage(self.results[0].folder)


@checked_kinds()
def branch(
    run: Path | str,
    at: int | str,
    vary: Mapping[str, Sequence[Any]] | None = None,
    *,
    keys: int = 0,
    name: str = "",
    root: Path | str = "runs",
    figures: bool = True,
    progress: bool = True,
    sinks: Sequence[Sink] = (),
    track: Track = None,
    trust_source: bool = False,
    cache: bool = True,
    devices: int = 0,
    memory_limit_gb: float = 0,
) -> Branches:
    """Continue a finished run from a checkpoint with twins of its members that differ in one value each.

        shoal.branch("runs/x", at=10, vary={"learning_rate": [3e-5, 3e-4], "env.gravity": [5, 15]})

    Each member of the run has a twin without a change, and one for each value; all are trained in one program, to the
    end of the run. On a CPU the twin without a change has the bits of the run; on an accelerator the number of members
    decides the last digits, so they may differ. `at` is a record after which the run has a checkpoint (0: its
    beginning), or "all": one branch for each of them, which shows when a value matters. `keys=8` gives each of these
    twins 8 more with other random keys: what chance alone does. The pairs of twins of one member are averaged to one
    pair; only those of a run with a single member stay apart, and the interval is then about this member.

    A branch is a run folder, in a new folder under `root` or in `root/name`, with a figure `branches.png`. One that was
    stopped goes on with the same call, if it has a `name`, or with `shoal.train(resume=...)`.

    Raises ValueError for a run that is not finished, a record without a checkpoint (and lists those with one), a static
    field (and lists what can change), a value out of range or there twice, and negative `keys`; TypeError for True in
    the place of a number.
    """
    if isinstance(at, str) and at != ALL or isinstance(at, float) and not at.is_integer():
        raise ValueError(f"at={at!r} must be the number of a record, or 'all'.")
    trunk = trunk_of(run, trust_source=trust_source)
    records = [int(at)] if at != ALL else [*trunk.records]
    jobs = [branch_job(trunk, record, vary or {}, keys) for record in records]
    plans = [job.plan(devices, memory_limit_gb) for job in jobs]
    if cache:
        keep_programs()
    stem = f"{trunk.folder.path.resolve().name}-at-{at}"
    base = RunFolder(named(Path(root), name)) if name else new_folder(Path(root), stem)
    results = []
    for record, job, plan in zip(records, jobs, plans, strict=True):
        folder = RunFolder(base.path / f"record-{record}", base.made) if at == ALL else base
        how = {"figures": figures, "sinks": [shown(progress), *sinks], "track": track}
        results.append(_trained(job, plan, folder, how))
    if at == ALL and figures:
        plot_when([effect for result in results for effect in effects(result)], results, base.path / "when.png")
    return Branches(results)


def _trained(job: Job, plan: Plan, folder: RunFolder, how: dict[str, Any]) -> Result:
    """Train a branch, go on with the same one where it was stopped, or return it where it is finished."""
    if not (folder.path / "spec.json").exists():
        return run_job(job, plan, folder, **how)
    if folder.read_spec().to_json() != job.spec.to_json():
        folder.check_unused()  # raises: it is another run
    if folder.has("summary.json"):
        return Result(folder.path)
    return run_job(job, plan, folder, resume=True, **how)
