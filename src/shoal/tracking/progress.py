"""Sinks that show a run: a live display on a terminal, a plain line for each record elsewhere, or only warnings."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from shoal.tracking.events import Event, Message, Opened, Recorded, Sink, Started
from shoal.tracking.live import LiveDisplay
from shoal.tracking.text import duration, expectation, headline, lines_of, state_of

WAIT = 20.0  # seconds between two lines while programs compile


def progress_sink(stream: Any = None) -> Sink:
    """Return a live display for a terminal, plain lines for a file or pipe. `stream` is standard error by default."""
    return LiveDisplay(stream) if (stream or sys.stderr).isatty() else PlainLines(stream)


def shown(progress: bool) -> Sink:
    """Return the sink that shows a run: its progress, or only its warnings."""
    return progress_sink() if progress else Warnings()


class Warnings(Sink):
    """Prints only what a user must know, to standard error."""

    def receive(self, event: Event) -> None:
        if isinstance(event, Message) and event.is_warning:
            print(f"shoal: {event.text}", file=sys.stderr, flush=True)


class OnlyMessages(Sink):
    """A sink that forwards the messages of the runs of a command to another sink, and ignores all other events."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def receive(self, event: Event) -> Message | Iterator[Message | None] | None:
        return self._sink.receive(event) if isinstance(event, Message) else None


class PlainLines(Sink):
    """One line for each record, for log files."""

    def __init__(self, stream: Any = None) -> None:
        self.stream: Any = stream or sys.stderr
        self.updates: int | None = None
        self._still = StillCompiling(self._print)

    def receive(self, event: Event) -> None:
        self._still.receive(event)
        for line in lines_of(event):
            self._print(line)
        match event:
            case Opened():
                self.updates = event.updates
                self._print(headline(event))
            case Started():
                self._print(expectation(event))
            case Recorded():
                done = f"{event.updates / self.updates:4.0%}  " if self.updates else ""
                self._print(f"{done}{event.line['env_steps']:>12,} steps  {state_of(event)}")
            case _:
                pass

    def _print(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


class StillCompiling(Sink):
    """Says every `WAIT` seconds that the programs of a run still compile, so that a log shows that it goes on."""

    def __init__(self, say: Callable[[str], object]) -> None:
        """`say` is called in a thread of its own."""
        self._say, self._is_compiled = say, threading.Event()

    def receive(self, event: Event) -> None:
        """Begin where a run is opened; end at its next event that is no message."""
        if isinstance(event, Opened):
            self._is_compiled = threading.Event()
            threading.Thread(target=self._wait, args=(self._is_compiled,), daemon=True).start()
        elif not isinstance(event, Message):
            self._is_compiled.set()

    def _wait(self, is_compiled: threading.Event) -> None:
        lines = 0
        while not is_compiled.wait(WAIT):
            lines += 1
            self._say(f"compiling: {duration(lines * WAIT)} so far")
