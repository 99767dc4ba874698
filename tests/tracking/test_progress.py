"""Progress, as lines and as a live bar."""

import io
from types import SimpleNamespace

import pytest

from shoal.tracking.progress import LiveBar, PlainLines, duration, headline, rate, reporter_for_terminal, returns
from shoal.training.placement import Placement
from shoal.training.plan import make_plan
from shoal.training.spec import RunSpec

PLAN = SimpleNamespace(
    spec=SimpleNamespace(agent="ppo", env="CartPole-v1", steps=100, evaluations=50),
    eval_records=[0, 1, 2],
    members=2,
    steps=128,
    updates=4,
    warning="",
    waves=[slice(0, 2)],
    placement=Placement(members=2, block=1, workers=2),
)
LINE = {"env_steps": 64, "train_return": {"mean": 21.5, "p05": 20.0, "p95": 23.0}}


def test_lines_say_what_runs_and_how_well():
    stream = io.StringIO()
    reporter = PlainLines(stream)
    reporter.compiling(PLAN)
    reporter.compiled(1.25)
    reporter.record(2, LINE, 12_345.0, 61.0)
    assert stream.getvalue().splitlines() == [
        "ppo on CartPole-v1: 2 members x 128 steps (100 asked for, rounded up to whole updates) on 2 CPU cores, "
        "one member at a time on each, 3 evaluations (not 50: one a record)",
        "compiled in 1.2 s",
        " 50%            64 steps  return 21.5 (20 to 23)  12.3k steps/s  1:01 left",
    ]


def test_the_bar_passes_from_compiling_to_training():
    stream = io.StringIO()
    reporter = LiveBar(stream)
    reporter.message("before")
    reporter.compiling(PLAN)
    reporter.compiled(1.0)
    reporter.record(4, LINE, 12_345.0, 0.0)
    reporter.message("member 1 [x] stopped")
    reporter.close()
    reporter.close()
    text = stream.getvalue()
    assert (
        text.startswith("before") and "training" in text and "12.3k steps/s" in text and "member 1 [x] stopped" in text
    )


def test_files_and_pipes_get_lines():
    assert isinstance(reporter_for_terminal(io.StringIO()), PlainLines)


def test_a_record_in_which_nothing_ended_says_so():
    assert returns({"env_steps": 1}) == "no episode ended"
    assert returns({"eval_return": {"mean": 5.0, "p05": 5.0, "p95": 5.0}}) == "evaluation 5"


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (61, "1:01"), (7445, "2:04:05")])
def test_durations_read_like_a_clock(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(("value", "text"), [(12, "12 steps/s"), (1.25e6, "1.25M steps/s"), (2e9, "2G steps/s")])
def test_rates_have_three_digits(value, text):
    assert rate(value) == text


def test_a_run_that_ends_before_it_learns_says_so():
    plan = make_plan(RunSpec(agent="dqn", env="CartPole-v1", steps=10_000, seeds=2))
    assert headline(plan).endswith("; 2 will not learn: learning_starts is later")
    assert make_plan(RunSpec(agent="dqn", env="CartPole-v1", steps=10_010)).warning == ""
    assert make_plan(RunSpec(agent="ppo", env="CartPole-v1", steps=512)).warning == ""
