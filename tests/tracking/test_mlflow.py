"""What the MLflow tracker writes, read back with MLflow's own client."""

import numpy as np
import pytest

from shoal.tracking.mlflow import MOST_METRICS, MOST_PARAMETERS, Mlflow, chunks, named, store
from shoal.tracking.tracker import Known, Point, Target
from stores import AXIS, client, entry, history, points, runs_in

EXPERIMENT = "ppo/CartPole-v1"

pytestmark = pytest.mark.filterwarnings("ignore:::mlflow", "ignore:::sqlalchemy", "ignore:::pydantic")


@pytest.fixture
def tracker(root):
    made = Mlflow(Target(root / "run", root, EXPERIMENT))
    made.connect()
    return made


def test_a_run_has_its_parameters_tags_and_points(tracker, root):
    assert tracker.open(entry()) == Known()
    tracker.write(entry().key, points(3))
    tracker.end(entry().key, "complete")
    (run,) = runs_in(root, EXPERIMENT).values()
    assert run.data.params == {"learning_rate": "0.001", "env.gravity": "9.8"}
    assert run.data.tags["idea"] == "first" and run.info.status == "FINISHED"
    assert history(root, run, "score") == [(100, 1.0), (200, 2.0), (300, 3.0)]
    assert history(root, run, AXIS) == [(100, 100.0), (200, 200.0), (300, 300.0)]


def test_points_that_are_sent_twice_are_there_once(tracker, root):
    tracker.open(entry())
    tracker.write(entry().key, points(3))
    tracker.write(entry().key, points(5))
    (run,) = runs_in(root, EXPERIMENT).values()
    assert [value for _, value in history(root, run, "score")] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_another_process_continues_the_run_with_the_same_key(tracker, root):
    tracker.open(entry())
    tracker.write(entry().key, points(2))
    tracker.end(entry().key, "stopped")
    assert runs_in(root, EXPERIMENT)["my-run"].info.status == "KILLED"
    later = Mlflow(Target(root / "run", root, EXPERIMENT))
    later.connect()
    assert later.open(entry(parameters={"learning_rate": "0.5", "new": "1"})).steps == {100, 200}
    later.write(entry().key, points(1, first=3))
    later.end(entry().key, "complete")
    (run,) = runs_in(root, EXPERIMENT).values()
    assert run.info.status == "FINISHED" and len(history(root, run, "score")) == 3
    assert run.data.params == {"learning_rate": "0.001", "env.gravity": "9.8", "new": "1"}


def test_children_lie_below_their_run_and_those_that_ended_are_known(tracker, root):
    tracker.open(entry())
    for i in range(2):
        child = entry(f"{entry().key}/member/{i}", name=f"member {i}", parent=entry().key)
        tracker.open(child)
        tracker.write(child.key, points(2))
    tracker.end(f"{entry().key}/member/0", "complete")
    later = Mlflow(Target(root / "run", root, EXPERIMENT))
    later.connect()
    later.open(entry())
    assert later.children(entry().key) == {f"{entry().key}/member/0"}
    assert later.open(entry(f"{entry().key}/member/1", parent=entry().key)).steps == {100, 200}
    runs = runs_in(root, EXPERIMENT)
    parents = {name: run.data.tags.get("mlflow.parentRunId") for name, run in runs.items()}
    main = runs["my-run"].info.run_id
    assert parents == {"my-run": None, "member 0": main, "member 1": main}


def test_a_run_that_was_made_although_an_error_came_is_not_made_again(tracker, root, monkeypatch):
    tracker.open(entry())
    create = tracker._client.create_run

    def made_but_no_answer(*given, **options):
        create(*given, **options)
        raise ConnectionError("no answer")

    child = entry(f"{entry().key}/trial/0", name="trial", parent=entry().key)
    monkeypatch.setattr(tracker._client, "create_run", made_but_no_answer)
    with pytest.raises(ConnectionError):
        tracker.open(child)
    monkeypatch.setattr(tracker._client, "create_run", create)
    tracker.open(child)
    assert set(runs_in(root, EXPERIMENT)) == {"my-run", "trial"}  # `runs_in` refuses two of one name


