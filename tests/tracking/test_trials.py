"""The trials of a study in a tracker: each one once, also after errors, and in bounded memory."""

import signal
import threading
import time

import pytest

from listeners import Listener
from shoal.tracking import background, sending, trials
from shoal.tracking.events import Closed, Finished, Message, Sink, Sinks, TrialEnded
from shoal.tracking.mlflow import Mlflow
from shoal.tracking.progress import Warnings
from shoal.tracking.tracker import Entry, Known, Target, Tracker
from shoal.tracking.trials import TRIAL, TrialSink
from stores import NOW, entry, history, runs_in

STUDY = entry(name="my-study", axis=TRIAL)
EXPERIMENT = "doors"

pytestmark = pytest.mark.filterwarnings("ignore:::mlflow", "ignore:::sqlalchemy", "ignore:::pydantic")


def trial(number: int, state: str = "complete", points: int = 2) -> TrialEnded:
    curve = [(1_000 * (i + 1), float(number + i)) for i in range(points)]
    scores = {} if state == "failed" else {"score": float(number + points - 1)}
    return TrialEnded(number, state, scores, {"learning_rate": 0.1 * number}, NOW + number, 2.0, curve, {"worker": "a"})


class Memory(Tracker):
    """A tracker that keeps everything, and fails while `away` is True."""

    title = "Memory"

    def __init__(self):
        self.away, self.runs, self.points, self.ended = False, [], [], {}

    def connect(self):
        if self.away:
            raise ConnectionError("the server is away")

    def open(self, entry: Entry) -> Known:
        self.runs.append(entry.key)
        return Known()

    def write(self, key, points):
        self.points += [(key, point.step, dict(point.metrics)) for point in points]

    def attach(self, key, files):
        self.points.append((key, "files", sorted(files)))

    def end(self, key, how):
        self.ended[key] = how

    def children(self, key):
        return set()


class Trials(TrialSink):
    """The trials of a worker; `ended` is a function, because it is called at the end."""

    def __init__(self, tracker, children=True, ended=tuple):
        super().__init__(tracker, STUDY, children)
        self.ended = ended

    def ended_trials(self):
        return iter(self.ended())

    def files(self):
        return {}

    def resend_command(self):
        return "shoal track runs/my-study"


def send(sink, events):
    listener = Listener()
    sinks = Sinks([listener, sink])
    for event in events:
        sinks.receive(event)
    return listener.heard


def test_every_trial_is_a_child_of_the_study(root):
    tracker = Mlflow(Target(root / "run", root, EXPERIMENT))
    events = [trial(0), trial(1, "pruned", points=1), trial(2, "failed", points=0)]
    send(Trials(tracker), [*events, Finished({"best_score": 1.0}), Closed()])
    runs = runs_in(root, EXPERIMENT)
    assert set(runs) == {"my-study", "trial 0000", "trial 0001", "trial 0002"}
    assert history(root, runs["trial 0000"], "score") == [(1_000, 0.0), (2_000, 1.0)]
    statuses = {name: (run.info.status, run.data.tags.get("state")) for name, run in runs.items()}
    assert statuses["trial 0001"] == ("FINISHED", "pruned") and statuses["trial 0002"] == ("FAILED", "failed")
    assert runs["trial 0001"].data.params == {"learning_rate": "0.1"}
    assert runs["trial 0001"].data.tags["worker"] == "a"
    assert history(root, runs["my-study"], "score") == [(0, 1.0), (1, 1.0)]
    assert runs["my-study"].data.metrics["best_score"] == 1.0 and statuses["my-study"][0] == "FINISHED"


def test_a_study_that_goes_on_sends_no_trial_twice(root):
    send(Trials(Mlflow(Target(root / "run", root, EXPERIMENT))), [trial(0), trial(1), Closed("stopped")])
    every = lambda: [trial(number) for number in range(4)]  # noqa: E731  # as a storage returns them
    send(Trials(Mlflow(Target(root / "run", root, EXPERIMENT)), ended=every), [trial(2), Closed()])
    runs = runs_in(root, EXPERIMENT)  # refuses two runs of one name
    assert len(runs) == 5
    assert [step for step, _ in history(root, runs["my-study"], TRIAL)] == [0, 1, 2, 3]
    assert len(history(root, runs["trial 0001"], "score")) == 2


def test_a_child_that_was_written_before_a_kill_is_not_written_again(root):
    tracker = Mlflow(Target(root / "run", root, EXPERIMENT))
    tracker.connect()
    first = Trials(tracker)
    first.observe(trial(0))
    write = tracker.write
    tracker.write = lambda key, points: write(key, points) if key != STUDY.key else 1 / 0  # killed at this point
    with pytest.raises(ZeroDivisionError):
        first.send("")
    send(Trials(Mlflow(Target(root / "run", root, EXPERIMENT))), [trial(0), Closed()])
    runs = runs_in(root, EXPERIMENT)
    assert set(runs) == {"my-study", "trial 0000"} and len(history(root, runs["trial 0000"], "score")) == 2


def test_without_children_the_study_has_the_scores():
    tracker = Memory()
    send(Trials(tracker, children=False), [trial(0), trial(1), Closed()])
    assert tracker.runs == [STUDY.key]
    assert [(step, found["score"]) for _, step, found in tracker.points] == [(0, 1.0), (1, 2.0)]


