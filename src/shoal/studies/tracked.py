"""Runs in experiment trackers: a sink that sends a run from its folder while it trains.

What a tracker gets is read from the files of the run folder. So nothing is kept in memory while a server is away, a
resumed run goes on where the tracker's data ends, and a run that was never tracked can be sent later.
"""

import dataclasses
import datetime
import os
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shoal.core.errors import CheckpointError, DamagedError
from shoal.core.secrets import redacted, without_password
from shoal.ops.statistics import quantiles
from shoal.specs.consent import UNNAMED, has_consent, remember, source_of
from shoal.specs.settings import setting_in_words
from shoal.specs.spec import RunSpec, by_path, short
from shoal.tracking.events import Event, Finished, Recorded, Sink, Started
from shoal.tracking.request import NOTHING, Track, Tracking, tracking_of
from shoal.tracking.sending import TrackerSink
from shoal.tracking.tracker import AXIS, Entry, Point, Target
from shoal.training import pyfunc
from shoal.training.export import export
from shoal.training.folder import RunFolder
from shoal.training.records import IDENTITY_COLUMNS

FILE = "tracking.json"
MOST_AUTOMATIC = 50  # settings that get a child each without being asked for
MOST_LIVE = 50  # children that are written after every record; more are written at the end
LONG = 30.0  # seconds: children that take longer to write are announced
ATTACHED = ("spec.json", "provenance.json", "summary.json", "found.json", "metrics.jsonl", "curves.npz")
FOLDERS = ("figures", "videos")


Curves = Mapping[str, np.ndarray]  # env_steps and wall_seconds [records], all others [records, M]


class Child(NamedTuple):
    """A setting or a member of a run, with a run of its own in a tracker."""

    label: str  # setting/3
    name: str
    members: slice
    parameters: dict[str, str]


