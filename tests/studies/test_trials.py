"""The trials of a study for one worker: ask, report, tell, limits, and taking over from dead workers."""

import subprocess
import sys
import threading
import time
from collections import Counter

import optuna
import pytest
from optuna.trial import TrialState

import fake_worker
from fake_worker import SPACE
from shoal.studies.errors import WorkerError
from shoal.studies.heartbeat import UnchangedTimer
from shoal.studies.storage import open_study
from shoal.studies.trial_states import FAIL, PRUNED, RETRY_OF, WAITING, trials_of
from shoal.studies.trials import TrialStore


def new_study(storage="memory", pruner=None, directions=("maximize",), sampler=None):
    sampler = sampler or optuna.samplers.RandomSampler(seed=0)
    return open_study(storage, "study", {"agent": "ppo"}, directions, sampler, pruner or optuna.pruners.NopPruner())


@pytest.fixture
def study():
    return new_study()


@pytest.fixture
def journal(tmp_path):
    return f"journal:{tmp_path}/study.log"


def states(study):
    return [t.state.name for t in study.trials]


def stop_beating(store):
    """As if the worker's process were killed: its heartbeat stands still, and nothing is written any more."""
    store._heartbeat._ended.set()
    store._heartbeat._thread.join()


def search_until(store, condition):
    """Let a worker search for dead workers, as it does between chunks, until a condition holds."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        store.heartbeat()
        time.sleep(0.05)


def test_tpe_avoids_a_trial_that_diverged_late_with_a_high_score():
    """Of 20 finished trials TPE takes the best two for good ones, and only one is complete."""
    study, space = new_study(sampler=optuna.samplers.TPESampler(seed=0)), {"rate": SPACE["rate"]}
    with TrialStore(study, space, trials=20) as store:
        for number in range(20):
            params = {"rate": 9e-2 if number == 7 else 1e-4 * 1.1**number}
            study.add_trial(optuna.trial.create_trial(state=TrialState.RUNNING, params=params, distributions=space))
            for step in range(1, 10 if number == 7 else 2):
                store.report(number, step, float(step))
            if number == 3:
                store.tell(number, 5.0)
            else:
                store.tell(number, None, PRUNED, "diverged" if number == 7 else "")
    assert study.trials[7].constraints == {"diverged": 1.0} and study.trials[8].constraints == {}
    suggested = [study.ask(space).params["rate"] for _ in range(20)]
    assert sum(rate > 3e-2 for rate in suggested) <= 2
    assert study.best_trial.number == 3


def test_a_study_finishes_exactly_the_trials_that_were_asked_for(study):
    with TrialStore(study, SPACE, trials=5) as store:
        first = store.ask(3)
        assert store.remaining() == 2
        second = store.ask(10)
        assert [t.number for t in first + second] == [0, 1, 2, 3, 4]
        assert store.remaining() == 0 and not store.is_over()
        for trial in first + second:
            assert store.tell(trial.number, trial.params["width"])
        assert store.is_over() and store.ask(1) == []
    assert states(study) == ["COMPLETE"] * 5
    assert [t.values for t in study.trials] == [[t.params["width"]] for t in study.trials]
    assert {t.user_attrs["worker"] for t in study.trials} == {"w0"}


def test_a_study_can_be_made_longer(study):
    with TrialStore(study, SPACE, trials=2) as store:
        for trial in store.ask(2):
            store.tell(trial.number, 1.0)
    with TrialStore(study, SPACE, trials=5) as store:
        assert store.remaining() == 3
        assert len(store.ask(10)) == 3


def test_what_was_reported_or_told_before_is_skipped(study):
    with TrialStore(study, SPACE, trials=2) as store:
        number = store.ask(1)[0].number
        assert store.report(number, 1, 0.5) and store.report(number, 1, 0.75)
        assert study.trials[number].intermediate_values == {1: 0.5}
        assert store.tell(number, None, PRUNED)
        assert not store.tell(number, 1.0) and not store.report(number, 1, 1.0) and not store.report(number, 2, 1.0)
    assert study.trials[number].state is TrialState.PRUNED and study.trials[number].value == 0.5


def test_a_failed_trial_does_not_count_and_is_not_tried_again(study):
    with TrialStore(study, SPACE, trials=2, grace=0.2) as store:
        store.tell(store.ask(1)[0].number, None, FAIL, "out of memory")
        store.tell(store.ask(1)[0].number, 1.0)
        store._take_over()
        store._take_over()
        assert store.remaining() == 1
        assert [t.number for t in store.ask(5)] == [2]
    assert study.trials[0].user_attrs["failed"] == "out of memory"


@pytest.mark.parametrize("value", [float("nan"), None, [1.0, 2.0]])
def test_a_value_that_is_not_one_number_is_refused(study, value):
    with TrialStore(study, SPACE, trials=1) as store:
        number = store.ask(1)[0].number
        with pytest.raises(ValueError, match="trial 0: .* is not one number for each of the 1 objectives"):
            store.tell(number, value)
        assert store.tell(number, 1.0)


def test_several_objectives():
    study = new_study(directions=("maximize", "minimize"))
    with TrialStore(study, SPACE, trials=2) as store:
        one, other = store.ask(2)
        assert store.report(one.number, 1, 3.0) and not store.should_prune(one.number)
        assert store.tell(one.number, (3.0, 4.0)) and store.tell(other.number, None, PRUNED)
        assert store.is_over()
    assert study.trials[0].values == [3.0, 4.0] and study.trials[0].intermediate_values == {1: 3.0}


def test_the_pruner_decides_from_the_reports():
    study = new_study(pruner=optuna.pruners.ThresholdPruner(lower=0.0))
    with TrialStore(study, SPACE, trials=2) as store:
        good, bad = store.ask(2)
        store.report(good.number, 1, 1.0)
        store.report(bad.number, 1, -1.0)
        assert not store.should_prune(good.number) and store.should_prune(bad.number)


def test_waiting_trials_come_first_and_keep_their_parameters(study):
    study.enqueue_trial({"width": 5, "rate": 0.01})
    study.enqueue_trial({"width": 4})
    with TrialStore(study, SPACE, trials=3) as store:
        first, second, _ = store.ask(3)
    assert first.params == {"rate": 0.01, "width": 5} and second.params["width"] == 4


def test_of_more_waiting_trials_than_asked_for_the_first_are_trained(study):
    for width in (1, 2, 3, 4):
        study.enqueue_trial({"width": width})
    with TrialStore(study, SPACE, trials=2) as store:
        assert [t.params["width"] for t in store.ask(5)] == [1, 2]
    assert states(study) == ["RUNNING", "RUNNING", "WAITING", "WAITING"]


def test_a_sampler_sees_the_trials_of_its_batch():
    """Optuna's study keeps a list of trials from one `ask` to the next; TPE's constant liar needs the running ones."""
    seen = []

    class Counting(optuna.samplers.RandomSampler):
        def sample_independent(self, study, trial, name, distribution):
            seen.append(len(study._get_trials(deepcopy=False, use_cache=True)))
            return super().sample_independent(study, trial, name, distribution)

    with TrialStore(new_study(sampler=Counting(seed=0)), {"width": SPACE["width"]}, trials=9) as store:
        store.ask(3)
    assert seen == [1, 2, 3]


def test_workers_that_ask_at_once_start_no_trial_too_many(study):
    """Both see room for one trial, and both create one: the later one is withdrawn."""
    with TrialStore(study, SPACE, trials=3, worker="w0") as one, TrialStore(study, SPACE, trials=3, worker="w1") as two:
        one.tell(one.ask(1)[0].number, None, FAIL)  # so that numbers no longer say how many there are
        one.ask(2)
        first, second = one._create(), two._create()
        assert one._suggested(first) is not None and two._suggested(second) is None
    assert states(study) == ["FAIL", "RUNNING", "RUNNING", "RUNNING", "FAIL"]
    assert study.trials[4].user_attrs["failed"] == "the study had enough trials"
    assert [trial.number for trial in trials_of(study)] == [0, 1, 2, 3]


def test_trials_of_a_dead_worker_are_taken_over_by_exactly_one_other(journal):
    said = []
    study = new_study(journal)
    dead = TrialStore(study, SPACE, trials=2, worker="dead", grace=1.0)
    dead.__enter__()
    lost = dead.ask(2)
    dead.note(0, group=7)
    dead.report(0, 1, 0.5)
    stop_beating(dead)
    others = [TrialStore(new_study(journal), SPACE, 2, f"w{i}", 1.0, said.append) for i in range(2)]
    with others[0], others[1]:
        assert others[0].ask(5) == []
        search_until(others[0], lambda: len(said) == 2)
        search_until(others[1], lambda: "dead" in others[1]._heartbeat._dead)
        others[1]._take_over()
        others[1]._take_over()
        assert others[0].remaining() == 2
        again = others[0].ask(1) + others[1].ask(5)
        assert [t.params for t in again] == [t.params for t in lost]
        assert not dead.report(0, 2, 0.5) and not dead.tell(0, 1.0), "the worker comes back: its trials are gone"
        assert others[0].tell(again[0].number, 1.0) and others[1].tell(again[1].number, 2.0)
        assert others[0].is_over() and dead.ask(1) == []
    found = study.trials
    assert states(study) == ["FAIL", "FAIL", "COMPLETE", "COMPLETE"]
    assert [t.user_attrs for t in found[2:]] == [{"worker": f"w{i}", RETRY_OF: i} for i in range(2)]
    assert found[2].intermediate_values == {} and found[0].intermediate_values == {1: 0.5}
    assert said == [f"worker dead died; its trial {i} is tried again" for i in range(2)]


def test_a_trial_whose_worker_died_four_times_has_failed(study):
    said = []
    for count in range(1, 5):
        with TrialStore(study, SPACE, trials=2, worker=f"dead{count}", say=said.append) as store:
            lost = store.ask(1)[0]
            assert len(study.trials) == count
        store._interrupt(study.trials[lost.number], store.worker)
    with TrialStore(study, SPACE, trials=2) as store:
        store._take_over()
        store._take_over()
        assert [t.number for t in store.ask(5)] == [4, 5], "two other trials: the failed one does not count"
    assert states(study) == ["FAIL"] * 4 + ["RUNNING"] * 2
    assert [t.user_attrs.get(RETRY_OF) for t in study.trials] == [None, 0, 1, 2, None, None]
    assert [t.user_attrs.get("failed") for t in study.trials[:4]] == [None] * 3 + [
        "its worker died 4 times without a new record"
    ]
    assert said[:3] == [f"worker dead{i + 1} died; its trial {i} is tried again" for i in range(3)]
    assert said[3:] == [
        "worker dead4 died; its trial 3 has failed and is not tried again: its worker died 4 times without a new record"
    ]


def die(study, worker, said, records=0):
    """A process begins or goes on with the one trial of its name, adds scores of records, and dies. Its trials."""
    store = TrialStore(study, SPACE, trials=1, worker=worker, say=said.append)
    store.__enter__()
    own = [*store.own_running()] or [trial.number for trial in store.ask(1)]
    begun = len(study.trials[own[0]].intermediate_values)
    for record in range(begun + 1, begun + 1 + records):
        assert store.report(own[0], record, 0.5)
    stop_beating(store)
    study.set_user_attr(f"worker:{worker}", {**study.user_attrs[f"worker:{worker}"], "process": 0, "began": -1})
    return own


def test_a_trial_whose_worker_died_four_times_and_came_back_has_failed(study):
    """Two processes of one name die with a trial, and two with the copy that another worker takes over."""
    said = []
    assert [die(study, "one", said), die(study, "one", said)] == [[0], [0]]
    with TrialStore(study, SPACE, trials=1, worker="other", say=said.append) as store:
        store._interrupt(study.trials[0], "one")
    assert [die(study, "two", said), die(study, "two", said)] == [[1], [1]]
    with TrialStore(study, SPACE, trials=1, worker="two", say=said.append) as store:
        assert store.own_running() == {} and [trial.number for trial in store.ask(5)] == [2]
    assert states(study) == ["FAIL", "FAIL", "RUNNING"]
    assert [trial.user_attrs.get("failed") for trial in study.trials] == [
        None,
        "its worker died 4 times without a new record",
        None,
    ]
    assert said[1:] == ["the trial 1 has failed and is not tried again: its worker died 4 times without a new record"]


def test_a_trial_that_comes_further_between_the_deaths_of_its_worker_does_not_fail(study):
    """As on machines that are taken away every hour. The copy begins again; it must come further than the first one."""
    said = []
    for _ in range(6):
        assert die(study, "one", said, records=1) == [0]
    with TrialStore(study, SPACE, trials=1, worker="other", say=said.append) as store:
        store._interrupt(study.trials[0], "one")
    assert [die(study, "two", said, records=number) for number in (5, 2)] == [[1], [1]]  # 6 records, then 5 and 7
    assert [die(study, "two", said) for _ in range(3)] == [[1]] * 3 and states(study) == ["FAIL", "RUNNING"]
    assert [die(study, "two", said)] == [[2]] and states(study) == ["FAIL", "FAIL", "RUNNING"]


def test_a_worker_that_only_leaves_keeps_its_trials_for_the_grace_period(journal):
    with TrialStore(new_study(journal), SPACE, trials=1, worker="w0") as store:
        asked = store.ask(1)
    with TrialStore(new_study(journal), SPACE, trials=1, worker="w1") as other:
        other._take_over()
        assert other.ask(1) == []
    with TrialStore(new_study(journal), SPACE, trials=1, worker="w0") as store:
        assert store.own_running() == {0: asked[0].params}


def test_a_kill_between_failing_and_copying_loses_no_trial(study, monkeypatch):
    with TrialStore(study, SPACE, trials=1, worker="dead") as dead:
        params = dead.ask(1)[0].params
    study._storage.set_trial_state_values(study.trials[0]._trial_id, FAIL)  # and then that worker was killed
    with TrialStore(study, SPACE, trials=1, worker="w0") as store:
        assert store.ask(1) == [], "it still has its place"
        store._take_over()
        assert states(study) == ["FAIL", "WAITING"]
        assert [t.params for t in store.ask(5)] == [params]


def test_of_two_copies_of_a_trial_one_is_trained(study):
    with TrialStore(study, SPACE, trials=1, worker="dead") as dead:
        dead.ask(1)
    study._storage.set_trial_state_values(study.trials[0]._trial_id, FAIL)
    with TrialStore(study, SPACE, trials=1) as store:
        for _ in range(2):  # two workers found that it had none
            store._copy(study.trials[0])
        assert [t.number for t in store.ask(5)] == [1]
    assert states(study) == ["FAIL", "RUNNING", "FAIL"]


def test_a_trial_that_was_killed_before_it_had_an_owner_or_parameters_is_tried_again(study):
    study.ask()
    with TrialStore(study, SPACE, trials=1, grace=0.2) as store:
        search_until(store, lambda: len(study.trials) == 2)
        (trial,) = store.ask(1)
    assert set(trial.params) == set(SPACE) and study.trials[1].user_attrs[RETRY_OF] == 0


def test_a_worker_that_was_killed_while_it_asked_completes_the_parameters(study):
    trial = study.ask()
    width = trial.suggest_int("width", 1, 5)
    trial.set_user_attr("worker", "w0")
    with TrialStore(study, SPACE, trials=1) as store:
        params = store.own_running()[0]
    assert params["width"] == width and set(params) == set(SPACE)


def test_a_worker_that_was_killed_while_it_told_a_failure_does_not_train_it_again(study):
    trial = study.ask()
    trial.set_user_attr("worker", "w0")
    trial.set_user_attr("failed", "told")
    with TrialStore(study, SPACE, trials=1) as store:
        assert store.own_running() == {}
    assert states(study) == ["FAIL"]


class Killed(BaseException):
    """A process was killed here."""


class Watched:
    """A storage that does something before each of its calls in the thread that made it."""

    def __init__(self, storage, act):
        """`act` is called with the number of the call, from 0."""
        self._storage, self._act, self._calls, self._thread = storage, act, 0, threading.current_thread()

    def __getattr__(self, name):
        found = getattr(self._storage, name)
        return (lambda *args, **options: self._call(found, *args, **options)) if callable(found) else found

    def _call(self, method, *args, **options):
        if threading.current_thread() is self._thread:
            self._calls += 1
            self._act(self._calls - 1)
        return method(*args, **options)


def finish(store):
    """Train all of a study's trials in one worker, for which the worker "one" and those without a name are dead."""
    store._heartbeat.is_dead = lambda worker, number: worker in (None, "one")
    todo = [*store.own_running()]
    for _ in range(10):
        for number in todo:
            store.tell(number, 1.0)
        store._take_over()
        if store.is_over():
            return
        todo = [trial.number for trial in store.ask(4)]
    raise AssertionError(
        "the study does not end:\n" + "\n".join(f"{t.number} {t.state.name} {t.user_attrs}" for t in store._trials())
    )


