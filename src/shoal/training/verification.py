"""Verify a run: compare its files with each other, execute parts of its training again, and compare every bit.

First the files: the spec with the hash in each checkpoint, checkpoints with their manifests, curves with the hashes in
the checkpoints, the summary and `metrics.jsonl` with what follows from the curves. Then training (`execution.py`). No
code of the folder is run.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from shoal.core.errors import CheckpointError
from shoal.core.keys import check_seed
from shoal.core.kinds import checked_kinds, shown
from shoal.specs.sources import foreign_sources
from shoal.specs.spec import RunSpec, opaque_fields
from shoal.training import checkpoint, curve_files
from shoal.training.claim import locked
from shoal.training.execution import CLOSE, DIFFERS, FAR, OPEN, SAME, Check, Execution
from shoal.training.folder import RunFolder, provenance
from shoal.training.records import Records

FILE = "verified.json"
MOST_MINUTES = 10**9
VERIFIED, AGREES, UNSURE, ALTERED, UNCHECKED = (
    "verified",
    "agrees to tolerance",
    "not confirmed",
    "differs",
    "not verified",
)
FILES = ("spec.json", "provenance.json", "curves.npz", "summary.json", "metrics.jsonl")


@dataclasses.dataclass(frozen=True)
class Verification:
    """The table of `verify`. `share` is the part of all records of all members that was executed again."""

    folder: Path
    outcome: str  # "verified", "agrees to tolerance", "not confirmed", "differs" or "not verified"
    share: float
    checks: list[Check]
    about: dict[str, Any]  # where it was checked, and the hashes of the files

    def __str__(self) -> str:
        rows = [f"{check.outcome:16}  {check.what}{f': {check.note}' * bool(check.note)}" for check in self.checks]
        return "\n".join([*rows, self.headline])

    @property
    def headline(self) -> str:
        """One sentence: the outcome, and which share of the run was executed again."""
        return f"{self.folder}: {self.outcome}; {100 * self.share:.3g} % of all records of members were executed again"

    def to_json(self) -> dict[str, Any]:
        """Return the data of `verified.json`."""
        return {
            "outcome": self.outcome,
            "share": self.share,
            "checks": [list(check) for check in self.checks],
            **self.about,
        }


@checked_kinds()
def verify(run: Path | str, at_most: float = 5.0, seed: int = 0, trust_source: bool = False) -> Verification:
    """Execute random parts of a run again, compare every bit with its files, and return a table of what was found.

    It trains for `at_most` minutes, without the time to compile: random members (chosen by `seed`) from the spec, and
    from the checkpoints that were kept. `verified.json` in the folder holds the result, and `shoal report` shows it. No
    code of the folder is run; with `trust_source` classes of your own are. On another machine or with other versions,
    results that are not the same to the bit are compared to tolerance, and a note says what differs.

    Raises FileNotFoundError if there is no run, FileExistsError while it trains, ValueError for an exported policy, and
    before a file is read ValueError or TypeError for a time or a seed that is none.
    """
    if not 0 <= at_most <= MOST_MINUTES:
        raise ValueError(f"at_most={shown(at_most)} must be a number of minutes, 0 or more.")
    if check_seed(seed) < 0:
        raise ValueError(f"seed={seed} must not be negative.")
    folder = RunFolder(run)
    spec = folder.read_spec()
    if folder.policy.is_dir():
        raise ValueError(f"{run} holds an exported policy, not a run whose training could be executed again.")
    folder.check_writable()
    with locked(folder.path):
        checks, abouts = _compare_files(folder, spec)
        share = 0.0
        if reason := _why_not_executed(spec, checks, abouts, trust_source):
            checks.append(Check("training", OPEN, reason))
        else:
            more, share = Execution(folder, abouts, seed, trust_source).checks(60 * at_most)
            checks += more
        result = Verification(folder.path, _outcome(checks, share), share, checks, _about(folder))
        folder.write_json(FILE, result.to_json())
    return result


def in_words(folder: RunFolder) -> str:
    """Return what `verified.json` of a run says, and whether its files have changed since; empty without one."""
    if not folder.has(FILE):
        return ""
    found = folder.read_json(FILE)
    if found["hashes"] != hashes_of(folder):
        return f"no: files have changed since {found['time'][:10]}, when it was {found['outcome']}"
    share = f"{100 * found['share']:.3g} % of all records of members were executed again"
    return f"{found['outcome']} on {found['time'][:10]} ({found['cpu']}): {share}"


def hashes_of(folder: RunFolder) -> dict[str, str]:
    """Return the SHA-256 of the files of a run that `verify` compares."""
    manifests = [path / checkpoint.MANIFEST for path in (*checkpoint.saved(folder.checkpoints), folder.best)]
    files = [*(folder.path / name for name in FILES), folder.path / curve_files.TAIL, *manifests]
    return {str(f.relative_to(folder.path)): checkpoint.hash_of_file(f) for f in files if f.is_file()}


def _about(folder: RunFolder) -> dict[str, Any]:
    origin = provenance(0, 0, jax.local_devices()[:1])
    return {
        **{name: origin[name] for name in ("time", "packages", "cpu", "devices", "cores", "python")},
        "hashes": hashes_of(folder),
    }


def _outcome(checks: list[Check], share: float) -> str:
    found = {check.outcome for check in checks}
    if DIFFERS in found:
        return ALTERED
    if not share:
        return UNCHECKED
    return UNSURE if FAR in found else AGREES if CLOSE in found else VERIFIED


# Files are compared with each other; nothing is built.


def _compare_files(folder: RunFolder, spec: RunSpec) -> tuple[list[Check], dict[Path, dict[str, Any]]]:
    """Return the checks of the files, and the `about` of each checkpoint at the end of a record, the oldest first."""
    checks, abouts = [], {}
    for path in [*reversed(checkpoint.saved(folder.checkpoints)), *([folder.best] if folder.best.exists() else [])]:
        name = f"checkpoints/{path.name}"
        try:
            manifest = checkpoint.check(path, folder.spec_hash)
            about = manifest["about"]
            if path != folder.best:
                Records.load(folder, spec.members, about["records"], about["curves"])
                if checkpoint.TOTALS not in manifest["parts"]:  # else the run was stopped within a record
                    abouts[path] = about
        except (CheckpointError, FileNotFoundError) as error:
            checks.append(Check(name, DIFFERS, str(error)))
        else:
            checks.append(Check(name, SAME, "hashes of its files, of spec.json and of the curves"))
    if not abouts:
        return checks, abouts
    newest = [*abouts.values()][-1]
    try:
        checks += _compare_records(folder, spec, newest)
        checks.append(_compare_revisions(folder, abouts))
    except (CheckpointError, FileNotFoundError) as error:
        checks.append(Check("files", DIFFERS, str(error)))
    return checks, abouts


def _compare_records(folder: RunFolder, spec: RunSpec, newest: Mapping[str, Any]) -> Iterator[Check]:
    curves, count = folder.read_curves(spec.members), newest["records"]
    if folder.has("summary.json") and len(curves["env_steps"]) != count:
        yield Check("curves.npz", DIFFERS, f"{len(curves['env_steps'])} records, and {count} at the newest checkpoint")
    expected = Records.load(folder, spec.members, count, newest["curves"]).lines()
    path = folder.path / "metrics.jsonl"
    lines = path.read_text(errors="replace") if path.is_file() else ""
    is_same = lines == expected if folder.has("summary.json") else _may_become(lines, expected)
    yield Check("metrics.jsonl", SAME if is_same else DIFFERS, "" if is_same else "it does not follow from the curves")


def _may_become(lines: str, expected: str) -> bool:
    """Return whether an unfinished run may have these lines. The newest one is appended after the checkpoint."""
    before = "".join(expected.splitlines(keepends=True)[:-1])
    return lines.startswith(expected) or (lines.startswith(before) and expected.startswith(lines))


def _compare_revisions(folder: RunFolder, abouts: Mapping[Path, Mapping[str, Any]]) -> Check:
    said = folder.read_json("provenance.json").get("env_revision")
    others = {about["env_revision"] for about in abouts.values() if "env_revision" in about} - {said}
    if said is None or not others:
        return Check("provenance.json", SAME, "the revision of the environment")
    return Check("provenance.json", DIFFERS, f"environment revision {said}, and {min(others)} in a checkpoint")


def _why_not_executed(spec: RunSpec, checks: list[Check], abouts: Mapping, trust_source: bool) -> str:
    """Return why the training is not executed again; an empty text where it is."""
    if any(check.outcome == DIFFERS for check in checks):
        return "not executed again, because files differ already"
    if not abouts:
        return "it has no checkpoint at the end of a record"
    if opaque := opaque_fields(spec):
        return f"{', '.join(opaque)} was given in Python and is in no file"
    if (own := foreign_sources(spec)) and not trust_source:
        return f"it needs code that is not shoal's ({', '.join(own)}): --trust-source (trust_source=True) runs it"
    return ""
