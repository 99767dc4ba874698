"""MLflow stores for tests: a SQLite file that is made once and copied, because making its tables takes seconds."""

import shutil
from pathlib import Path

import pytest

from shoal.tracking.mlflow import Mlflow
from shoal.tracking.tracker import AXIS, Entry, Point, Target

NOW = 1_700_000_000.0
_made: list[Path] = []  # the store; the fixture is made once for each folder of tests that imports it


@pytest.fixture(scope="session")
def made_store(tmp_path_factory):
    """A store without runs."""
    pytest.importorskip("mlflow")
    if not _made:
        path = tmp_path_factory.mktemp("store") / "mlflow.db"
        Mlflow(Target(path.parent / "run", path.parent, "first", f"sqlite:///{path}")).connect()
        _made.append(path)
    return _made[0]


@pytest.fixture
def root(made_store, tmp_path, monkeypatch):
    """A folder of runs with an empty store."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return with_store(made_store, tmp_path / "runs")


def with_store(made_store, root: Path) -> Path:
    """Copy the empty store into a folder, and return the folder."""
    root.mkdir(parents=True)
    shutil.copyfile(made_store, root / "mlflow.db")
    return root


def client(root: Path):
    """MLflow's own client of the store."""
    from mlflow.tracking import MlflowClient

    return MlflowClient(f"sqlite:///{root / 'mlflow.db'}")


def runs_in(root: Path, experiment: str):
    """All runs of an experiment, by name."""
    mlflow = client(root)
    found = mlflow.get_experiment_by_name(experiment)
    assert found is not None
    runs = list(mlflow.search_runs([found.experiment_id], max_results=1_000))
    names = {run.info.run_name: run for run in runs}
    assert len(names) == len(runs)
    return names


def history(root: Path, run, name: str) -> list[tuple[int, float]]:
    """(step, value) of every point of a metric."""
    return [(m.step, m.value) for m in client(root).get_metric_history(run.info.run_id, name)]


def entry(key: str = "a" * 32, **changes) -> Entry:
    """A run with two parameters."""
    return Entry(key, "my-run", {"learning_rate": "0.001", "env.gravity": "9.8"}, {"idea": "first"}, NOW)._replace(
        **changes
    )


def points(count: int, first: int = 1, **metrics) -> list[Point]:
    """Points at the steps 100, 200, ..., a second apart; the metric `score` is the number of the point."""
    return [Point(100 * i, NOW + i, {"score": float(i), **metrics}) for i in range(first, first + count)]


__all__ = ["AXIS", "NOW", "client", "entry", "history", "made_store", "points", "root", "runs_in", "with_store"]
