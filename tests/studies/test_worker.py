"""A worker between its chunks: where trials go, what is written about them, and what is told. Nothing is compiled."""

import csv
from types import SimpleNamespace

import pytest

from listeners import Listener
from shoal.population.slots import Trial
from shoal.specs.settings import apply
from shoal.specs.spec import built, template
from shoal.studies.groups import plan_groups
from shoal.studies.request import new_study
from shoal.studies.search import read_space
from shoal.studies.study import slots_in
from shoal.studies.worker import Worker
from shoal.tracking.events import Message, Searched, Sink, Sinks

SEARCH = {"learning_rate": (0.1, 0.9), "discount": (0.5, 0.9), "num_steps": [32, 64]}


class Heard(Sink):
    """Keeps the state of the study."""

    def __init__(self):
        self.events = []

    def receive(self, event):
        if isinstance(event, Searched):
            self.events.append(event)


@pytest.fixture
def made(tmp_path):
    """A worker of a new study with two programs, the sinks of which keep what they hear."""
    request = {
        "agent": "q-learning",
        "env": "Blackjack-v1",
        "search": SEARCH,
        "parallel": 4,
        "seeds": 2,
        "steps": 576,
        "trials": 8,
    }
    folder, spec = new_study(request, (None, None), None, tmp_path, False, False)
    folder.create()
    space = read_space(apply(template(spec.run), built({})), spec.search)
    heard, listener = Heard(), Listener()
    groups = plan_groups(spec, space, None, None, folder.worker("w0"))
    return Worker(spec, folder, space, groups, Sinks([heard, listener])), heard, listener


def test_a_trial_waits_once_in_the_group_of_its_static_values(made):
    worker, _, _ = made
    params = {"learning_rate": 0.5, "discount": 0.75, "num_steps": 64}
    for _ in range(2):
        worker._route(3, params)
    traced = {"learning_rate": 0.5, "discount": 0.75}
    assert [list(group.source.waiting) for group in worker.groups] == [[], [Trial(3, traced)]]
    assert worker.groups[1].numbers == {3} and worker.groups[1].held == []


def test_a_study_begins_with_its_queue_and_its_description(made):
    worker, _, _ = made
    study = worker.prepare([{"learning_rate": 0.25}])
    assert [(trial.state.name, trial.system_attrs["fixed_params"]) for trial in study.trials] == [
        ("WAITING", {"learning_rate": 0.25})
    ]
    assert worker.folder.read_spec() == worker.spec and worker.best is None and worker.path.is_dir()


def test_the_best_score_and_the_time_left_are_those_of_the_trials_that_ended(made):
    worker, heard, _ = made
    worker.store = SimpleNamespace(remaining=lambda: 3, finished=lambda: 4, trial=lambda number: number)
    worker.events = SimpleNamespace(of=lambda number: Message(f"trial {number}"))
    worker.path.mkdir(parents=True)
    for number, score in ((1, 5.0), (2, 7.0), (3, 6.0), (4, None)):
        worker._ended(number, None if score is None else (score,))
    worker.began -= 8.0
    for busy in (4, 2):
        worker._add_row(worker.groups[0], busy, 0.0)
    event = heard.events[-1]
    assert (event.best, event.best_trial, event.finished, event.busy, event.slots) == (7.0, 2, 4, 2, 4)
    assert event.trials_per_hour == pytest.approx(1800, rel=0.1)  # four in eight seconds
    assert event.seconds_left == pytest.approx(8, rel=0.1)
    with open(worker.path / "slots.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["group"], row["trials"], row["to_start"]) for row in rows] == [
        ("group-0", str(n), "3") for n in (4, 2)
    ]
    assert slots_in(worker.path / "slots.csv")["chunks"] == 2


def test_the_plan_says_how_many_programs_compile_and_that_steps_were_rounded(made):
    worker, _, listener = made
    worker._say_plan("postgresql://me:secret@host/base")
    (text,) = listener.heard
    assert "8 trials of 2 seeds x 576 steps, 4 at a time" in text
    assert "2 program shapes; each compiles once" in text and "me:***@host" in text
