"""Events as short texts, for the terminal and for log files."""

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.tracking.events import Compiled, Event, Message, Opened, Recorded, Started, Turned


def lines_of(event: Event) -> Sequence[str]:
    """Return the lines that every display prints for an event: none for the state of a run, which each shows itself."""
    match event:
        case Compiled(seconds):
            return [f"compiled in {seconds:.1f} s"]
        case Message(text):
            return [text]
        case Turned():
            return event.notes
        case _:
            return ()


def headline(opened: Opened) -> str:
    """Return `ppo on CartPole-v1: 16 members x 500,000 steps on 2 CPU cores, ...`, and a line of changed values."""
    members = f"{opened.members} member{'s' * (opened.members > 1)}"
    changes = f"\n  {opened.changes}" if opened.changes else ""
    return f"{opened.agent} on {opened.env}: {members} x {opened.steps:,} steps{opened.notes}{changes}"


def expectation(started: Started) -> str:
    """Return when the next record comes: `the first record comes after 25,000 steps of each member`."""
    if not started.steps:
        return f"the first record comes after {started.next_record:,} steps of each member"
    return f"going on from step {started.steps:,} of each member; the next record comes after {started.next_record:,}"


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
    return f"{short_number(steps_per_second)} steps/s"


def duration(seconds: float) -> str:
    """Return a duration as a text: `3 s`, `4:05`, `2:04:05`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def short_number(number: float) -> str:
    """Return a count with at most three digits as a text: `225k`, `1.5M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:  # 999,600 is 1M, not 1e+03k
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"
