"""Studies in experiment trackers: every trial once, after a stop too, from several workers, and from a folder later."""

import json
import math
import os
import shutil

import jax
import pytest

import shoal
from commands import refused, say
from listeners import Interrupt, Listener
from shoal.studies.tracked_study import closing, numbers_of, study_sinks, study_tracking, variables_for_workers
from shoal.studies.tune import tune
from shoal.tracking import background
from shoal.tracking.events import Finished, Searched, Sinks
from shoal.tracking.mlflow import Mlflow
from shoal.tracking.request import Tracking
from shoal.training.folder import RunFolder
from shoal.training.stopping import Stopped
from stores import client, history, runs_in, with_store

EXPERIMENT = "q-learning/Blackjack-v1"
RATES = [0.05, 0.1, 0.4, 0.8]
OPTIONS = {
    "search": {"learning_rate": RATES},
    "parallel": 2,
    "seeds": 2,
    "steps": 3 * 64,
    "records": 3,
    "sampler": "grid",
    "pruner": "none",
    "fields": {"num_steps": 32, "discount": 1.0},
    "progress": False,
}
RESULTS = {"fresh_seeds": 0, "figures": False}

pytestmark = pytest.mark.filterwarnings(
    "ignore:::mlflow", "ignore:::sqlalchemy", "ignore:::pydantic", "ignore:::google"
)


@pytest.fixture(scope="module")
def made(made_store, tmp_path_factory):
    """(a study that was stopped after its first two trials and then went on, the MLflow runs at the stop, messages)."""
    pytest.importorskip("tensorboard")
    root = with_store(made_store, tmp_path_factory.mktemp("tracked") / "runs")
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    track = Tracking("mlflow,tensorboard", tags={"idea": "first"})
    with jax.numpy_dtype_promotion("standard"):
        with pytest.raises(Stopped):
            tune(
                "q-learning",
                "Blackjack-v1",
                root=root,
                name="cut",
                sinks=[Interrupt(4, Searched)],
                track=track,
                **OPTIONS,
            )
        stopped, listener = runs_in(root, EXPERIMENT), Listener()
        return tune(resume=root / "cut", progress=False, sinks=[listener], **RESULTS), stopped, listener.heard


@pytest.fixture
def copy(made, root):
    """A copy of the study's folder beside an empty store, as if it had not been tracked."""
    folder = root / "copy"
    shutil.copytree(made[0].folder, folder, ignore=shutil.ignore_patterns("tracking.json", "tensorboard"))
    return folder


def assert_complete(root, name, trials):
    """The store has the study and a child for each trial, with the values of the study's storage, each point once."""
    runs = runs_in(root, EXPERIMENT)
    main = runs.pop(name)
    assert len(runs) == len(trials) and main.info.status == "FINISHED"
    assert sorted(history(root, main, "score")) == [(t.number, t.value) for t in trials]
    for trial in trials:
        child = runs[f"trial {trial.number:04d}"]
        assert child.info.status == "FINISHED" and child.data.tags["mlflow.parentRunId"] == main.info.run_id
        assert child.data.params == {"learning_rate": str(trial.params["learning_rate"])}
        curve = [(64 * record, score) for record, score in trial.intermediate_values.items()]  # 192 steps in 3 records
        assert history(root, child, "score") == curve and child.data.tags["worker"] == trial.user_attrs["worker"]
        assert child.data.metrics["seconds"] > 0
    return main


def scalars(folder, name):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return [(event.step, event.value) for event in found.Scalars(name)]


def test_a_study_that_goes_on_has_every_trial_once_in_mlflow(made):
    result, stopped, _ = made
    root, trials = result.folder.parent, result.study.get_trials()
    assert set(stopped) == {"cut", "trial 0000", "trial 0001"} and stopped["cut"].info.status == "KILLED"
    assert len(trials) == 4
    main = assert_complete(root, "cut", trials)
    assert main.info.run_id == stopped["cut"].info.run_id
    params, tags = main.data.params, main.data.tags
    assert params["search.learning_rate"] == "{_values_: [0.05, 0.1, 0.4, 0.8]}".replace("_", '"')
    assert (params["agent"], params["sampler"], params["trials"], tags["idea"]) == ("q-learning", "grid", "4", "first")
    assert main.data.metrics["best_score"] == max(trial.value for trial in trials)
    assert main.data.metrics["trials/complete"] == 4
    files = {item.path for item in client(root).list_artifacts(main.info.run_id)}
    assert files == {"trials.csv", "study.json", "summary.json"}


