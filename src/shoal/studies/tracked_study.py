"""Studies in experiment trackers: sinks that send the trials of a worker.

All workers write to the same run of a tracker, whose key is in `tracking.json` in the folder of the study. Each sends
the trials that it trained, and the one that writes the results sends these. A study that goes on has the same key.
"""

import json
import math
import os
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna

from shoal.core.secrets import password_of
from shoal.studies.results import FIGURES, PRESET, TABLE
from shoal.studies.study import SPEC, SUMMARY, StudySpec
from shoal.studies.tracked import (
    FILE,
    command_again,
    completed,
    described,
    keep_state,
    parameters_of,
    short_name,
    tags_of,
)
from shoal.studies.trial_states import TrialEvents
from shoal.tracking.events import Closed, Event, Finished, Message, Sinks, TrialEnded, in_turns
from shoal.tracking.request import NOTHING, Track, Tracking
from shoal.tracking.tracker import SHARED, Entry, Target
from shoal.tracking.trials import TRIAL, TrialSink
from shoal.training.folder import RunFolder
from shoal.training.stopping import Stopped

ATTACHED = (TABLE, FIGURES, PRESET, SPEC, SUMMARY)
IN_SUMMARY = ("score", "fresh_score", "fresh_low", "fresh_high")  # of the best trial


class StudySink(TrialSink):
    """Sends the trials of one worker to one tracker, and the results of the study if this worker writes them."""

    def __init__(self, name: str, tracking: Tracking, folder: RunFolder, spec: StudySpec, worker: str) -> None:
        """`name` is that of the tracker. `folder` is that of the study; it has a `tracking.json`."""
        self.name, self.folder, self.worker = name, folder, worker
        self.source: optuna.Study | None = None  # the study in its storage, before `close`
        self._events = TrialEvents(folder.path, spec.run)
        agent, env = short_name(spec.run.agent), short_name(spec.run.env_name)
        super().__init__(
            tracking.open(name, Target(folder.path, folder.path.absolute().parent, f"{agent}/{env}")),
            _entry(folder, spec, tracking, worker),
            children=tracking.children != NOTHING,
        )

    def ended_trials(self) -> Iterator[TrialEnded]:
        return iter(()) if self.source is None else self._events.ended(self.source, self.worker)

    def receive(self, event: Event) -> Iterator[Message | None]:
        """Send what is new. The end of training is ignored: the results of the study follow it, and then `close`."""
        if not isinstance(event, Closed):
            yield from super().receive(event)

    def close(self, status: str) -> Generator[Message | None, None, None]:
        """Send the rest, and the end of the study; yield what the user is told.

        A worker that has no more trials and does not write the results leaves the run open for the one that does.
        """
        yield from super().receive(Closed(SHARED if status == "complete" and self._summary is None else status))

    def observe(self, event: Event) -> str:
        """Keep a trial, or the numbers of the summary, until they are sent."""
        return super().observe(Finished(numbers_of(event.summary)) if isinstance(event, Finished) else event)

    def on_end(self) -> None:
        """Note in `tracking.json` what the tracker has, if this worker writes the results: no other one does then."""
        if self._summary is not None:
            self.keep_state()

    def keep_state(self) -> None:
        """Write the ids of the tracker's run to `tracking.json`."""
        keep_state(self, self.folder, self.name)

    def files(self) -> Mapping[str, Path]:
        paths = [self.folder.path / name for name in ATTACHED]
        return {path.name: path for path in paths if path.exists()}

    def resend_command(self) -> str:
        return command_again(self.folder.path, self.name, self.tracker.uri)


def study_tracking(track: Track, path: Path, *, is_new: bool) -> Tracking | None:
    """Return how a study is tracked: as `track` says, and if it is None, as before. Nothing is written.

    Raises ValueError for children that a study does not have, and as `Tracking` does.
    """
    tracking = completed(track, RunFolder(path), is_new=is_new)
    if tracking is not None and tracking.children in ("settings", "members"):
        raise ValueError(f"children={tracking.children!r} is for a run: a study has 'trials' or 'none'.")
    return tracking


def study_sinks(
    tracking: Tracking | None, path: Path, spec: StudySpec, worker: str, *, is_new: bool = False
) -> list[StudySink]:
    """Write `tracking.json`, and return the sinks of a worker. Use them in `closing`."""
    if tracking is None:
        return []
    folder = RunFolder(path)
    _note(folder, tracking, is_new)
    return [StudySink(name, tracking, folder, spec, worker) for name in tracking.trackers]


@contextmanager
def closing(trackers: Sequence[StudySink], sinks: Sinks, opened: Callable[[], optuna.Study]) -> Iterator[None]:
    """End the runs in the trackers after the block, however it ends; tell all sinks what was not sent.

    `opened` returns the study in its storage, which the block opens before the first trial ends.
    """
    status = "failed"
    try:
        yield
        status = "complete"
    except (Stopped, KeyboardInterrupt):
        status = "stopped"
        raise
    finally:
        for tracker in trackers:
            tracker.source = opened() if tracker.began else None
        for message in filter(None, in_turns(tracker.close(status) for tracker in trackers)):
            sinks.receive(message)


def variables_for_workers(tracking: Tracking | None) -> dict[str, str]:
    """Return the environment variable by which worker processes get the password of a tracking URI."""
    return {tracking.uri_variable: tracking.uri} if tracking is not None and password_of(tracking.uri) else {}


def numbers_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a study's summary by name: `best_score`, `fresh_score`, `trials/complete`."""
    best = summary["best"] or {}
    scores = {name if name.startswith("fresh") else f"best_{name}": best.get(name) for name in IN_SUMMARY}
    numbers = {**scores, **{f"trials/{state}": count for state, count in summary["trials"].items()}}
    return {name: float(x) for name, x in numbers.items() if x is not None and math.isfinite(x)}


def _entry(folder: RunFolder, spec: StudySpec, tracking: Tracking, worker: str) -> Entry:
    notes = folder.read_json(FILE)
    own = {name: str(getattr(spec, name)) for name in ("trials", "parallel", "sampler", "pruner", "score")}
    search = {f"search.{path}": json.dumps(span) for path, span in spec.search.items()}
    command = f"shoal tune {spec.run.agent} {spec.run.env_name}"
    tags = {**tags_of(spec.run, folder, command), **tracking.tags}
    parameters = {**parameters_of(spec.run), **own, **search}
    return Entry(notes["key"], folder.path.name, parameters, tags, notes["started"], axis=TRIAL, worker=worker)


def _note(folder: RunFolder, tracking: Tracking, is_new: bool) -> None:
    """Write `tracking.json`, or change it where something else was asked for. The key and the time stay."""
    path = folder.path / FILE
    if is_new:
        path.unlink(missing_ok=True)
    if not folder.has(FILE):
        notes = {"key": uuid.uuid4().hex, "started": time.time(), **described(tracking)}
        _write_first(path, {**notes, "group": "", "depth": 1, "sent": {}})
    notes = folder.read_json(FILE)
    if (changed := {**notes, **described(tracking)}) != notes:
        folder.write_json(FILE, changed)


def _write_first(path: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON file unless there is one: of several workers that begin at once, the first one makes the key."""
    own = path.with_name(f".{path.name}.{data['key']}")
    own.write_text(json.dumps(data, indent=1) + "\n")
    try:
        os.link(own, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        path.write_bytes(own.read_bytes())
    finally:
        own.unlink()