def kill(other_asks, killed, back, begin):
    """Kill a worker before a call of its storage while it asks, after another one asked; then finish the study.

    `back`: the killed worker comes back; else the other one takes over its trials. Returns the study and whether the
    worker had ended before.
    """
    study = new_study()
    begin(study)
    with TrialStore(study, SPACE, trials=2, worker="other") as other:
        todo = []

        def act(call):
            if call == other_asks:
                todo.extend(other.ask(1))
            if call == killed:
                raise Killed

        watched = optuna.load_study(study_name="study", storage=study._storage, sampler=study.sampler)
        store = TrialStore(watched, SPACE, trials=2, worker="one")
        store.__enter__()
        watched._storage = store._storage = Watched(study._storage, act)
        survived = True
        try:
            store.ask(2)
        except Killed:
            survived = False
        stop_beating(store)
        study.set_user_attr("worker:one", {**study.user_attrs["worker:one"], "process": 0, "began": -1})
        for trial in todo:
            other.tell(trial.number, 1.0)
        if back:
            with TrialStore(study, SPACE, trials=2, worker="one") as again:
                finish(again)
        finish(other)
    return study, survived


def interrupt_one(study):
    """Begin with a trial whose worker died before it was copied, and of which two workers made copies."""
    with TrialStore(study, SPACE, trials=2, worker="dead") as dead:
        dead.ask(1)
        study._storage.set_trial_state_values(study.trials[0]._trial_id, FAIL)
        dead._copy(study.trials[0])
        dead._copy(study.trials[0])