class RunSink(TrackerSink):
    """Sends a run to one tracker: parameters, a point for each record, and at the end files and the policies."""

    def __init__(
        self, folder: RunFolder, name: str, tracking: Tracking, root: Path, experiment: str = "", group: str = ""
    ) -> None:
        """`name` is that of the tracker, `root` the folder of the default store.

        `experiment` is the experiment's name if `tracking` has none. `group` names the command where it has several
        runs.
        """
        super().__init__(tracking.open(name, Target(folder.path, root, experiment)))
        self.folder, self.name, self.tracking, self.group = folder, name, tracking, group
        self._steps = 0  # environment steps of the newest record that is on the disk with its checkpoint
        self._finished = False
        self._key = ""  # of the run in the tracker; empty before it is open
        self._had = -1  # step of the newest point that an earlier process has sent
        self._ended: set[str] = set()  # keys of children that have ended
        self._children: list[Child] = []
        self._sent: dict[str, int] = {}  # step of the newest point that was sent, by key

    def observe(self, event: Event) -> str:
        match event:
            case Started(steps):
                self._steps, self.began = steps, True
                return self._expectation()
            case Recorded(line=line):
                self._steps = line[AXIS]
            case Finished(summary):
                self._steps, self.began, self._finished = summary["steps_per_member"], True, True
        return ""

    def send(self, status: str) -> None:
        """Send the records, and at the end the children that wait for it, files, and the policies."""
        if not self.began:
            return
        steps = self._steps
        spec = self.folder.read_spec()
        if not self._key:
            self._open(spec)
        curves = self._curves(spec) if steps else {}
        self._send_points(self._key, curves, steps, slice(None))
        is_live = len(self._children) <= MOST_LIVE
        if is_live or status and self._finished:
            for child in self._children:
                self._send_child(child, curves, steps, status)
        if not status:
            return
        if self._finished:
            self._send_result(curves)
        self.tracker.end(self._key, status)

    def unsent(self) -> str:
        try:
            spec = self.folder.read_spec()
            steps = np.asarray(self._curves(spec)[AXIS])
        except (OSError, DamagedError):
            return ""
        steps = steps[steps <= self._steps]
        missing = int(np.sum(steps > self._sent.get(self._key, -1)))
        return f"{missing} of {len(steps)} records" if missing else ""

    def resend_command(self) -> str:
        return command_again(self.folder.path, self.name, self.tracking.uri)

    def on_end(self) -> None:
        """Note in the run folder what the tracker has."""
        keep_state(self, self.folder, self.name, steps=self._sent.get(self._key, 0))

    def _expectation(self) -> str:
        """A sentence about children that take long to write; empty where they do not."""
        count = len(children_of(self.folder.read_spec(), self.tracking.children))
        seconds = count * self.tracker.seconds_per_child
        if seconds < LONG:
            return ""
        return (
            f"{self.tracker.title}: {count:,} children take about {in_words(seconds)} to write, at the end of the run"
        )

    def _open(self, spec: RunSpec) -> None:
        notes = self.folder.read_json(FILE)
        group = {"shoal.group": self.group} if self.group else {}
        tags = {**tags_of(spec, self.folder, self._command()), **group, **self.tracking.tags}
        self._started = began(self.folder)
        known = self.tracker.open(Entry(notes["key"], self.folder.path.name, parameters_of(spec), tags, self._started))
        self._had = self._sent[notes["key"]] = max(known.steps, default=-1)
        self._children = children_of(spec, self.tracking.children)
        if self._children and known.steps:
            self._ended = self.tracker.children(notes["key"])
        self._key = notes["key"]

    def _curves(self, spec: RunSpec) -> Curves:
        try:
            return self.folder.read_curves(spec.members)
        except DamagedError:  # it was read while the run replaced one of its two files
            return self.folder.read_curves(spec.members)

    def _command(self) -> str:
        words = self.folder.read_json("provenance.json")["argv"]
        return " ".join([*(Path(word).name for word in words[:1]), *words[1:]])

    def _send_points(self, key: str, curves: Curves, steps: int, members: slice) -> None:
        if new := points(curves, self._started, self._sent[key], steps, members):
            self.tracker.write(key, new)
            self._sent[key] = new[-1].step
            self.progress()

    def _send_child(self, child: Child, curves: Curves, steps: int, status: str) -> None:
        key = f"{self._key}/{child.label}"
        if key in self._ended and (key in self._sent or self._had >= steps):
            return  # ended by this process, or by an earlier one that has sent all records
        if key not in self._sent:
            is_live = len(self._children) <= MOST_LIVE
            tags = {**self.tracking.tags, "kind": child.label.partition("/")[0]}
            entry = Entry(key, child.name, child.parameters, tags, self._started, self._key, live=is_live)
            self._sent[key] = max(self.tracker.open(entry).steps, default=-1)
        self._send_points(key, curves, steps, child.members)
        if status:
            self.tracker.end(key, status)
            self._ended.add(key)

    def _send_result(self, curves: Curves) -> None:
        """Send the scores of the summary, files, and the policies."""
        key, summary = self._key, self.folder.read_json("summary.json")
        if self._had < self._steps and len(curves):  # otherwise an earlier process has sent them
            time = self._started + float(curves["wall_seconds"][-1])
            self.tracker.write(key, [Point(self._steps, time, numbers_of(summary))])
        paths = [self.folder.path / name for name in (*FOLDERS, *ATTACHED)]
        self.tracker.attach(key, {path.name: path for path in paths if path.exists()})
        self.progress()
        with tempfile.TemporaryDirectory() as temporary:
            try:
                last = export(self.folder.path, Path(temporary) / "policy")
                best = export(self.folder.path, Path(temporary) / "best", which="best")
            except (ValueError, TypeError, OSError, CheckpointError) as error:
                self.remarks = [f"{self.tracker.title} has no policy of this run: {error}"]
                return
            self.tracker.attach(key, {"policies/last": last, "policies/best": best})
            self.progress()
            self.tracker.add_policy(key, last, pyfunc.__name__)


def run_sinks(
    track: Track, folder: RunFolder, spec: RunSpec, *, resume: bool = False, within: Path | None = None
) -> list[Sink]:
    """Return the sinks of a run for the trackers that `track` asks for. They send the files that earlier sinks write.

    A resumed run goes on with the trackers that it had, unless `track` names others, or "none". `within` is the folder
    of the command, where it has several runs.
    """
    tracking = completed(track, folder, is_new=not resume)
    if tracking is None:
        return []
    check_children(spec, tracking.children)
    experiment = f"{short_name(spec.agent)}/{short_name(spec.env_name)}"
    notes = TrackingFile(folder, tracking, within)
    return [
        notes,
        *(RunSink(folder, name, tracking, notes.root, experiment, notes.group) for name in tracking.trackers),
    ]


