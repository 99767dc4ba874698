"""Progress as lines of a log file."""

import io
import time

import pytest

from shoal.studies.groups import Messages
from shoal.tracking.events import Closed, Compiled, Opened, Recorded, Started
from shoal.tracking.progress import PlainLines, progress_sink
from shoal.tracking.text import duration, rate, returns

NOTES = " (100 asked for, rounded up to whole updates) on 2 CPU cores"
OPENED = Opened("ppo", "CartPole-v1", members=2, steps=128, updates=4, notes=NOTES)
LINE = {"env_steps": 64, "train_return": {"mean": 21.5, "p05": 20.0, "p95": 23.0}}


def test_log_lines_name_the_run_and_its_returns():
    stream = io.StringIO()
    sink = PlainLines(stream)
    for event in (OPENED, Compiled(1.25), Started(0, 64), Recorded(2, LINE, 12_345.0, 61.0), Closed()):
        sink.receive(event)
    assert stream.getvalue().splitlines() == [
        "ppo on CartPole-v1: 2 members x 128 steps (100 asked for, rounded up to whole updates) on 2 CPU cores",
        "compiled in 1.2 s",
        "the first record comes after 64 steps of each member",
        " 50%            64 steps  return 21.5 (20 to 23)  12.3k steps/s  1:01 left",
    ]


def test_a_long_compilation_is_not_silent(monkeypatch):
    monkeypatch.setattr("shoal.tracking.progress.WAIT", 0.01)
    stream = io.StringIO()
    sink = PlainLines(stream)
    sink.receive(OPENED)
    deadline = time.monotonic() + 10
    while stream.getvalue().count("compiling: ") < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    sink.receive(Compiled(1.0))
    lines = stream.getvalue().splitlines()
    assert lines[1:3] == ["compiling: 0 s so far"] * 2
    time.sleep(0.05)
    assert len(stream.getvalue().splitlines()) <= len(lines) + 1  # it has ended


def of_a_group(stream):
    return Messages("group-1", lambda text: print(text, file=stream))


@pytest.mark.parametrize("sink_for", [PlainLines, of_a_group])
def test_the_compilation_of_every_run_is_not_silent(sink_for, monkeypatch):
    """The runs of one command share a sink; a study has a run for each group of trials."""
    monkeypatch.setattr("shoal.tracking.progress.WAIT", 0.01)
    stream = io.StringIO()
    sink, deadline = sink_for(stream), time.monotonic() + 10
    for _ in range(2):
        before = stream.getvalue().count("compiling: 0 s so far")
        sink.receive(OPENED)
        while stream.getvalue().count("compiling: 0 s so far") == before and time.monotonic() < deadline:
            time.sleep(0.01)
        sink.receive(Compiled(1.0))
        time.sleep(0.03)
    assert stream.getvalue().count("compiled in 1.0 s") == 2 and time.monotonic() < deadline


def test_a_run_without_a_fixed_end_shows_neither_percentage_nor_time_left():
    stream = io.StringIO()
    sink = PlainLines(stream)
    sink.receive(OPENED._replace(updates=None))
    sink.receive(Recorded(2, LINE, 12_345.0, None))
    assert stream.getvalue().splitlines()[1] == "          64 steps  return 21.5 (20 to 23)  12.3k steps/s"


def test_a_resumed_run_says_where_it_goes_on():
    stream = io.StringIO()
    PlainLines(stream).receive(Started(1_200, 25_000))
    assert stream.getvalue() == "going on from step 1,200 of each member; the next record comes after 25,000\n"


def test_files_and_pipes_get_lines():
    assert isinstance(progress_sink(io.StringIO()), PlainLines)


def test_a_record_without_finished_episodes_says_so():
    assert returns({"env_steps": 1}) == "no episode ended"
    assert returns({"eval_return": {"mean": 5.0, "p05": 5.0, "p95": 5.0}}) == "evaluation 5"


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (61, "1:01"), (7445, "2:04:05")])
def test_durations_are_formatted_as_hours_minutes_seconds(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("value", "text"), [(12, "12 steps/s"), (1.25e6, "1.25M steps/s"), (2e9, "2G steps/s")])
def test_rates_have_three_digits(value, text):
    assert rate(value) == text