@pytest.mark.parametrize("back", [True, False], ids=["back", "taken over"])
@pytest.mark.parametrize("begin", [lambda study: None, interrupt_one], ids=["new", "copies"])
def test_a_kill_at_any_call_of_the_storage_trains_no_trial_too_many(begin, back):
    for other_asks in range(100):
        for killed in range(other_asks, 100):
            study, survived = kill(other_asks, killed, back, begin)
            found = Counter(t.state.name for t in study.trials)
            story = f"the other one asks at call {other_asks}, killed at call {killed}: {found}"
            assert found["COMPLETE"] == 2 and found["RUNNING"] == found["WAITING"] == 0, story
            if survived:
                break
        if other_asks == killed:
            return
    raise AssertionError("more calls than were tried")


def test_two_running_workers_with_one_name_are_refused(journal):
    second = TrialStore(new_study(journal), SPACE, trials=1)
    taken = "a worker with the name 'w0' runs already: process .* another name"
    with TrialStore(new_study(journal), SPACE, trials=1), pytest.raises(WorkerError, match=taken):
        second.__enter__()
    with TrialStore(new_study(journal), SPACE, trials=1) as store:
        assert len(store.ask(1)) == 1


def test_a_name_of_another_machine_is_free_once_its_heartbeat_stands_still(study):
    said = []
    away = TrialStore(study, SPACE, trials=1, grace=1.0)
    away._heartbeat._place.update(host="elsewhere", machine="another")
    away.__enter__()
    with pytest.raises(WorkerError, match="on elsewhere"):
        TrialStore(study, SPACE, trials=1, grace=1.0, say=said.append).__enter__()
    stop_beating(away)
    with TrialStore(study, SPACE, trials=1, grace=1.0) as store:
        assert len(store.ask(1)) == 1
    assert said == ["worker 'w0' ran on elsewhere; watching 0 s whether it still does"]


