"""Sinks that show progress: a live bar on a terminal, a plain line for each record everywhere else."""

import sys
from collections.abc import Mapping
from typing import Any

from shoal.tracking.events import Closed, Compiled, Event, Message, Opened, Recorded, Sink, Turned


def progress_sink(stream: Any = None) -> Sink:
    """Return a live bar for a terminal, or plain lines for a file or a pipe. `stream` is standard error by default."""
    return LiveBar(stream) if (stream or sys.stderr).isatty() else PlainLines(stream)


class PlainLines(Sink):
    """One line for each record, for log files."""

    def __init__(self, stream: Any = None) -> None:
        """Write to a text stream; standard error by default."""
        self.stream: Any = stream or sys.stderr
        self.updates: int | None = None

    def receive(self, event: Event) -> None:
        """Print a line for an event of interest; ignore other events."""
        match event:
            case Opened():
                self.updates = event.updates
                self._print(headline(event))
            case Compiled(seconds):
                self._print(f"compiled in {seconds:.1f} s")
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

    def _print(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


class LiveBar(Sink):
    """A progress bar: first "compiling" with the seconds, then returns, steps per second and time left."""

    def __init__(self, stream: Any = None) -> None:
        """Draw on a terminal; standard error by default."""
        self.stream: Any = stream or sys.stderr
        self.updates: int | None = None
        self._bar: Any = None

    def receive(self, event: Event) -> None:
        """Move the bar, or print a line above it."""
        match event:
            case Opened():
                self._open(event)
            case Compiled(seconds):
                note = f"compiled in {seconds:.1f} s"
                self._bar.reset(self._task, total=self.updates, description="training", note=note)
            case Recorded():
                self._bar.update(self._task, completed=event.updates, note=state_of(event))
            case Turned():
                for note in event.notes:
                    self._print(note)
            case Message(text):
                self._print(text)
            case Closed():
                self._close()
            case _:
                pass

    def _open(self, opened: Opened) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.updates = opened.updates
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24), TimeElapsedColumn())
        note = TextColumn("{task.fields[note]}", markup=False)
        self._bar = Progress(*columns, note, console=Console(file=self.stream), transient=False)
        self._print(headline(opened))
        self._task = self._bar.add_task("compiling", total=None, note="")
        self._bar.start()

    def _print(self, text: str) -> None:
        if self._bar is None:
            print(text, file=self.stream, flush=True)
        else:
            self._bar.console.print(text, highlight=False, markup=False)

    def _close(self) -> None:
        """Stop the bar; its last state stays on the terminal."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def headline(opened: Opened) -> str:
    """Return one line about a run: `ppo on CartPole-v1: 16 members x 500,000 steps on 2 CPU cores, ...`."""
    members = f"{opened.members} member{'s' * (opened.members > 1)}"
    return f"{opened.agent} on {opened.env}: {members} x {opened.steps:,} steps{opened.notes}"


def state_of(record: Recorded) -> str:
    """Return a record's returns, speed and time left: `return 21.5  1.2M steps/s  1:01 left`."""
    left = "" if record.seconds_left is None else f"  {duration(record.seconds_left)} left"
    return f"{returns(record.line)}  {rate(record.steps_per_second)}{left}"


def returns(line: Mapping[str, Any]) -> str:
    """Return the mean returns of a record as a text: in training, and of its evaluation if it has one."""
    parts = []
    for name, column in (("return", "train_return"), ("evaluation", "eval_return")):
        if column in line:
            score = line[column]
            spread = f" ({score['p05']:.4g} to {score['p95']:.4g})" if score["p05"] != score["p95"] else ""
            parts.append(f"{name} {score['mean']:.4g}{spread}")
    return "  ".join(parts) or "no episode ended"


def rate(steps_per_second: float) -> str:
    """Return a speed as a text: `1.2M steps/s`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if steps_per_second >= size:
            return f"{steps_per_second / size:.3g}{letter} steps/s"
    return f"{steps_per_second:.3g} steps/s"


def duration(seconds: float) -> str:
    """Return a duration as a text: `3 s`, `4:05`, `2:04:05`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
