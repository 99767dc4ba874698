"""Where Optuna's own heartbeats, retries and journal break a promise of a study that ours keep (docs/architecture.md).

The promise on resume: no trial is lost, none is told twice. A first test shows how Optuna 5 breaks it; the second, that
ours holds in the same place. If a first test fails with a newer Optuna, ours may not be needed any more.
"""

import json
import os
import time

import optuna
import pytest
from optuna.storages import JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from fake_worker import SPACE
from shoal.studies.errors import StorageError
from shoal.studies.storage import open_study
from shoal.studies.trial_states import RETRY_OF, waiting_copy
from shoal.studies.trials import TrialStore

pytestmark = [
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
    pytest.mark.filterwarnings("ignore:.*heartbeat:UserWarning", "ignore::ResourceWarning"),
]
TORN = b'{"op_code":7,"worker_id":"x","trial'  # what a kill, or a full disk, leaves of a line


def of_optuna(path):
    """A study in Optuna's own journal."""
    storage = JournalStorage(JournalFileBackend(str(path)))
    return optuna.create_study(storage=storage, study_name="study", load_if_exists=True)


def of_ours(path):
    return open_study(f"journal:{path}", "study", {}, ["minimize"])


def told_after_a_torn_line(path, opened):
    """Tell a trial, tear the next line, tell another trial, and return the values that the next process reads."""
    study = opened(path)
    first, second = study.ask(), study.ask()
    study.tell(first, 1.0)
    with open(path, "ab") as file:
        file.write(TORN)
    study.tell(second, 2.0)
    return [trial.value for trial in opened(path).trials]


def test_after_a_torn_line_optuna_loses_the_study(tmp_path):
    with pytest.raises((ValueError, KeyError)):  # the second trial is glued to the torn line
        told_after_a_torn_line(tmp_path / "s.log", of_optuna)


def test_after_a_torn_line_we_lose_nothing(tmp_path):
    assert told_after_a_torn_line(tmp_path / "s.log", of_ours) == [1.0, 2.0]