class TrackingFile(Sink):
    """Writes `tracking.json` when the run folder has a spec: what is tracked where, and the key of the run."""

    def __init__(self, folder: RunFolder, tracking: Tracking, within: Path | None = None) -> None:
        """`within` is the folder of the command, where it has several runs."""
        self.folder, self.tracking = folder, tracking
        self._old = folder.read_json(FILE) if folder.has(FILE) else {}
        self.group = within.name if within else self._old.get("group", "")
        path = folder.path.absolute()
        depth = len(path.relative_to(within.absolute()).parts) + 1 if within else self._old.get("depth", 1)
        self.root, self._depth = path.parents[depth - 1], depth

    def receive(self, event: Event) -> None:
        """Write the file at the start, or where a finished run is resumed."""
        if isinstance(event, (Started, Finished)):
            own = {"group": self.group, "depth": self._depth}  # of the run folder in the folder of the default store
            self._old = {"key": uuid.uuid4().hex, "sent": {}, **self._old, **described(self.tracking), **own}
            self.folder.write_json(FILE, self._old)


def described(tracking: Tracking) -> dict[str, Any]:
    """Return a `Tracking` as data for `tracking.json`, without the password of its URI."""
    return {
        "to": list(tracking.trackers),
        "uri": without_password(tracking.uri),
        "experiment": tracking.experiment,
        "children": tracking.children,
        "tags": dict(tracking.tags),
    }


def stored(folder: RunFolder) -> Tracking | None:
    """Return the `Tracking` of a run or study that was tracked before; otherwise None.

    The file has no password: a URI has one if the variable of its tracker, such as MLFLOW_TRACKING_URI, is the same URI
    with a password. Raises ValueError if it names code that the user has not allowed.
    """
    if not folder.has(FILE):
        return None
    notes = folder.read_json(FILE)
    for name in notes["to"]:
        if (source := source_of(name)) and not has_consent(source):
            raise ValueError(
                f"{folder.path / FILE} names the tracker {name}, which {UNNAMED}, so its code is not executed. To use "
                f"it: --track {name}; to end the tracking: --track {NOTHING} (in Python track=...)."
            )
    found = Tracking(notes["to"], "", notes["experiment"], notes["children"], notes["tags"])
    known = os.environ.get(found.uri_variable, "")
    uri = known if notes["uri"] and without_password(known) == notes["uri"] else notes["uri"]
    return dataclasses.replace(found, uri=uri)


def completed(track: Track, folder: RunFolder, *, is_new: bool) -> Tracking | None:
    """Return how a run or study is tracked: as `track` says, with the options that it had before; None: not at all.

    Without `track` it goes on with the trackers that it had, unless it `is_new`.
    """
    tracking = tracking_of(track)
    remember(source for name in (tracking.trackers if tracking else ()) if (source := source_of(name)))
    if is_new or track is not None and tracking is None or (old := stored(folder)) is None:
        return tracking
    if tracking is None:
        return old
    return dataclasses.replace(
        tracking,
        uri=tracking.uri or (old.uri if tracking.uri_variable else ""),
        experiment=tracking.experiment or old.experiment,
        children=old.children if tracking.children == "auto" else tracking.children,
        tags={**old.tags, **tracking.tags},
    )


def check_children(spec: RunSpec, kind: str) -> None:
    """Raise ValueError for a kind of children that a run does not have."""
    if kind == "trials":
        raise ValueError("children='trials' is for a study (`shoal tune`): a run has settings and members.")
    if kind == "settings" and spec.selector is not None:
        raise ValueError("children='settings': the selector of this run changes settings. Take 'members'.")


def children_of(spec: RunSpec, kind: str) -> list[Child]:
    """Return what gets a run of its own in a tracker: settings or members, with the values in which they differ."""
    settings = [short(setting) for setting in spec.kept_settings()]
    if kind == "auto":
        kind = "settings" if 2 <= len(settings) <= MOST_AUTOMATIC else NOTHING
    if kind == "settings" and len(settings) > 1:
        return [
            Child(f"setting/{i}", setting_in_words(setting), _rows(i, spec.seeds), _texts(setting))
            for i, setting in enumerate(settings)
        ]
    if kind == "members":
        members = [{**setting, "seed": seed} for setting in settings for seed in _seeds_of(spec)]
        return [Child(f"member/{i}", setting_in_words(x), _rows(i, 1), _texts(x)) for i, x in enumerate(members)]
    return []