def test_tensorboard_reads_the_same_back(made):
    result, *_ = made
    board, trials = result.folder / "tensorboard", result.study.get_trials()
    expected = [(trial.number, pytest.approx(trial.value)) for trial in trials]
    assert sorted(scalars(board, "score")) == expected
    assert {path.name for path in board.iterdir() if path.is_dir()} == {f"trial-{n}" for n in range(4)}
    for trial in trials:
        curve = [(64 * record, pytest.approx(score)) for record, score in trial.intermediate_values.items()]
        assert scalars(board / f"trial-{trial.number}", "score") == curve


def test_the_folder_says_where_the_study_is(made):
    result, stopped, heard = made
    notes = json.loads((result.folder / "tracking.json").read_text())
    assert notes["to"] == ["mlflow", "tensorboard"] and notes["tags"] == {"idea": "first"}
    assert notes["sent"]["mlflow"]["run_id"] == stopped["cut"].info.run_id and notes["sent"]["mlflow"]["complete"]
    assert f"MLflow: sqlite:///{result.folder.parent / 'mlflow.db'}" in heard


def test_a_finished_study_can_be_sent_later_and_twice(copy, root, made, capsys):
    assert f"was not tracked so far: say where it is sent, as in `shoal track {copy} --to mlflow`" in refused(
        capsys, "track", copy
    )
    message = refused(capsys, "track", copy, "--to", "mlflow", "--track-children", "members")
    assert "children='members' is for a run: a study has 'trials' or 'none'" in message
    assert not (copy / "tracking.json").exists()
    status, out, err = say(capsys, "track", copy, "--to", "mlflow")
    assert status == 0 and f"MLflow: sqlite:///{root / 'mlflow.db'}" in out, err
    sent = shoal.track(copy)
    main = assert_complete(root, "copy", made[0].study.get_trials())
    assert sent["mlflow"]["run_id"] == main.info.run_id and len(history(root, main, "best_score")) == 1


def test_the_trials_of_all_workers_are_sent_later(copy, root, made):
    log = copy / "study.log"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    begun = [line for line in lines if line.get("user_attr") == {"worker": "w0"}]
    assert len(begun) == 4
    begun[-1]["user_attr"] = {"worker": "w1"}
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for _ in range(2):
        shoal.track(copy, "mlflow,tensorboard")
    trials = shoal.studies.study.StudyResult(copy).study.get_trials()
    assert {trial.user_attrs["worker"] for trial in trials} == {"w0", "w1"}
    assert_complete(root, "copy", trials)
    assert sorted(step for step, _ in scalars(copy / "tensorboard", "score")) == [0, 1, 2, 3]


def test_a_study_of_a_running_worker_is_not_sent(copy, root):
    from shoal.training.claim import locked

    with locked(copy / "workers" / "w0"), pytest.raises(FileExistsError, match="wait for it to end"):
        shoal.track(copy, "mlflow")


def replayed(folder, made, monkeypatch, patience, *, concludes=True):
    """Send the trials of a study as its worker does, to MLflow, and the results if it concludes. Returns messages."""
    monkeypatch.setattr(background, "PATIENCE", patience)
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.01)
    study, listener = made[0].study, Listener()
    trackers = study_sinks(Tracking("mlflow"), folder, made[0].spec, "w0")
    sinks = Sinks([listener, *trackers])
    with closing(trackers, sinks, lambda: study):
        for trial in study.get_trials():
            sinks.receive(trackers[0]._events.of(trial))
        if concludes:
            sinks.receive(Finished(made[0].summary))
    return listener.heard


