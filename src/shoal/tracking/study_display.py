"""The sinks that show a study: a live display on a terminal, plain lines everywhere else."""

import sys
from typing import Any

from shoal.tracking.events import Closed, Event, Searched, Sink
from shoal.tracking.live import SEPARATOR, LiveSink, bar, fitted
from shoal.tracking.text import duration, lines_of, short_number

LINES = 100  # of a plain log, about, for a whole study


def study_sink(stream: Any = None) -> Sink:
    """Return a live display for a terminal, plain lines for a file or pipe. `stream` is standard error by default."""
    return LiveStudy(stream) if (stream or sys.stderr).isatty() else PlainStudy(stream)


class PlainStudy(Sink):
    """About a hundred lines for a study, for log files."""

    def __init__(self, stream: Any = None) -> None:
        """Write to a text stream; standard error by default."""
        self.stream: Any = stream or sys.stderr
        self._printed = 0  # finished trials in the last line

    def receive(self, event: Event) -> None:
        """Print a line when another hundredth of the trials has ended, and every message."""
        lines = [*lines_of(event)]
        if isinstance(event, Searched):
            finished, trials = event.finished, event.trials
            if finished - self._printed >= max(1, trials // LINES) or finished >= trials > self._printed:
                self._printed = finished
                lines.append(SEPARATOR.join(parts_of(event)))
        for line in lines:
            print(line, file=self.stream, flush=True)


class LiveStudy(LiveSink):
    """Draws the state of a study on a terminal, and messages above it."""

    newest: Searched | None = None

    def receive(self, event: Event) -> None:
        for line in lines_of(event):
            self.print(line)
        if isinstance(event, Searched):
            if self._live is None:
                self.start()
            self.newest = event
        elif isinstance(event, Closed):
            self.stop()

    def lines(self, width: int) -> list[str]:
        return [] if self.newest is None else study_lines(self.newest, width)


def parts_of(event: Searched) -> list[str]:
    """Return the state of a study: trials, slots, best score, speed, time left. What is not known is left out."""
    best = "" if event.best is None else f"best {event.best:.4g} (trial {event.best_trial})"
    best = f"{event.front} trial{'s' * (event.front > 1)} on the Pareto front" if event.front else best
    speed = f"{short_number(event.trials_per_hour)} trials/hour" if event.trials_per_hour else ""
    left = "" if event.seconds_left is None else f"{duration(event.seconds_left)} left"
    trials = f"{event.finished}/{event.trials} trials"
    return [part for part in (trials, f"{event.busy}/{event.slots} slots busy", best, speed, left) if part]


def study_lines(event: Searched, width: int) -> list[str]:
    """Return the state of a study as two lines: a bar of the trials with the time left, and all other numbers."""
    trials, slots, *others = parts_of(event)
    left = others.pop() if event.seconds_left is not None else ""
    fraction = min(event.finished / event.trials, 1.0)
    text = SEPARATOR.join(part for part in (f"{fraction:4.0%}", trials, left) if part)
    drawn = bar(fraction, width - len(text) - len(SEPARATOR))
    return [fitted([drawn, text], width), fitted([f"{SEPARATOR}{slots}", *others], width)]
