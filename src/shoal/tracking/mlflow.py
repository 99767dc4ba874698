"""MLflow: runs in a SQLite file beside the run folders, in another database, or on a server.

Metrics are written in batches of at most 1,000, parameters and tags of at most 100, which are the limits of MLflow's
REST API. The time of a point is computed from the records of the run, so a point that is sent twice is the same row of
the database, which MLflow keeps once. Runs are found again by their tag `shoal.key`.
"""

import getpass
import logging
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from shoal.core.registry import tracker
from shoal.core.secrets import redacted
from shoal.tracking.tracker import SHARED, Entry, Known, Point, Target, Tracker

Item = TypeVar("Item")

MOST_METRICS, MOST_PARAMETERS = 1_000, 100  # in one request
LONGEST_NAME, LONGEST_PARAMETER, LONGEST_TAG = 250, 6_000, 5_000  # characters that MLflow accepts
PAGE = 1_000  # runs in one answer of a search
KEY, MADE, PARENT = "shoal.key", "shoal.made", "mlflow.parentRunId"  # tags
KIND = {"mlflow.experimentKind": "custom_model_development"}  # the page then shows training first
POLICY = "policy"  # the name of the model of a run
STATUS = {"complete": "FINISHED", "pruned": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # the thread that calls repeats by itself, and less often
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


@tracker("mlflow")
class Mlflow(Tracker):
    """Writes runs to an MLflow store."""

    title, package, install = "MLflow", "mlflow", "shoal[mlflow]"
    longest_experiment = 500
    uri_variable = "MLFLOW_TRACKING_URI"
    seconds_per_child = 0.024  # a SQLite store; see docs/measurements.md

    def __init__(self, target: Target) -> None:
        """Without a URI: the store of MLFLOW_TRACKING_URI, and without that a file in the folder of the runs."""
        for name, content in ENVIRONMENT.items():
            os.environ.setdefault(name, content)
        self.uri, self.artifacts = store(target.uri, target.root)
        self.experiment = target.experiment
        if self.uri.startswith("http"):
            self.seconds_per_child = 0.12
        self._client: Any = None
        self._experiment_id = ""
        self._runs: dict[str, str] = {}  # key -> id of a run that has not ended
        self._parameters: dict[str, dict[str, str]] = {}  # of a run that was begun, until its first batch is written
        self._axes: dict[str, str] = {}
        self._doubtful: set[str] = set()  # keys of runs that may have been made, although an error came

    def connect(self) -> None:
        """Import MLflow, open the store, and find or make the experiment."""
        if self._experiment_id:
            return
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        for name in ("mlflow", "alembic", "urllib3"):  # importing MLflow sets them; what goes wrong is raised too
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if self.artifacts is not None:
            self.artifacts.parent.mkdir(parents=True, exist_ok=True)
        client = MlflowClient(self.uri)
        found = client.get_experiment_by_name(self.experiment)
        if found is None:
            location = None if self.artifacts is None else self.artifacts.as_uri()
            try:
                self._experiment_id = client.create_experiment(self.experiment, location, KIND)
            except MlflowException:  # another process may have made it in the meantime
                if (found := client.get_experiment_by_name(self.experiment)) is None:
                    raise
        if found is not None:
            self._experiment_id = found.experiment_id
        self._client = client

    def open(self, entry: Entry) -> Known:
        parameters = {named(path): text[:LONGEST_PARAMETER] for path, text in entry.parameters.items()}
        if entry.live:
            self._axes[entry.key] = entry.axis
        run = self._run_of(entry)
        if run is None:
            self._keep(entry, self._create(entry))
            self._parameters[entry.key] = parameters
            return Known()
        self._keep(entry, run.info.run_id)
        self._parameters[entry.key] = {k: v for k, v in parameters.items() if k not in run.data.params}
        history = self._client.get_metric_history(run.info.run_id, entry.axis) if entry.live else ()
        known = Known(frozenset(metric.step for metric in history), run.info.status == "FINISHED")
        if run.info.status not in ("RUNNING", "FINISHED"):
            self._client.update_run(run.info.run_id, status="RUNNING")
        return known

    def write(self, key: str, points: Sequence[Point]) -> None:
        """Write the points, and with the first ones the parameters."""
        from mlflow.entities import Metric, Param

        run, axis = self._runs[key], self._axes.get(key)
        metrics = [
            Metric(named(name), float(content), round(1000 * point.time), point.step)
            for point in points
            for name, content in [*point.metrics.items(), *([(axis, point.step)] if axis else ())]
        ]
        parameters = [Param(name, text) for name, text in self._parameters.pop(key, {}).items()]
        try:
            batches, several = list(chunks(metrics, MOST_METRICS)), list(chunks(parameters, MOST_PARAMETERS))
            for i in range(max(len(batches), len(several))):
                some = batches[i] if i < len(batches) else []
                self._client.log_batch(run, metrics=some, params=several[i] if i < len(several) else [])
        except Exception:
            self._parameters[key] = {parameter.key: parameter.value for parameter in parameters}
            raise

    def attach(self, key: str, files: Mapping[str, Path]) -> None:
        for name, path in files.items():
            folder, _, last = name.rpartition("/")
            if path.is_dir():
                self._client.log_artifacts(self._runs[key], str(path), name)
            elif path.name == last:
                self._client.log_artifact(self._runs[key], str(path), folder or None)
            else:
                raise ValueError(f"MLflow keeps the names of files: {path} cannot become {name}.")

    def end(self, key: str, status: str) -> None:
        """Set the status of a run, unless another process will."""
        if self._parameters.get(key):
            self.write(key, [])
        if status != SHARED:
            self._client.set_terminated(self._runs[key], STATUS[status])
        for known in (self._runs, self._parameters, self._axes):
            known.pop(key, None)

    def children(self, key: str) -> set[str]:
        """Search the children of a run. `open` continues those that have not ended, or were extended."""
        found, token = set(), None
        while True:
            query = f"tags.`{PARENT}` = '{self._runs[key]}'"
            page = self._client.search_runs([self._experiment_id], query, max_results=PAGE, page_token=token)
            for run in page:
                if child := run.data.tags.get(KEY):
                    self._runs[child] = run.info.run_id
                    if run.info.status in ("FINISHED", "FAILED"):
                        found.add(child)
            if not (token := page.token):
                return found

    def add_policy(self, key: str, folder: Path, loader: str) -> str:
        """Add the policy as a logged model, `models:/ID`, and as an artifact of the run, `runs:/RUN/policy`.

        Loading it (`mlflow.pyfunc.load_model`) imports the module `loader`; nothing is unpickled.
        """
        from mlflow.entities import LoggedModelOutput
        from mlflow.models import Model

        run = self._runs[key]
        query = f"source_run_id = '{run}' AND name = '{POLICY}'"
        old = self._client.search_logged_models([self._experiment_id], query)
        model = old[0] if old else self._client.create_logged_model(self._experiment_id, POLICY, run)
        with tempfile.TemporaryDirectory() as temporary:
            about = Model(artifact_path=model.artifact_location, run_id=run, model_id=model.model_id)
            version = ".".join(str(part) for part in sys.version_info[:3])
            about.add_flavor("python_function", loader_module=loader, data=folder.name, python_version=version)
            about.save(str(Path(temporary) / "MLmodel"))
            self._client.log_model_artifacts(model.model_id, temporary)
            self._client.log_model_artifacts(model.model_id, str(folder), folder.name)
            self._client.log_artifacts(run, temporary, POLICY)
            self._client.log_artifacts(run, str(folder), f"{POLICY}/{folder.name}")
        self._client.finalize_logged_model(model.model_id, "READY")
        outputs = self._client.get_run(run).outputs
        if model.model_id not in [output.model_id for output in (outputs.model_outputs if outputs else [])]:
            self._client.log_outputs(run, [LoggedModelOutput(model.model_id, 0)])
        return f"models:/{model.model_id}"

    @property
    def where(self) -> str:
        """The store, without a password."""
        return redacted(self.uri)

    def _run_of(self, entry: Entry) -> Any:
        """The run of an entry that the store has; None if it has none.

        A child is only searched for after an error, which may have hidden that it was made. `children` finds others.
        """
        if entry.key in self._runs:
            return self._client.get_run(self._runs[entry.key])
        if entry.parent and entry.key not in self._doubtful:
            return None
        query = f"tags.`{KEY}` = '{entry.key}'"
        found = self._client.search_runs([self._experiment_id], query, max_results=1)
        return found[0] if found else None

    def _create(self, entry: Entry) -> str:
        made_at = f"{time.time_ns():020d}"
        tags = {
            KEY: entry.key,
            MADE: made_at,
            "mlflow.user": _user(),
            **{named(k): v[:LONGEST_TAG] for k, v in entry.tags.items()},
        }
        if entry.parent:
            tags[PARENT] = self._runs[entry.parent]
        self._doubtful.add(entry.key)
        made = self._client.create_run(self._experiment_id, round(1000 * entry.started), tags, entry.name).info
        self._doubtful.discard(entry.key)
        if not entry.worker or entry.parent:
            return made.run_id
        # Several processes may have made it at the same time: all go on with the first one.
        same = self._client.search_runs([self._experiment_id], f"tags.`{KEY}` = '{entry.key}'")
        first = min(same, key=lambda run: (run.data.tags.get(MADE, ""), run.info.run_id)).info.run_id
        if first != made.run_id:
            self._client.delete_run(made.run_id)
        return first

    def _keep(self, entry: Entry, run: str) -> None:
        self._runs[entry.key] = run
        if not entry.parent:
            self.newest = {"run_id": run, "experiment_id": self._experiment_id, "experiment": self.experiment}


def store(uri: str, root: Path) -> tuple[str, Path | None]:
    """Return (MLflow's tracking URI, the folder of its artifacts, or None where a server decides).

    Artifacts of a SQLite file lie beside it. A relative path in the URI is made absolute.
    """
    uri = uri or os.environ.get(Mlflow.uri_variable, "")
    if not uri:
        uri = f"sqlite:///{root.absolute() / 'mlflow.db'}"
    if uri.startswith("sqlite:///"):
        path = Path(uri.removeprefix("sqlite:///")).absolute()
        return f"sqlite:///{path}", path.parent / "mlflow-artifacts"
    return uri, None if uri.startswith(("http", "databricks", "file")) else root.absolute() / "mlflow-artifacts"


def named(path: str) -> str:
    """Return a name that MLflow accepts: letters, digits and `_-. :/` only."""
    return re.sub(r"[^\w\-. :/]", "_", path)[:LONGEST_NAME]


def chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield the items in lists of at most `size`."""
    return (items[i : i + size] for i in range(0, len(items), size))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"