def test_memory_does_not_grow_while_a_tracker_is_away_and_no_trial_is_lost(monkeypatch):
    monkeypatch.setattr(trials, "MOST_WAITING", 5)
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.01)
    tracker = Memory()
    tracker.away = True
    sink = Trials(tracker, ended=lambda: (trial(number) for number in range(20)))
    send(sink, [trial(number) for number in range(20)])
    assert len(sink._waiting) == 5 and sink.unsent() == "20 trials"
    tracker.away = False
    send(sink, [Closed()])
    steps = [step for key, step, _ in tracker.points if key == STUDY.key]
    assert sorted(steps) == list(range(20)) and len(tracker.runs) == 21


def test_trials_that_could_not_be_sent_are_counted(monkeypatch):
    monkeypatch.setattr(background, "PATIENCE", 0.0)
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.01)
    tracker = Memory()
    tracker.away = True
    heard = send(Trials(tracker), [trial(0), trial(1), Closed()])
    assert heard[-1] == ("Memory does not have 2 trials: the server is away. To send it: `shoal track runs/my-study`")


def test_an_outage_is_said_once_and_its_end_too(monkeypatch):
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.0)
    tracker = Memory()
    tracker.away = True
    sink = Trials(tracker)
    heard = send(sink, [trial(0)])
    wait(lambda: sink._background.error is not None)
    heard += send(sink, [trial(1), trial(2)])
    tracker.away = False
    sink._background.ask()
    wait(lambda: sink._background.error is None)
    heard += send(sink, [trial(3)])
    assert heard == [
        "Memory cannot be written: the server is away. The run goes on, and it is tried again",
        "Memory can be written again",
    ]
    send(sink, [Closed()])


class Silent(Memory):
    """A server that takes a connection and then does not answer."""

    def __init__(self):
        super().__init__()
        self.hangs = threading.Event()

    def connect(self):
        self.hangs.wait(60)


@pytest.fixture
def limit(monkeypatch):
    monkeypatch.setattr(background, "PATIENCE", 1.0)
    monkeypatch.setattr(background, "LONGEST_SILENCE", 1.0)


def test_servers_that_do_not_answer_are_waited_for_together(limit):
    silent, away, well = Silent(), Memory(), Memory()
    away.away = True
    listener = Heard()
    sinks = Sinks([listener, *(Trials(each) for each in (silent, away, well))])
    sinks.receive(trial(0))
    began = time.monotonic()
    sinks.receive(Closed())
    assert time.monotonic() - began < 3 * 1.0  # each of them alone takes a second
    assert sorted(text.partition(": ")[2] for text in listener.warnings) == [
        "no answer for 1 s. To send it: `shoal track runs/my-study`",
        "the server is away. To send it: `shoal track runs/my-study`",
    ]
    assert well.ended[STUDY.key] == "complete"
    silent.hangs.set()


def test_a_slow_server_that_makes_progress_is_waited_for(limit):
    class Slow(Memory):
        def open(self, entry):
            time.sleep(0.3)
            return super().open(entry)

    slow = Slow()
    send(Trials(slow), [*(trial(number) for number in range(3)), Closed()])
    assert len(slow.runs) == 4 and slow.ended[STUDY.key] == "complete"


def test_without_progress_only_warnings_are_printed(capsys):
    sinks = Sinks([Broken(), Warnings()])
    sinks.say("compiled in 1 s")
    sinks.say("member 0 stopped", is_warning=True)
    assert capsys.readouterr().err.splitlines() == [
        "shoal: Broken failed with ValueError('a bug') and is left out from here on; the run goes on",
        "shoal: member 0 stopped",
    ]


class Broken(Sink):
    def receive(self, event):
        raise ValueError("a bug")


class Heard(Sink):
    def __init__(self):
        self.warnings = []

    def receive(self, event):
        if isinstance(event, Message) and event.is_warning:
            self.warnings.append(event.text)


def wait(condition):
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_tracker_that_did_not_answer_is_waited_for_once(limit, monkeypatch):
    monkeypatch.setattr(sending, "SHORT", 0.1)
    monkeypatch.setattr(sending.TrackerSink, "unanswered", set())
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.01)
    tracker, waits = Silent(), []
    for hangs in (True, True, False, True):  # the third run is sent, so the fourth waits as long as the first
        tracker.hangs.clear() if hangs else tracker.hangs.set()
        sink = Trials(tracker)
        began = time.monotonic()
        heard = send(sink, [trial(0), Closed()])
        waits.append(time.monotonic() - began > 0.9)
        assert ("Memory does not have" in heard[-1]) == hangs if heard else not hangs
    assert waits == [True, False, False, True]


class Interrupted(Memory):
    """A server that does not answer; the user presses Ctrl-C while it is waited for."""

    title = "Interrupted"

    def connect(self):
        time.sleep(0.7)  # until the run has ended
        signal.raise_signal(signal.SIGINT)
        time.sleep(60)


def test_ctrl_c_says_of_every_tracker_what_it_does_not_have():
    trackers = [Silent(), Interrupted(), Silent()]
    listener = Heard()
    sinks = Sinks([listener, *(Trials(tracker) for tracker in trackers)])
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sinks.receive(trial(0))
        sinks.receive(Closed())
    assert time.monotonic() - began < 5.0
    assert len(listener.warnings) == 3 and all("it was interrupted" in text for text in listener.warnings)