def test_a_worker_whose_name_was_taken_stops(study):
    """Two processes that start at the same moment both find the name free; the one that wrote first sees the other."""
    with TrialStore(study, SPACE, trials=1) as store:
        record = {**store._heartbeat._place, "token": "of another", "count": 1, "interval": 15.0, "left": False}
        study.set_user_attr("worker:w0", record)
        store._heartbeat._watch()
        with pytest.raises(WorkerError, match="runs already"):
            store.ask(1)
    assert study.user_attrs["worker:w0"] == record


def test_time_in_which_nobody_looked_does_not_count_as_standing_still():
    still = UnchangedTimer(longest=2.0)
    assert [still.unchanged("w0", 1, now) for now in (0.0, 1.0, 100.0, 101.0)] == [0.0, 1.0, 3.0, 4.0]
    assert still.unchanged("w0", 2, 102.0) == 0.0


def test_nothing_but_the_heartbeat_grows_while_a_worker_waits(journal, tmp_path):
    with TrialStore(new_study(journal), SPACE, trials=1) as store:
        store.ask(1)
        before = (tmp_path / "study.log").stat().st_size
        for _ in range(100):
            store.heartbeat()
            store.ask(1)
        assert (tmp_path / "study.log").stat().st_size == before


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.timeout(900)
def test_no_kill_loses_a_trial_or_tells_it_twice(tmp_path, journal, kills):
    trials = 12 * kills
    fake_worker.kill_at_random(journal, tmp_path, trials, kills, seed=kills)
    fake_worker.check_all_counted(journal, tmp_path / "told", trials)


