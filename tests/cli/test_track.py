"""The options of experiment trackers, `shoal track` and `shoal ui`."""

import importlib.util
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from importlib import metadata

import pytest

from commands import refused, say
from shoal.cli.main import COMMANDS
from shoal.cli.tracking import tracking_in
from shoal.studies import page
from shoal.tracking import background
from shoal.tracking.request import Tracking
from tiny import FLAGS

TRAIN = ("train", "ppo", "CartPole-v1", *FLAGS)


def read(*words):
    """What the tracking options of a command line ask for."""
    return tracking_in(COMMANDS["train"].parser("train").start([*words]).options)


def test_options_become_a_value():
    words = ("--track", "mlflow,tensorboard", "--tag", "a=1", "--tag", "b=2", "--experiment", "mine")
    assert read(*words, "--track-children", "members", "--tracking-uri", "http://x") == Tracking(
        "mlflow,tensorboard", uri="http://x", experiment="mine", children="members", tags={"a": "1", "b": "2"}
    )
    assert read() is None and read("--track", "none") == "none"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--track", "mflow"), "'mflow' is not registered. Did you mean mlflow?"),
        (("--track", "mlflow", "--tag", "idea"), "--tag idea: a tag is written NAME=TEXT"),
        (("--tag", "a=1"), "--tag is for an experiment tracker: add --track"),
        (("--tracking-uri", "http://x"), "--tracking-uri is for an experiment tracker"),
        (("--track", "wandb", "--tracking-uri", "http://x"), "a tracking URI is for mlflow"),
        (("--track", "mlflow", "--track-children", "setting"), "choose none, settings, members"),
        (("--track", "mlflow", "--track-children", "trials"), "children='trials' is for a study"),
    ],
)
def test_mistakes_are_explained_before_anything_compiles(capsys, tmp_path, words, answer):
    assert answer in refused(capsys, *TRAIN, "--root", tmp_path, *words)
    assert not list(tmp_path.rglob("spec.json"))


def test_a_run_that_was_not_tracked_needs_a_tracker(capsys, tmp_path):
    assert "does not exist" in refused(capsys, "track", tmp_path / "nothing", "--to", "tensorboard")
    shutil.copytree(zoo_policy(), tmp_path / "policy")
    assert "is an exported policy" in refused(capsys, "track", tmp_path / "policy", "--to", "tensorboard")


def test_without_progress_a_tracker_that_is_away_is_said_and_the_records_stay(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(background, "PATIENCE", 0.0)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    words = ("--no-figures", "--name", "away", "--root", tmp_path, "--track", "mlflow")
    status, _, err = say(capsys, *TRAIN, *words, "--tracking-uri", "http://127.0.0.1:9")
    lines = err.strip().splitlines()
    assert status == 0 and len(lines) == 1 and lines[0].startswith("shoal: MLflow does not have ")
    assert f"To send it: `shoal track {tmp_path / 'away'} --to mlflow`" in lines[0]
    assert (tmp_path / "away" / "metrics.jsonl").read_text() and (tmp_path / "away" / "tracking.json").exists()


def zoo_policy():
    from shoal.training.folder import RunFolder

    return RunFolder("zoo:ppo/CartPole-v1").path


def test_the_page_needs_a_store_a_free_port_and_the_full_package(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    installed = {"mlflow-skinny", "flask"}  # the modules of mlflow and flask, but not the page

    def version(name):
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return "3.0.0"

    monkeypatch.setattr(metadata, "version", version)
    assert "pip install 'shoal[ui]'" in refused(capsys, "ui", "--root", tmp_path)
    installed.add("mlflow")
    assert "mlflow.db does not exist" in refused(capsys, "ui", "--root", tmp_path)
    sqlite3.connect(tmp_path / "mlflow.db").close()
    (tmp_path / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind((page.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"--port {port} is in use" in refused(capsys, "ui", "--root", tmp_path, "--port", port)
    assert "from 1 to 65535" in refused(capsys, "ui", "--root", tmp_path, "--port", 0)
    words = page.command(tmp_path, port)
    assert words[words.index("--host") + 1] == "127.0.0.1" and words[words.index("--workers") + 1] == "1"


@pytest.mark.skipif(importlib.util.find_spec("flask") is None, reason="the full package mlflow is not installed")
def test_the_page_answers_on_this_machine_only(made_store, tmp_path):
    shutil.copyfile(made_store, tmp_path / "mlflow.db")
    with socket.socket() as free:
        free.bind((page.HOST, 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "shoal", "ui", "--root", str(tmp_path), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert answer(f"http://{page.HOST}:{port}/health") == "OK"
        body = json.dumps({"max_results": 10}).encode()
        found = answer(f"http://{page.HOST}:{port}/api/2.0/mlflow/experiments/search", body)
        assert "first" in {each["name"] for each in json.loads(found)["experiments"]}
        with socket.socket() as other:  # another address of this machine
            assert other.connect_ex(("127.0.0.2", port)) != 0
    finally:
        process.send_signal(2)
        assert process.wait(60) == 0
    with socket.socket() as gone:  # no process of the page is left
        assert gone.connect_ex((page.HOST, port)) != 0


def answer(url, body=None):
    until = time.monotonic() + 240
    while True:
        try:
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            return urllib.request.urlopen(request, timeout=10).read().decode()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def test_the_command_line_tracks_a_run(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    root = tmp_path / "runs"
    status, _, err = say(capsys, *TRAIN, "--no-figures", "--root", root, "--track", "tensorboard", "--tag", "idea=x")
    assert status == 0, err
    folder = root / "ppo-CartPole-v1"
    notes = json.loads((folder / "tracking.json").read_text())
    assert notes["to"] == ["tensorboard"] and notes["tags"] == {"idea": "x"}
    assert notes["sent"]["tensorboard"]["complete"]
    before = {path: os.path.getsize(path) for path in folder.glob("tensorboard/events*")}
    assert len(before) == 1
    status, out, err = say(capsys, "track", folder)
    assert status == 0 and f"TensorBoard: {folder / 'tensorboard'}" in out, err
    assert {path: os.path.getsize(path) for path in folder.glob("tensorboard/events*")} == before
