"""Progress on a terminal (a live bar) and everywhere else (a plain line for each record)."""

import sys
from collections.abc import Mapping
from io import TextIOBase
from typing import Any

from shoal.tracking.reporter import Reporter


def reporter_for_terminal(stream: TextIOBase | None = None) -> Reporter:
    """A live bar where a person is watching, plain lines where a file or a pipe is."""
    return LiveBar(stream) if (stream or sys.stderr).isatty() else PlainLines(stream)


class PlainLines(Reporter):
    """One line for each record, for log files."""

    def __init__(self, stream: TextIOBase | None = None) -> None:
        """Write to a stream; standard error by default."""
        self.stream: Any = stream or sys.stderr
        self.plan: Any = None

    def compiling(self, plan: Any) -> None:
        """Say what is going to run."""
        self.plan = plan
        self.message(headline(plan))

    def compiled(self, seconds: float) -> None:
        """Say how long compiling took."""
        self.message(f"compiled in {seconds:.1f} s")

    def record(self, done: int, line: dict[str, Any], steps_per_second: float, seconds_left: float) -> None:
        """Say how far it is, and how well it does."""
        share = done / self.plan.updates
        self.message(
            f"{share:4.0%}  {line['env_steps']:>12,} steps  {returns(line)}  {rate(steps_per_second)}  "
            f"{duration(seconds_left)} left"
        )

    def message(self, text: str) -> None:
        """A line."""
        print(text, file=self.stream, flush=True)


class LiveBar(Reporter):
    """A bar that says what it is doing: compiling, with seconds; then returns, steps per second and time left."""

    def __init__(self, stream: TextIOBase | None = None) -> None:
        """Draw on a terminal; standard error by default."""
        self.stream: Any = stream or sys.stderr
        self.plan: Any = None
        self._bar: Any = None

    def compiling(self, plan: Any) -> None:
        """Open the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.plan = plan
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24), TimeElapsedColumn())
        note = TextColumn("{task.fields[note]}", markup=False)
        self._bar = Progress(*columns, note, console=Console(file=self.stream), transient=False)
        self._bar.console.print(headline(plan), highlight=False, markup=False)
        self._task = self._bar.add_task("compiling", total=None, note="")
        self._bar.start()

    def compiled(self, seconds: float) -> None:
        """From now on the bar counts updates."""
        self._bar.reset(
            self._task, total=self.plan.updates, description="training", note=f"compiled in {seconds:.1f} s"
        )

    def record(self, done: int, line: dict[str, Any], steps_per_second: float, seconds_left: float) -> None:
        """Move the bar."""
        note = f"{returns(line)}  {rate(steps_per_second)}  {duration(seconds_left)} left"
        self._bar.update(self._task, completed=done, note=note)

    def message(self, text: str) -> None:
        """A line above the bar."""
        if self._bar is None:
            print(text, file=self.stream, flush=True)
        else:
            self._bar.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Leave the bar as it is and free the terminal."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def headline(plan: Any) -> str:
    """What runs, in a line."""
    waves = f", {len(plan.waves)} parts one after another to fit into memory" if len(plan.waves) > 1 else ""
    rounded = f" ({plan.spec.steps:,} asked for, rounded up to whole updates)" if plan.steps != plan.spec.steps else ""
    asked, made = plan.spec.evaluations, len(plan.eval_records)
    evaluated = f", {made} evaluation{'s' * (made > 1)} (not {asked}: one a record)" if asked > made else ""
    return (
        f"{plan.spec.agent} on {plan.spec.env}: {plan.members} member{'s' * (plan.members > 1)} x "
        f"{plan.steps:,} steps{rounded} on {plan.placement.describe()}{waves}{evaluated}{plan.warning}"
    )


def returns(line: Mapping[str, Any]) -> str:
    """The returns of a record: of the last evaluation if it had one, and in training."""
    parts = []
    for name, column in (("return", "train_return"), ("evaluation", "eval_return")):
        if column in line:
            score = line[column]
            spread = f" ({score['p05']:.4g} to {score['p95']:.4g})" if score["p05"] != score["p95"] else ""
            parts.append(f"{name} {score['mean']:.4g}{spread}")
    return "  ".join(parts) or "no episode ended"


def rate(steps_per_second: float) -> str:
    """`1.2M steps/s`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if steps_per_second >= size:
            return f"{steps_per_second / size:.3g}{letter} steps/s"
    return f"{steps_per_second:.3g} steps/s"


def duration(seconds: float) -> str:
    """`3 s`, `4:05`, `2:04:05`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