@pytest.mark.slow
def test_a_study_whose_workers_were_all_killed_goes_on(tmp_path, journal):
    told = tmp_path / "told"
    workers = [fake_worker.start(journal, f"w{i}", 20, told) for i in range(2)]
    fake_worker.wait_for(lambda: told.exists() and len(told.read_text().split()) >= 3)
    for worker in workers:
        worker.kill()
        worker.wait()
    running = states(fake_worker.open_fake(journal)).count("RUNNING")
    assert running > 0
    workers = [fake_worker.start(journal, f"w{i}", 20, told, grace=60.0) for i in range(2)]
    assert [worker.wait(fake_worker.PATIENCE) for worker in workers] == [0, 0]
    fake_worker.check_all_counted(journal, told, 20)
    adopted = [(tmp_path / f"w{i}.txt").read_text() for i in range(2)]
    assert sum(int(line.split()[1]) for text in adopted for line in text.splitlines() if "adopted" in line) == running


def test_the_parts_of_a_study_are_not_imported_with_shoal():
    done = "import sys, shoal; print([m for m in ('optuna', 'sqlalchemy', 'psycopg') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", done], capture_output=True, text=True).stdout == "[]\n"


def test_places_count_a_trial_and_its_copies_once(study):
    """0 is interrupted and copied as 2, 1 failed for good, 2 runs, 3 waits: two places, those of 0 and 3."""
    with TrialStore(study, SPACE, trials=4) as store:
        store.ask(2)
        store.tell(1, None, FAIL)
        study._storage.set_trial_state_values(study.trials[0]._trial_id, FAIL)
        store._copy(study.trials[0])
        store.ask(1)
        study.add_trial(optuna.trial.create_trial(state=WAITING))
        assert Counter(states(study)) == {"FAIL": 2, "RUNNING": 1, "WAITING": 1}
        assert store.remaining() == 3 and len(store.ask(9)) == 3


def test_a_trial_that_the_storage_has_lost_is_not_held(study):
    """As after a damaged journal was cut off: a checkpoint knows trials that the storage does not have."""
    with TrialStore(study, SPACE, trials=2) as store:
        assert store.note(store.ask(1)[0].number, group="group-0") and not store.note(7, group="group-0")
