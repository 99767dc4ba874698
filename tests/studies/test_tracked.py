"""Runs in experiment trackers: what MLflow has of a run, during it, after it was killed, and when a server is away."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import shoal
from listeners import Listener
from shoal.tracking import background
from shoal.tracking.events import Closed, Finished, Recorded, Started
from shoal.tracking.mlflow import Mlflow
from shoal.training.folder import RunFolder
from stores import client, history, runs_in, with_store

SMALL = {"steps": 2_000, "records": 4, "evaluations": 2, "eval_max_steps": 50, "eval_episodes": 3}
SWEEP = {"learning_rate": [0.1, 0.2]}
SILENT = {"progress": False, "figures": False}
EXPERIMENT = "q-learning/CliffWalking-v1"

pytestmark = pytest.mark.filterwarnings("ignore:::mlflow", "ignore:::sqlalchemy", "ignore:::pydantic")


def trained(root, **options):
    return shoal.train("q-learning", "CliffWalking-v1", sweep=SWEEP, seeds=2, root=root, **SMALL, **SILENT, **options)


@pytest.fixture(scope="module")
def run(made_store, tmp_path_factory):
    """(the result of a tracked run of 2 settings with 2 seeds each, its messages)."""
    root = with_store(made_store, tmp_path_factory.mktemp("tracked") / "runs")
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    listener = Listener()
    tracking = shoal.Tracking("mlflow,tensorboard", tags={"idea": "first"})
    return trained(root, sinks=[listener], track=tracking), listener.heard


@pytest.fixture
def copy(run, root):
    """A copy of the run's folder beside an empty store, as if it had not been tracked."""
    folder = root / "copy"
    shutil.copytree(run[0].folder, folder, ignore=shutil.ignore_patterns("tracking.json", "tensorboard"))
    return folder


def replay(folder, track, steps, how):
    """Send a run as if it trained: it begins, has all records up to a step, and ends. Returns the messages."""
    from shoal.studies.tracked import run_sinks
    from shoal.tracking.events import Sinks

    listener = Listener()
    sinks = Sinks([listener, *run_sinks(track, RunFolder(folder), RunFolder(folder).read_spec(), resume=True)])
    sinks.receive(Started(0, 500))
    for step in shoal.load_result(folder).curves["env_steps"]:
        if step <= steps:
            sinks.receive(Recorded(0, {"env_steps": int(step)}, 1.0, None))
    if how == "complete":
        sinks.receive(Finished(RunFolder(folder).read_json("summary.json")))
    sinks.receive(Closed(how))
    return listener.heard


def assert_complete(folder, root, children=2):
    """Every run in the store has every record of the run folder once, and has ended."""
    runs = runs_in(root, EXPERIMENT)
    assert len(runs) == 1 + children
    steps = shoal.load_result(folder).curves["env_steps"].tolist()
    for each in runs.values():
        assert each.info.status == "FINISHED"
        for name in ("episodes/mean", "wall_seconds"):
            assert [step for step, _ in history(root, each, name)] == steps


def test_tracking_does_not_change_a_bit_of_the_run(run, tmp_path):
    plain, (tracked, _) = trained(tmp_path), run
    for name, column in plain.curves.items():
        if name != "wall_seconds":
            np.testing.assert_array_equal(column, tracked.curves[name], err_msg=name)
    for part in ("policies", "learners"):
        files = [next(r.folder.glob(f"checkpoints/step-*/{part}.npz")) for r in (plain, tracked)]
        a, b = (dict(np.load(file)) for file in files)
        assert set(a) == set(b) and all(np.array_equal(a[k], b[k]) for k in a)


def test_mlflow_has_the_records_and_the_parameters_of_the_spec(run):
    result, _ = run
    root = result.folder.parent
    main = runs_in(root, EXPERIMENT)[result.folder.name]
    lines = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    for name in ("train_return", "eval_return", "episodes"):
        for part in ("mean", "p05", "p50", "p95"):
            expected = [(line["env_steps"], line[name][part]) for line in lines if name in line]
            np.testing.assert_allclose(history(root, main, f"{name}/{part}"), expected)
    params = main.data.params
    assert (params["agent"], params["seeds"], params["learning_rate"]) == ("q-learning", "2", "[0.1, 0.2]")
    assert main.data.tags["idea"] == "first" and main.info.status == "FINISHED"
    assert main.data.metrics["last/mean"] == pytest.approx(result.summary["last"]["mean"])