def test_workers_that_begin_a_study_at_the_same_time_share_its_run(root):
    workers = [Mlflow(Target(root / "run", root, EXPERIMENT)) for _ in range(2)]
    for worker in workers:
        worker.connect()
    first, second = workers
    second._run_of = lambda entry: None  # it looked before the first one made the run
    first.open(entry(worker="a"))
    second.open(entry(worker="b"))
    assert first.newest == second.newest
    assert len(runs_in(root, EXPERIMENT)) == 1


def test_large_batches_are_split(tracker, root, monkeypatch):
    sizes = []
    log = tracker._client.log_batch

    def counted(run, metrics=(), params=(), **others):
        sizes.append((len(metrics), len(params)))
        log(run, metrics=metrics, params=params, **others)

    monkeypatch.setattr(tracker._client, "log_batch", counted)
    tracker.open(entry(parameters={f"field{i}": "1" for i in range(101)}))
    tracker.write(entry().key, points(501))  # with the axis, two metrics for each point
    assert sizes == [(MOST_METRICS, MOST_PARAMETERS), (2, 1)]
    (run,) = runs_in(root, EXPERIMENT).values()
    assert len(run.data.params) == 101 and len(history(root, run, "score")) == 501


def test_parameters_are_sent_again_after_an_error(tracker, root, monkeypatch):
    tracker.open(entry())
    log = tracker._client.log_batch
    monkeypatch.setattr(tracker._client, "log_batch", lambda *a, **k: (_ for _ in ()).throw(ConnectionError("away")))
    with pytest.raises(ConnectionError):
        tracker.write(entry().key, points(1))
    monkeypatch.setattr(tracker._client, "log_batch", log)
    tracker.write(entry().key, points(1))
    (run,) = runs_in(root, EXPERIMENT).values()
    assert "learning_rate" in run.data.params and len(history(root, run, "score")) == 1


def test_infinite_scores_and_unusual_names_do_not_fail(tracker, root):
    tracker.open(entry(parameters={"hidden[0]": "x" * 10_000}))
    tracker.write(entry().key, [Point(1, 0.0, {"loss{a}": np.inf, "b/mean": np.nan})])
    (run,) = runs_in(root, EXPERIMENT).values()
    assert len(run.data.params["hidden_0_"]) == 6_000
    assert np.isnan(run.data.metrics["b/mean"]) and run.data.metrics["loss_a_"] > 1e300


def test_files_are_artifacts_in_the_folder_of_the_store(tracker, root, tmp_path):
    (tmp_path / "figures").mkdir()
    for name in ("figures/curve.png", "spec.json"):
        (tmp_path / name).write_text("content")
    tracker.open(entry())
    tracker.attach(entry().key, {"figures": tmp_path / "figures", "spec.json": tmp_path / "spec.json"})
    (run,) = runs_in(root, EXPERIMENT).values()
    assert {item.path for item in client(root).list_artifacts(run.info.run_id)} == {"figures", "spec.json"}
    assert list((root / "mlflow-artifacts").rglob("curve.png"))


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("", ("sqlite:////r/runs/mlflow.db", "/r/runs/mlflow-artifacts")),
        ("sqlite:////other/x.db", ("sqlite:////other/x.db", "/other/mlflow-artifacts")),
        ("http://host:5000", ("http://host:5000", None)),
        ("postgresql://me@host/base", ("postgresql://me@host/base", "/r/runs/mlflow-artifacts")),
    ],
)
def test_artifacts_lie_beside_the_database_unless_a_server_decides(uri, expected, monkeypatch):
    from pathlib import Path

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    found, artifacts = store(uri, Path("/r/runs"))
    assert (found, artifacts and str(artifacts)) == expected


def test_the_variable_of_mlflow_names_the_store(monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host:1")
    assert store("", tmp_path)[0] == "http://host:1"


def test_names_hold_only_what_mlflow_accepts():
    assert named("train_return/p05 (a)") == "train_return/p05 _a_"
    assert [list(part) for part in chunks([1, 2, 3], 2)] == [[1, 2], [3]]
