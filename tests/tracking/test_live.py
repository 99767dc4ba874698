"""The live display: its contents, and that it fits terminals of every width."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from shoal.tracking.events import Closed, Compiled, Message, Opened, Recorded, Started
from shoal.tracking.live import LEAST_BAR, LiveDisplay, fitted, progress_line, ranking, sparkline, state_line

OPENED = Opened("ppo", "CartPole-v1", members=8, steps=500_000, updates=1_000, notes=" on 2 CPU cores")
SCORE = {"mean": 21.5, "p05": 20.0, "p95": 23.0}
LINE = {"env_steps": 225_000, "train_return": SCORE, "eval_return": {"mean": 30.25, "p05": 9.0, "p95": 41.0}}
SETTINGS = [
    (f"learning_rate={rate} env.gravity=9.8", score) for rate, score in ((0.1, 12.0), (0.01, 480.0), (0.001, 96.5))
]
RECORD = Recorded(450, LINE, 1_234_567.0, 61.0, SETTINGS)


@pytest.fixture
def display():
    """A display on no terminal, in the middle of a run."""
    made = LiveDisplay(io.StringIO())
    for event in (OPENED, Compiled(1.0), RECORD._replace(updates=100), RECORD):
        made.receive(event)
    yield made
    made.receive(Closed())


WIDTHS = {40: 7, 60: 21, 80: 40, 120: 40, 200: 40}  # of the terminal, and of the bar
LONG = OPENED._replace(steps=123_456_000_000, updates=1_000)


def bar_of(line):
    return sum(line.count(cell) for cell in "━─")


@pytest.mark.parametrize("width", WIDTHS)
def test_every_line_fits_and_the_first_shows_the_progress(display, width):
    lines = display.lines(width)
    assert max(map(len, lines)) <= width
    assert f"45%  225k of 500k{' steps' if width > 40 else ''}  1:01 left" in lines[0]
    assert bar_of(lines[0]) == WIDTHS[width]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seconds", [None, 5.0, 36_000.0, 360_000.0])
@pytest.mark.parametrize("updates", [0, 999, 1_000])
def test_the_bar_keeps_its_minimum_width(width, seconds, updates):
    record = RECORD._replace(updates=updates, line={"env_steps": 123_456_000_000}, seconds_left=seconds)
    line = progress_line("*", LONG, record, width)
    assert len(line) <= width and bar_of(line) >= LEAST_BAR and "…" not in line
    assert (":00:00 left" in line) == (seconds in (36_000.0, 360_000.0)) and f"{updates / 1_000:.0%}" in line


@pytest.mark.parametrize("width", WIDTHS)
def test_wide_characters_count_as_two_columns(width):
    settings = [
        (f"{name}.学習率={i} env.重力=9.8 env.{'長い名前' * i}=1", float(i)) for i, name in enumerate(("猫", "🐟"))
    ]
    lines = ranking([*settings, ("clip=0.1 " * 40, 3.0)], width)
    assert max(map(cell_len, lines)) <= width and len(lines) == 3
    assert all(
        name in line for name, line in zip(("clip=0.1", "🐟.学", "猫.学"), lines, strict=True)
    )  # cut, not absent
    shown = Console(width=width, file=io.StringIO())
    for line in lines:  # rich would wrap a line that is too long
        assert len(Text(line).wrap(shown, width)) == 1


def test_a_wide_terminal_shows_all_values(display):
    progress, state, *ranked = display.lines(120)
    assert progress.count("━") == 18 and progress.count("─") == 22  # 45 % of 40
    assert "return 21.5 (20 to 23)  evaluation 30.25 (9 to 41)" in state and "1.23M steps/s" in state and "CPU" in state
    assert ranked == [
        "  1.         480  learning_rate=0.01 env.gravity=9.8",
        "  2.        96.5  learning_rate=0.001 env.gravity=9.8",
        "  3.          12  learning_rate=0.1 env.gravity=9.8",
    ]


def test_a_narrow_terminal_keeps_the_returns_and_drops_the_rest(display):
    assert display.lines(60)[1] == "  return 21.5 (20 to 23)  evaluation 30.25 (9 to 41)  ▁▁"


def test_a_sparkline_gets_shorter_where_the_terminal_is_narrow():
    scores = {"train_return": {"mean": 499.4, "p05": 497.5, "p95": 500.0}}
    record = RECORD._replace(line={"eval_return": {"mean": 499.2, "p05": 494.3, "p95": 500.0}, **scores})
    history = [float(i) for i in range(30)]
    words = "return 499.4 (497.5 to 500)  evaluation 499.2 (494.3 to 500)"  # 60 columns
    assert state_line(record, history, "", 78) == f"{words}  {sparkline(history[-16:])}"
    assert state_line(record, history, "", 120) == f"{words}  {sparkline(history)}  1.23M steps/s"
    assert state_line(record, history, "", 66) == words


def test_before_the_first_record_the_display_says_when_it_comes():
    display = LiveDisplay(io.StringIO())
    for event in (OPENED, Compiled(1.0), Started(0, 25_000)):
        display.receive(event)
    (line,) = display.lines(80)
    display.receive(Closed())
    assert line[2:] == "training  0 s  the first record comes after 25,000 steps of each member"


def test_a_run_without_a_fixed_end_shows_its_steps():
    assert progress_line("*", OPENED._replace(updates=None), RECORD, 80) == "* 225k steps of each member"


def test_the_best_settings_are_shown_and_the_others_counted():
    lines = ranking([(f"clip={i}", float(i)) for i in range(12)] + [("clip=nan", float("nan"))], 80)
    assert [line.split()[-1] for line in lines[:5]] == [f"clip={i}" for i in (11, 10, 9, 8, 7)]
    assert lines[5:] == ["  and 8 more settings"]
    assert ranking([("clip=1", 1.0)], 80) == []


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([0.0, 7.0, 3.5], "▁█▅"),
        ([-5.0, -5.0], "▁▁"),
        ([1.0, float("nan"), 2.0], "▁·█"),
        ([1.0], ""),
        ([float("nan")] * 3, ""),
        (list(range(50)), "▁▁▂▂▂▃▃▄▄▄▅▅▅▆▆▇▇▇██"),
    ],
)
def test_a_sparkline_spans_its_values(values, bars):
    assert sparkline(values) == bars


def test_values_that_do_not_fit_are_dropped_from_the_end():
    assert fitted(["first", "", "second", "third"], 15) == "first  second"
    assert fitted(["a long text"], 6) == "a lon…"
    assert fitted(["長い名前"], 6) == "長い …"  # the third character would need two columns


def test_messages_appear_above_the_display():
    stream = io.StringIO()
    display = LiveDisplay(stream)
    events = (Message("before"), OPENED, Compiled(1.0), RECORD, Message("member 1 [x] stopped"), Closed(), Closed())
    for event in events:
        display.receive(event)
    text = stream.getvalue()
    assert text.startswith("before\nppo on CartPole-v1: 8 members x 500,000 steps on 2 CPU cores\n")
    assert text.index("compiled in 1.0 s") < text.index("member 1 [x] stopped") < text.index("45%")