def test_every_setting_is_a_child_with_its_own_curve(run):
    result, _ = run
    root, runs = result.folder.parent, runs_in(result.folder.parent, EXPERIMENT)
    for i, rate in enumerate(SWEEP["learning_rate"]):
        child = runs[f"learning_rate={rate}"]
        assert child.data.params == {"learning_rate": str(rate)}
        assert child.data.tags["mlflow.parentRunId"] == runs[result.folder.name].info.run_id
        expected = result.curves["episodes"][:, 2 * i : 2 * i + 2].mean(axis=1)
        np.testing.assert_allclose([x for _, x in history(root, child, "episodes/mean")], expected)
        ended = result.curves["train_return"][:, 2 * i : 2 * i + 2]
        means = [np.mean(row[~np.isnan(row)]) for row in ended if not np.isnan(row).all()]
        np.testing.assert_allclose([x for _, x in history(root, child, "train_return/mean")], means)


def test_files_and_policies_are_artifacts(run):
    result, _ = run
    mlflow = client(result.folder.parent)
    main = runs_in(result.folder.parent, EXPERIMENT)[result.folder.name].info.run_id
    assert {item.path for item in mlflow.list_artifacts(main)} >= {"spec.json", "summary.json", "policies", "policy"}
    assert {item.path for item in mlflow.list_artifacts(main, "policies")} == {"policies/last", "policies/best"}


@pytest.mark.parametrize("kind", ["models", "runs"])
def test_the_policy_is_a_model_that_acts_as_the_policy_does(run, kind, monkeypatch):
    pyfunc = pytest.importorskip("mlflow.pyfunc")
    result, _ = run
    root = result.folder.parent
    main = runs_in(root, EXPERIMENT)[result.folder.name]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{root / 'mlflow.db'}")
    uri = (
        f"models:/{main.outputs.model_outputs[0].model_id}" if kind == "models" else f"runs:/{main.info.run_id}/policy"
    )
    model = pyfunc.load_model(uri)
    assert model.metadata.flavors["python_function"]["loader_module"] == "shoal.training.pyfunc"  # as in older models
    states = np.arange(48)
    np.testing.assert_array_equal(model.predict(states), result.policy()(states))
    assert len(np.unique(model.predict(states))) > 1  # not one action for everything


def test_the_user_is_told_where_the_run_is(run):
    result, heard = run
    assert f"MLflow: sqlite:///{result.folder.parent / 'mlflow.db'}" in heard


def test_a_stopped_run_is_continued_in_the_same_mlflow_run(copy, root):
    replay(copy, "mlflow", 1_000, "stopped")
    (main,) = [r for name, r in runs_in(root, EXPERIMENT).items() if name == "copy"]
    assert main.info.status == "KILLED" and [step for step, _ in history(root, main, "env_steps")] == [500, 1_000]
    replay(copy, None, 2_000, "complete")  # without `track`: tracking.json says where
    assert_complete(copy, root)
    assert runs_in(root, EXPERIMENT)["copy"].info.run_id == main.info.run_id


def test_a_run_can_be_sent_later_and_twice(copy, root):
    with pytest.raises(ValueError, match=r"was not tracked so far.*shoal track .* --to mlflow"):
        shoal.track(copy)
    sent = shoal.track(copy, "mlflow")["mlflow"]
    assert sent["complete"] and sent["steps"] == 2_000
    assert shoal.track(copy)["mlflow"] == sent
    assert_complete(copy, root)
    main = runs_in(root, EXPERIMENT)["copy"]
    assert len(history(root, main, "total_seconds")) == 1


def test_a_store_that_is_away_stops_nothing_and_gets_everything_later(copy, root, monkeypatch):
    write, calls = Mlflow.write, []

    def fails_at_times(self, key, points):
        calls.append(key)
        if len(calls) % 2:
            raise ConnectionError("the server is away")
        write(self, key, points)

    monkeypatch.setattr(Mlflow, "write", fails_at_times)
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.01)
    heard = replay(copy, "mlflow", 2_000, "complete")
    assert_complete(copy, root)
    assert heard[-1].startswith("MLflow: sqlite")