def _seeds_of(spec: RunSpec) -> range:
    """Return the numbers of the members of a setting: those of their seeds, or with a selector those of the slots."""
    return spec.seed_indices if spec.selector is None else range(spec.members)


def keep_state(sink: TrackerSink, folder: RunFolder, name: str, **state: Any) -> None:
    """Write to `tracking.json` what the tracker of this name has: the ids of its run, and whether it is complete."""
    notes, is_complete = folder.read_json(FILE), sink.is_sent and sink.status == "complete"
    sent = {**notes["sent"], name: {**sink.tracker.newest, **state, "complete": is_complete}}
    folder.write_json(FILE, {**notes, "sent": sent})


def tags_of(spec: RunSpec, folder: RunFolder, command: str) -> dict[str, str]:
    """Return the tags of the run of a tracker. MLflow shows the `command` as its source."""
    names = {"agent": spec.agent, "env": spec.env_name}
    return {**names, "shoal.folder": str(folder.path), "mlflow.source.name": command}


def parameters_of(spec: RunSpec) -> dict[str, str]:
    """Return every field of a spec as a text, by path; of a value that varies, all its values."""
    return {path: str(value) for path, value in by_path(spec).items() if value not in (None, {}, [])}


def points(curves: Curves, started: float, after: int, until: int, members: slice = slice(None)) -> list[Point]:
    """Return the records of these members whose step is above `after` and at most `until`.

    The metrics are those of `metrics.jsonl`: of a column [records, M] its mean, and of several members quantiles too,
    as `train_return/mean` and `train_return/p05`. What no member has in a record is left out.
    """
    if not len(curves):
        return []
    steps = curves[AXIS]
    rows = np.flatnonzero((steps > after) & (steps <= until))
    columns: dict[str, np.ndarray] = {}
    for name, column in curves.items():
        if name in IDENTITY_COLUMNS or name == AXIS:
            continue
        chosen = column[rows].astype(float)
        if chosen.ndim == 1:
            columns[name] = chosen
            continue
        chosen = chosen[:, members]
        if name == "alive":
            columns[name] = chosen.sum(axis=1)
            continue
        has = ~np.isnan(chosen)
        total = np.where(has, chosen, 0).sum(axis=1)
        columns[f"{name}/mean"] = np.where(has.any(axis=1), total / np.maximum(has.sum(axis=1), 1), np.nan)
        if chosen.shape[1] > 1 and len(rows):
            columns |= dict(
                zip((f"{name}/{q}" for q in ("p05", "p50", "p95")), quantiles(chosen, (0.05, 0.5, 0.95)).T, strict=True)
            )
    return [
        Point(
            int(steps[row]),
            started + float(curves["wall_seconds"][row]),
            {name: float(column[i]) for name, column in columns.items() if np.isfinite(column[i])},
        )
        for i, row in enumerate(rows)
    ]


def numbers_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores and times of a summary by name: `last/mean`, `best/iqm`, `train_seconds`."""
    scores = {
        f"{part}/{name}": x for part in ("last", "best") for name, x in summary[part].items() if name != "members"
    }
    times = {name: x for name, x in summary.items() if name.endswith(("_seconds", "_per_second"))}
    return {name: float(x) for name, x in {**scores, **times}.items() if x is not None}


def began(folder: RunFolder) -> float:
    """Return when a run began, in seconds since 1970."""
    try:
        text = folder.read_json("provenance.json").get("time", "")
        return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except ValueError:  # an old folder, or one of a machine without a time zone
        return (folder.path / "spec.json").stat().st_mtime


def short_name(name: str) -> str:
    """Return the name of an agent or environment, of `file.py:Class` only the class."""
    return name.rpartition(":")[2]


def command_again(path: Path, name: str, uri: str) -> str:
    """Return the command that sends a run or study to a tracker, with the URI if it has a password, which is hidden."""
    needed = f" --tracking-uri {redacted(uri)}" if redacted(uri) != uri else ""  # `tracking.json` has no password
    return f"shoal track {path} --to {name}{needed}"


def in_words(seconds: float) -> str:
    """Return `40 seconds` or `2 minutes`."""
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def _rows(index: int, size: int) -> slice:
    return slice(index * size, (index + 1) * size)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {path: str(value) for path, value in values.items()}
