"""The web page of an MLflow store, on this machine only (`shoal ui`)."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import FrameType

from shoal.tracking.mlflow import store
from shoal.training.stopping import handled

HOST = "127.0.0.1"
MOST_PORTS = 65_535


def command(root: Path, port: int, uri: str = "") -> list[str]:
    """Return the command that serves the page. One worker and no job runner: MLflow's default needs 2.4 GB.

    Raises ImportError where the full MLflow is missing, FileNotFoundError where `root` has no store, and ValueError for
    a port that is no port or in use.
    """
    if not _has_page():
        raise ImportError("the page of MLflow needs the full package 'mlflow': pip install 'shoal[ui]'.")
    if not 1 <= port <= MOST_PORTS:
        raise ValueError(f"--port {port} must be from 1 to {MOST_PORTS}.")
    uri, artifacts = store(uri, root)
    path = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: a run makes it with `shoal train ... --track mlflow`.")
    with socket.socket() as probe:
        if probe.connect_ex((HOST, port)) == 0:
            raise ValueError(f"--port {port} is in use: choose another one, such as --port {port % MOST_PORTS + 1}.")
    words = [sys.executable, "-m", "mlflow", "ui", "--host", HOST, "--port", str(port), "--workers", "1"]
    return [*words, "--backend-store-uri", uri, *(["--default-artifact-root", str(artifacts)] if artifacts else [])]


def _has_page() -> bool:
    """Whether the package 'mlflow', which has the page, is installed; 'mlflow-skinny' has its modules too."""
    try:
        return bool(metadata.version("mlflow"))
    except metadata.PackageNotFoundError:
        return False


def serve(root: Path, port: int, uri: str = "") -> int:
    """Serve the page until SIGINT, SIGTERM or SIGHUP comes; its processes end then too. Returns the exit status.

    Errors are those of `command`.
    """
    words = command(root, port, uri)
    environment = {
        **os.environ,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    print(f"http://{HOST}:{port}  (Ctrl-C ends it; it takes some seconds to start)", flush=True)
    process = subprocess.Popen(words, env=environment, start_new_session=True)  # it starts workers of its own
    signals: list[int] = []

    def end(signum: int, frame: FrameType | None) -> None:
        del frame
        signals.append(signum)
        os.killpg(process.pid, signal.SIGTERM)

    with handled(end):
        status = process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    return 0 if signals else status