def test_what_was_not_sent_is_said_with_the_command_that_sends_it(copy, root, monkeypatch):
    monkeypatch.setattr(background, "PATIENCE", 0.0)
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.01)
    write = Mlflow.write
    monkeypatch.setattr(Mlflow, "write", lambda *given: (_ for _ in ()).throw(ConnectionError("the server is away")))
    heard = replay(copy, "mlflow", 2_000, "complete")
    assert heard[-1] == (
        f"MLflow does not have 4 of 4 records: the server is away. To send it: `shoal track {copy} --to mlflow`"
    )
    notes = json.loads((copy / "tracking.json").read_text())
    assert not notes["sent"]["mlflow"]["complete"]
    with pytest.raises(ConnectionError, match="4 of 4 records"):
        shoal.track(copy)
    monkeypatch.setattr(Mlflow, "write", write)
    shoal.track(copy)
    assert_complete(copy, root)


def test_an_unreachable_server_is_said_at_the_start_and_its_password_never(copy, monkeypatch):
    monkeypatch.setattr(background, "PATIENCE", 0.0)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    uri = "http://me:secret@127.0.0.1:9"
    monkeypatch.setattr(sys, "argv", ["shoal", "train", "--tracking-uri", uri])
    heard = replay(copy, shoal.Tracking("mlflow", uri=uri), 2_000, "complete")
    assert "--tracking-uri http://me:***@127.0.0.1:9" in heard[-1]
    assert "secret" not in " ".join(heard)
    from shoal.training.folder import provenance

    assert provenance(1, 1, [])["argv"][-1] == "http://me:***@127.0.0.1:9"
    texts = [path.read_text(errors="ignore") for path in copy.rglob("*") if path.is_file()]
    assert not [text for text in texts if "secret" in text]


OWN = """
import json
from shoal.tracking.tracker import Known, Tracker
class Log(Tracker):
    title = "Log"
    def __init__(self, target):
        self.path = target.folder / "log.txt"
    def connect(self): pass
    def open(self, entry): return Known()
    def write(self, key, points):
        with open(self.path, "a") as file:
            file.writelines(f"{point.step}\\n" for point in points if "/" not in key)
    def attach(self, key, files): pass
    def end(self, key, how): pass
    def children(self, key): return set()
"""


def test_a_tracker_in_a_file_gets_the_run_and_its_code_needs_consent_later(copy, tmp_path, monkeypatch):
    file = tmp_path / "own_log.py"
    file.write_text(OWN)
    shoal.track(copy, f"{file}:Log")
    assert (copy / "log.txt").read_text().split() == ["500", "1000", "1500", "2000", "2000"]  # the last: the summary
    assert json.loads((copy / "tracking.json").read_text())["to"] == [f"{file}:Log"]
    again = "import sys, shoal; shoal.track(sys.argv[1])"
    words = [sys.executable, "-c", again, str(copy)]
    assert subprocess.run(words, capture_output=True).returncode == 0  # it was used on this machine
    file.write_text(OWN + "raise SystemExit(9)")
    refused = subprocess.run(words, capture_output=True, text=True)
    assert f"names the tracker {file}:Log, which you have neither named" in refused.stderr
    assert f"To use it: --track {file}:Log" in refused.stderr


KILLED = """
import sys
from shoal.studies import tracked
tracked.MOST_LIVE = int(sys.argv[2])
import shoal
print("ready", flush=True)
shoal.track(sys.argv[1], shoal.Tracking("mlflow", children="members"))
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("live", [0, 50])  # with 0, children are written at the end
def test_a_process_killed_while_it_sends_leaves_nothing_twice(copy, root, live):
    for pause in (1.0, 0.3):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(copy), str(live)], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        wait_for_a_run(root, pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    shoal.track(copy, shoal.Tracking("mlflow", children="members"))
    assert_complete(copy, root, children=4)


def wait_for_a_run(root: Path, pause: float) -> None:
    """Wait until the store has a run, and then a little longer."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        found = client(root).get_experiment_by_name(EXPERIMENT)
        if found is not None and client(root).search_runs([found.experiment_id]):
            break
        time.sleep(0.05)
    time.sleep(pause * 0.2)
