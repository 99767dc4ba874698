"""A live display for a terminal: progress, returns with their history, and the best settings of a sweep.

It uses as many columns as the terminal has, and counts two for a wide character, such as a Chinese one. If these are
too few for everything, parts are left out from the end of a line; the percentage and the time left always stay, and so
does a bar of at least `LEAST_BAR` columns if the terminal has 40.
"""

import abc
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from shoal.tracking.events import Closed, Event, Finished, Opened, Recorded, Sink, Started
from shoal.tracking.text import duration, expectation, headline, lines_of, rate, returns, short_number

BARS = "▁▂▃▄▅▆▇█"
HISTORY, LEAST_HISTORY = 20, 5  # values that a sparkline shows at most, and at least
SHOWN_SETTINGS = 5
LEAST_BAR, WIDEST_BAR = 6, 40  # columns
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SEPARATOR = "  "


class LiveSink(Sink):
    """Draws its `lines` on a terminal four times a second, and texts above them."""

    def __init__(self, stream: Any = None) -> None:
        """Draw on a terminal; standard error by default."""
        self.stream: Any = stream or sys.stderr
        self._live: Any = None

    @abc.abstractmethod
    def lines(self, width: int) -> list[str]:
        """Return the lines of the display, each of at most `width` columns."""

    def __rich_console__(self, console: Any, options: Any) -> Any:
        """Give rich the lines for the present width of the terminal."""
        from rich.text import Text

        for line in self.lines(options.max_width):
            yield Text(line, no_wrap=True, overflow="ellipsis")

    def start(self, head: str = "") -> None:
        """Begin to draw, below a headline."""
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self.stream)
        if head:
            console.print(head, highlight=False, markup=False)
        self._live = Live(self, console=console, refresh_per_second=4)
        self._live.start()

    def print(self, text: str) -> None:
        """Print a text above the lines."""
        if self._live is None:
            print(text, file=self.stream, flush=True)
        else:
            self._live.console.print(text, highlight=False, markup=False)

    def stop(self) -> None:
        """Stop drawing; the last state stays on the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None


class LiveDisplay(LiveSink):
    """Draws the state of a run on a terminal, and messages above it."""

    def __init__(self, stream: Any = None) -> None:
        super().__init__(stream)
        self._opened: Opened | None = None
        self._record: Recorded | None = None
        self._history: list[float] = []
        self._started = time.monotonic()
        self._cpu = 0.0
        self._cpu_at_record = (0.0, 0.0)

    def receive(self, event: Event) -> None:
        """Update the display, or print a line above it."""
        for line in lines_of(event):
            self.print(line)
        match event:
            case Opened():
                self._open(event)
            case Started():
                self._stage, self._expected, self._started = "training", expectation(event), time.monotonic()
                self._cpu_at_record = (self._started, time.process_time())
            case Recorded():
                self._add(event)
            case Finished() | Closed():
                self.stop()
            case _:
                pass

    def lines(self, width: int) -> list[str]:
        """Return the lines of the display, each of at most `width` characters."""
        if self._opened is None:
            return []
        if self._record is None:
            seconds = duration(time.monotonic() - self._started)
            return [fitted([f"{self._spinner()} {self._stage}", seconds, self._expected], width)]
        cpu = f"CPU {self._cpu:.0%}" if self._cpu else ""
        return [
            progress_line(self._spinner(), self._opened, self._record, width),
            SEPARATOR + state_line(self._record, self._history, cpu, width - len(SEPARATOR)),
            *ranking(self._record.settings, width),
        ]

    def _open(self, opened: Opened) -> None:
        self._opened, self._record, self._history = opened, None, []
        self._stage, self._expected, self._started = "compiling", "", time.monotonic()
        self.start(headline(opened))

    def _add(self, record: Recorded) -> None:
        self._record = record
        if score := record.line.get("train_return", record.line.get("eval_return")):
            self._history.append(float(score["mean"]))
        (then, cpu_then), now = self._cpu_at_record, (time.monotonic(), time.process_time())
        self._cpu = (now[1] - cpu_then) / max(now[0] - then, 1e-9) / (os.cpu_count() or 1)
        self._cpu_at_record = now

    def _spinner(self) -> str:
        done = self._record and self._opened and self._record.updates == self._opened.updates
        return "✓" if done else SPINNER[int(8 * time.monotonic()) % len(SPINNER)]


def progress_line(spinner: str, opened: Opened, record: Recorded, width: int) -> str:
    """Return `⠋ ━━━━━━╺────  45%  225k of 500k steps  1:01 left`; the bar gets the columns that the text leaves."""
    done = short_number(record.line["env_steps"])
    if opened.updates is None:
        return fitted([f"{spinner} {done} steps of each member"], width)
    fraction = record.updates / opened.updates
    left = "" if record.seconds_left is None else f"{duration(record.seconds_left)} left"
    # One slot may have several trainings, one after the other.
    steps = record.line["env_steps"] / fraction if fraction else opened.steps
    percent, of = f"{fraction:4.0%}", f"{done} of {short_number(steps)}"
    for parts in ((percent, f"{of} steps", left), (percent, of, left), (percent, left)):
        text = SEPARATOR.join(part for part in parts if part)
        if drawn := bar(fraction, width - len(f"{spinner} {SEPARATOR}{text}")):
            return f"{spinner} {drawn}{SEPARATOR}{text}"
    return fitted([f"{spinner} {percent}", left], width)


def bar(fraction: float, columns: int) -> str:
    """Return `━━━━━─────`, of at most WIDEST_BAR columns; an empty text where there are too few."""
    columns = min(columns, WIDEST_BAR)
    full = round(fraction * columns)
    return f"{'━' * full}{'─' * (columns - full)}" if columns >= LEAST_BAR else ""


def state_line(record: Recorded, history: Sequence[float], cpu: str, width: int) -> str:
    """Return `return 21.5  ▁▃▅█  1.2M steps/s  CPU 90%`. A narrow terminal shows fewer of the newest bars."""
    scores = returns(record.line)
    room = width - len(scores) - len(SEPARATOR)
    bars = sparkline(history[-max(room, 1) :]) if room >= LEAST_HISTORY else ""
    return fitted([*scores.split(SEPARATOR), bars, rate(record.steps_per_second), cpu], width)


def sparkline(values: Sequence[float]) -> str:
    """Return the newest values as bars between the lowest and the highest; values that are not finite are dots."""
    newest = values[-HISTORY:]
    finite = [value for value in newest if abs(value) < float("inf")]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    steps = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((v - low) * steps)] if abs(v) < float("inf") else "·" for v in newest)


def ranking(settings: Sequence[tuple[str, float]], width: int) -> list[str]:
    """Return a line for each of the best settings, from the highest score down, and one that counts the others."""
    if len(settings) < 2:
        return []
    ranked = sorted(settings, key=lambda pair: -pair[1] if pair[1] == pair[1] else float("inf"))
    shown = [
        fitted([f"  {rank}.{SEPARATOR}{score:10.4g}{SEPARATOR}{name}"], width)  # a long name is cut, not left out
        for rank, (name, score) in enumerate(ranked[:SHOWN_SETTINGS], 1)
    ]
    hidden = len(ranked) - len(shown)
    return shown + [fitted([f"  and {hidden} more settings"], width)] * (hidden > 0)


def fitted(parts: Sequence[str], width: int) -> str:
    """Join the parts that are not empty; leave out the last ones where they need more than `width` columns."""
    from rich.cells import cell_len, set_cell_size

    parts = [part for part in parts if part]
    while len(parts) > 1 and cell_len(SEPARATOR.join(parts)) > width:
        parts = parts[:-1]
    text = SEPARATOR.join(parts)
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)) + "…"