def test_only_the_worker_that_writes_the_results_ends_the_run_of_the_study(copy, root, made, monkeypatch):
    replayed(copy, made, monkeypatch, 60.0, concludes=False)
    runs = runs_in(root, EXPERIMENT)
    assert runs["copy"].info.status == "RUNNING" and runs["copy"].info.end_time is None
    assert {runs[f"trial {number:04d}"].info.status for number in range(4)} == {"FINISHED"}
    replayed(copy, made, monkeypatch, 60.0)
    assert_complete(root, "copy", made[0].study.get_trials())


def test_a_store_that_stays_away_is_said_with_the_command_that_sends_the_rest(copy, root, made, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Mlflow, "write", lambda *given: (_ for _ in ()).throw(ConnectionError("the server is away")))
        heard = replayed(copy, made, patch, 0.0)
    missing = f"MLflow does not have 4 trials: the server is away. To send it: `shoal track {copy} --to mlflow`"
    assert heard[-1] == missing
    shoal.track(copy)
    assert_complete(root, "copy", made[0].study.get_trials())


def test_a_store_that_comes_back_gets_every_trial_once(copy, root, made, monkeypatch):
    write, calls = Mlflow.write, []

    def fails_at_times(self, key, points):
        calls.append(key)
        if len(calls) in (2, 4):
            raise ConnectionError("the server is away")
        write(self, key, points)

    monkeypatch.setattr(Mlflow, "write", fails_at_times)
    heard = replayed(copy, made, monkeypatch, 60.0)
    assert heard[-1].startswith("MLflow: sqlite") and len(calls) > 5
    assert_complete(root, "copy", made[0].study.get_trials())


def test_workers_that_begin_at_once_agree_on_the_key(tmp_path, made, monkeypatch):
    first = study_sinks(Tracking("tensorboard"), tmp_path, made[0].spec, "w0")
    has, asked = RunFolder.has, []

    def not_at_first(self, name):  # the other worker looks before the first one has written the file
        asked.append(name)
        return len(asked) > 1 and has(self, name)

    monkeypatch.setattr(RunFolder, "has", not_at_first)
    second = study_sinks(Tracking("tensorboard"), tmp_path, made[0].spec, "w1")
    assert second[0].study.key == first[0].study.key and second[0].study.worker == "w1"
    assert [path.name for path in tmp_path.iterdir()] == ["tracking.json"]
    anew = study_sinks(Tracking("tensorboard"), tmp_path, made[0].spec, "w0", is_new=True)
    assert anew[0].study.key != first[0].study.key


def test_the_password_of_a_server_is_not_in_the_folder_and_reaches_the_workers(tmp_path, made, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    tracking = Tracking("mlflow", uri="http://me:secret@127.0.0.1:9")
    (sink,) = study_sinks(tracking, tmp_path, made[0].spec, "w0")
    assert "secret" not in (tmp_path / "tracking.json").read_text()
    assert sink.resend_command() == f"shoal track {tmp_path} --to mlflow --tracking-uri http://me:***@127.0.0.1:9"
    assert study_tracking(None, tmp_path, is_new=False) == Tracking("mlflow", uri="http://me@127.0.0.1:9")
    for name, text in variables_for_workers(tracking).items():
        monkeypatch.setenv(name, text)
    assert study_tracking(None, tmp_path, is_new=False) == tracking
    assert study_tracking("none", tmp_path, is_new=False) is None
    assert variables_for_workers(Tracking("mlflow", uri="http://127.0.0.1:9")) == {}


def test_the_numbers_of_a_summary():
    best = {"score": 480.0, "fresh_score": 450.5, "fresh_low": math.nan, "fresh_high": None, "trial": 3}
    assert numbers_of({"trials": {"complete": 7, "pruned": 2}, "best": best}) == {
        "best_score": 480.0,
        "fresh_score": 450.5,
        "trials/complete": 7.0,
        "trials/pruned": 2.0,
    }
    assert numbers_of({"trials": {"pruned": 2}, "best": None}) == {"trials/pruned": 2.0}
