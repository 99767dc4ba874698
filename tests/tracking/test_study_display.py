"""The display of a study: numbers in one line for a log, two lines for a terminal of any width."""

import io

import pytest

from shoal.tracking.events import Message, Searched
from shoal.tracking.study_display import LiveStudy, PlainStudy, study_lines, study_sink

STATE = Searched(50, 200, 63, 64, 195.25, 17, 1250.0, 432.0)


def test_a_line_of_a_log_has_all_numbers():
    stream = io.StringIO()
    sink = study_sink(stream)
    assert isinstance(sink, PlainStudy)
    for event in (Message("begun"), STATE._replace(finished=1), STATE, STATE._replace(finished=51)):
        sink.receive(event)
    assert stream.getvalue().splitlines() == [  # a line for each hundredth of the trials
        "begun",
        "50/200 trials  63/64 slots busy  best 195.2 (trial 17)  1.25k trials/hour  7:12 left",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_terminal_shows_trials_and_time_left_in_its_width(width):
    lines = study_lines(STATE, width)
    assert len(lines) == 2 and all(len(line) <= width for line in lines)
    assert lines[0].lstrip("━─ ").startswith("25%  50/200") and ("7:12 left" in lines[0]) == (width > 20)
    assert ("━━" in lines[0]) == (width >= 40) and ("best 195.2 (trial 17)" in lines[1]) == (width >= 80)


def test_with_several_objectives_the_size_of_the_pareto_front_is_shown():
    front = STATE._replace(best=None, best_trial=None, front=3)
    assert "63/64 slots busy  3 trials on the Pareto front  " in study_lines(front, 200)[1]


def test_what_is_not_known_yet_is_left_out():
    lines = study_lines(Searched(0, 200, 4, 64, None, None, 0.0, None), 60)
    assert lines == ["─" * 40 + "    0%  0/200 trials", "  4/64 slots busy"] and LiveStudy().lines(80) == []
