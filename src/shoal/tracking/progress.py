"""Sinks that show a run: a live display on a terminal, a plain line for each record elsewhere, or only warnings."""

import sys
import threading
from typing import Any

from shoal.tracking.events import Compiled, Event, Message, Opened, Recorded, Sink, Started, Turned
from shoal.tracking.live import LiveDisplay
from shoal.tracking.text import duration, expectation, headline, state_of

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
        """Print a warning."""
        if isinstance(event, Message) and event.is_warning:
            print(f"shoal: {event.text}", file=sys.stderr, flush=True)


class PlainLines(Sink):
    """One line for each record, for log files."""

    def __init__(self, stream: Any = None) -> None:
        """Write to a text stream; standard error by default."""
        self.stream: Any = stream or sys.stderr
        self.updates: int | None = None
        self._is_compiled = threading.Event()

    def receive(self, event: Event) -> None:
        """Print a line for an event of interest; ignore other events."""
        if not isinstance(event, (Opened, Message)):
            self._is_compiled.set()
        match event:
            case Opened():
                self.updates = event.updates
                self._print(headline(event))
                threading.Thread(target=self._wait, daemon=True).start()
            case Compiled(seconds):
                self._print(f"compiled in {seconds:.1f} s")
            case Started():
                self._print(expectation(event))
            case Recorded():
                done = f"{event.updates / self.updates:4.0%}  " if self.updates else ""
                self._print(f"{done}{event.line['env_steps']:>12,} steps  {state_of(event)}")
            case Turned():
                for note in event.notes:
                    self._print(note)
            case Message(text):
                self._print(text)
            case _:
                pass

    def _wait(self) -> None:
        """Print a line every `WAIT` seconds until the programs are compiled, so that a log shows that it goes on."""
        lines = 0
        while not self._is_compiled.wait(WAIT):
            lines += 1
            self._print(f"compiling: {duration(lines * WAIT)} so far")

    def _print(self, text: str) -> None:
        print(text, file=self.stream, flush=True)
