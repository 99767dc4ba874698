"""A sink that sends the trials of a study to an experiment tracker: a child of the study's run for each."""

import abc
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from shoal.tracking.events import Event, Finished, TrialEnded
from shoal.tracking.sending import TrackerSink
from shoal.tracking.tracker import Entry, Point, Tracker

MOST_WAITING = 1_000  # trials in memory that are not sent yet
BATCH = 50  # trials whose scores are written to the study's run at once
TRIAL = "trial"  # the axis of a study's run


class TrialSink(TrackerSink):
    """Sends every trial that ends, and at the end those that were missed while the tracker was away.

    Its memory does not grow with the number of trials: if more than MOST_WAITING are waiting, further ones are left
    out, and at the end they are read again with `ended_trials`. A trial that was sent is a point of the study's run, at
    the step of its number, so a study that goes on sends none of them twice.
    """

    def __init__(self, tracker: Tracker, study: Entry, children: bool = True) -> None:
        """`study` is the run of the study; its `axis` must be TRIAL. `children`: whether a trial has its own run."""
        super().__init__(tracker)
        self.study, self.with_children = study, children
        self._waiting: deque[TrialEnded] = deque()
        self._missed = 0
        self._sent: set[int] | None = None  # numbers; None before the run is open
        self._had: set[str] = set()  # keys of children that have ended; their scores are not yet in the study's run
        self._summary: Mapping[str, Any] | None = None

    @abc.abstractmethod
    def ended_trials(self) -> Iterator[TrialEnded]:
        """Yield all trials of this worker that have ended. It is called in the thread, at the end."""

    @abc.abstractmethod
    def files(self) -> Mapping[str, Path]:
        """Return files and folders to attach when the study is complete."""

    def observe(self, event: Event) -> str:
        self.began = self.began or isinstance(event, (TrialEnded, Finished))
        if isinstance(event, TrialEnded):
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(event)
            else:
                self._missed += 1
        elif isinstance(event, Finished):
            self._summary = event.summary
        return ""

    def send(self, status: str) -> None:
        """Send the waiting trials; at the end also those that were missed, files, and the end of the study."""
        if self._sent is None:
            known = self.tracker.open(self.study)
            self._had = self.tracker.children(self.study.key) if self.with_children else set()
            self._sent = set(known.steps)
        while self._waiting:
            some = list(islice(self._waiting, BATCH))
            self._send_trials(some, self._sent)
            for _ in some:
                self._waiting.popleft()
        if not status:
            return
        every = self.ended_trials()
        while some := list(islice(every, BATCH)):
            self._send_trials(some, self._sent)
        self._missed = 0
        if self._summary is not None:
            numbers = {name: x for name, x in self._summary.items() if isinstance(x, (int, float))}
            if numbers and self._sent:
                self.tracker.write(self.study.key, [Point(max(self._sent), self.study.started, numbers)])
            self.tracker.attach(self.study.key, self.files())
        self.tracker.end(self.study.key, status)

    def unsent(self) -> str:
        count = len(self._waiting) + self._missed
        return f"{count} trial{'s' * (count > 1)}" if count else ""

    def _send_trials(self, some: Sequence[TrialEnded], sent: set[int]) -> None:
        new = {trial.number: trial for trial in some if trial.number not in sent}
        for trial in new.values():
            key = f"{self.study.key}/trial/{trial.number}"
            if self.with_children and key not in self._had:
                self._send_child(key, trial)
                self._had.add(key)
            self.progress()
        points = [
            Point(number, trial.started + trial.seconds, {**trial.scores, "seconds": trial.seconds})
            for number, trial in new.items()
        ]
        if points:
            self.tracker.write(self.study.key, points)
        sent.update(new)
        self._had -= {f"{self.study.key}/trial/{number}" for number in new}

    def _send_child(self, key: str, trial: TrialEnded) -> None:
        name = f"trial {trial.number:04d}"
        parameters = {path: str(value) for path, value in trial.parameters.items()}
        tags = {**self.study.tags, **trial.tags, "state": trial.state, "trial": str(trial.number)}
        self.tracker.open(Entry(key, name, parameters, tags, trial.started, self.study.key, live=False))
        last = trial.curve[-1][0] if trial.curve else 0
        pause = trial.seconds / max(len(trial.curve), 1)
        points = [Point(s, trial.started + (i + 1) * pause, {"score": x}) for i, (s, x) in enumerate(trial.curve)]
        end = Point(last, trial.started + trial.seconds, {**trial.scores, "seconds": trial.seconds})
        if points:
            points[-1] = end._replace(metrics={**points[-1].metrics, **end.metrics})
        self.tracker.write(key, points or [end])
        self.tracker.end(key, trial.state)