def told_on_a_full_disk(path, opened, monkeypatch):
    """Tell a trial while the disk is full, and again when it has room. Returns the values that a process then reads."""
    study = opened(path)
    trial = study.ask()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        patch.setattr(os, "write", lambda file, text: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space left"):
            study.tell(trial, 1.0)
    study.tell(trial, 1.0)
    return [trial.value for trial in opened(path).trials]


def test_on_a_full_disk_optuna_tells_what_it_said_it_could_not(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="Cannot tell a COMPLETE trial"):
        told_on_a_full_disk(tmp_path / "s.log", of_optuna, monkeypatch)


def test_on_a_full_disk_we_tell_a_trial_once(tmp_path, monkeypatch):
    assert told_on_a_full_disk(tmp_path / "s.log", of_ours, monkeypatch) == [1.0]


def score_after_a_changed_digit(path, opened):
    study = opened(path)
    study.tell(study.ask(), 123.0)
    path.write_bytes(path.read_bytes().replace(b"123.0", b"923.0"))
    return opened(path).trials[0].value


def test_a_changed_digit_is_another_score_for_optuna(tmp_path):
    assert score_after_a_changed_digit(tmp_path / "s.log", of_optuna) == 923.0


def test_a_changed_digit_is_an_error_for_us(tmp_path):
    with pytest.raises(StorageError, match="damaged"):
        score_after_a_changed_digit(tmp_path / "s.log", of_ours)


@pytest.fixture
def beating(tmp_path):
    """A study with Optuna's heartbeats and retries, whose trials may stand still for a second."""

    def retried(study, trial):
        calls.append(trial.number)
        retry(study, trial)

    calls: list[int] = []
    retry = RetryHeartbeatStaleTrialCallback(max_retry=3)
    url = f"sqlite:///{tmp_path}/s.db"
    storage = RDBStorage(url, heartbeat_interval=1, grace_period=1, heartbeat_stale_trial_callback=retried)
    yield optuna.create_study(storage=storage), calls
    storage.engine.dispose()


def stale(study):
    """A trial of a worker that died, as its last heartbeat says."""
    trial = study.ask(SPACE)
    study._storage.record_heartbeat(trial._trial_id)
    time.sleep(2.1)
    return trial


def test_optuna_loses_a_trial_whose_saver_dies_before_it_makes_the_copy(beating, monkeypatch):
    study, calls = beating
    stale(study)
    with monkeypatch.context() as patch:
        patch.setattr(study, "add_trial", lambda trial: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fail_stale_trials(study)
    fail_stale_trials(study)  # another worker looks, as every one does
    assert calls == [0] and [trial.state for trial in study.trials] == [TrialState.FAIL]


def test_we_copy_a_trial_whose_saver_died_before_it_made_the_copy():
    study = open_study("memory", "study", {}, ["minimize"])
    with TrialStore(study, SPACE, trials=1, worker="dead") as dead:
        dead.ask(1)
    study._storage.set_trial_state_values(study.trials[0]._trial_id, TrialState.FAIL)
    with TrialStore(study, SPACE, trials=1) as store:
        for _ in range(2):
            store._take_over()
    assert [trial.state for trial in study.trials] == [TrialState.FAIL, TrialState.WAITING]


def test_optuna_never_finds_a_trial_that_was_asked_for_and_whose_worker_died(beating, tmp_path):
    """Its heartbeats are those of `Study.optimize`, in databases: not of `ask`, as slots need it, nor in a journal."""
    study, calls = beating
    study.ask(SPACE)
    journal = of_optuna(tmp_path / "s.log")
    journal.ask(SPACE)
    time.sleep(2.1)
    for each in (study, journal):
        fail_stale_trials(each)
        assert [trial.state for trial in each.trials] == [TrialState.RUNNING]


def test_we_find_a_trial_in_a_slot_whose_worker_died(tmp_path):
    study = of_ours(tmp_path / "s.log")
    dead = TrialStore(study, SPACE, trials=1, worker="dead", grace=0.3)
    dead.__enter__().ask(1)
    dead._heartbeat._ended.set()  # as if its process were killed
    end = time.monotonic() + 30
    with TrialStore(study, SPACE, trials=1, grace=0.3) as store:
        while len(study.trials) < 2 and time.monotonic() < end:
            store.heartbeat()
            time.sleep(0.05)
    assert [trial.state.name for trial in study.trials] == ["FAIL", "WAITING"]


def test_optuna_gives_a_trial_up_that_comes_further_with_every_worker():
    """As on machines that are taken away every hour: four of them, and each brought it further."""
    study = optuna.create_study()
    retry = RetryHeartbeatStaleTrialCallback(max_retry=3)
    for life in range(4):
        trial = study.ask(SPACE)
        for record in range(life + 1):
            trial.report(0.5, record)
        study.tell(trial, state=TrialState.FAIL)
        retry(study, study.trials[-1])
    assert [trial.state.name for trial in study.trials] == ["FAIL"] * 4  # and no copy waits


def test_we_go_on_with_a_trial_that_comes_further_with_every_worker():
    study = open_study("memory", "study", {}, ["minimize"])
    for life in range(6):
        with TrialStore(study, SPACE, trials=1, worker=f"w{life}") as store:
            (trial,) = store.ask(1)
            for record in range(life + 1):
                store.report(trial.number, record, 0.5)
            store._interrupt(study.trials[trial.number], f"w{life}")
    assert study.trials[-1].state is TrialState.WAITING and study.trials[-1].user_attrs[RETRY_OF] == 5


def interrupted_after_a_rung():
    """A trial that successive halving has compared at its first rung, and whose worker died."""
    study = optuna.create_study(pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2))
    trial = study.ask(SPACE)
    trial.report(0.5, 1)
    trial.should_prune()
    study.tell(trial, state=TrialState.FAIL)
    return study


def rungs(study):
    return [value for trial in study.trials for name, value in trial.system_attrs.items() if "rung" in name]


def test_optuna_counts_the_rung_of_an_interrupted_trial_twice():
    study = interrupted_after_a_rung()
    RetryHeartbeatStaleTrialCallback()(study, study.trials[0])
    assert rungs(study) == [0.5, 0.5]


def test_we_count_the_rung_of_an_interrupted_trial_once():
    study = interrupted_after_a_rung()
    study.add_trial(waiting_copy(study.trials[0]))
    assert rungs(study) == [0.5] and json.dumps(study.trials[1].user_attrs) == '{"retry_of": 0}'
