"""Offline runs of Weights & Biases, read back from their file."""

import json
import struct
import time
from types import SimpleNamespace

import pytest

from shoal.tracking.tracker import Target
from shoal.tracking.wandb import Wandb
from stores import entry, points

pytestmark = pytest.mark.filterwarnings(
    "ignore:::wandb", "ignore:::google", "ignore:::pydantic", "ignore::ResourceWarning"
)

BLOCK, HEADER = 32_768, 7  # of the file, as in LevelDB's log format; the file begins with 7 bytes of its own


def records(path):
    """The messages of an offline file."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, position, parts = path.read_bytes(), 7, b""
    while position < len(content):
        if BLOCK - position % BLOCK < HEADER:
            position += BLOCK - position % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", content[position : position + HEADER])
        if not kind:
            return
        parts += content[position + HEADER : position + HEADER + length]
        position += HEADER + length
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(parts)
            parts = b""


def rows(path):
    """The logged metrics, a dict for each call."""
    for record in records(path):
        if record.WhichOneof("record_type") == "history":
            yield {(item.key or item.nested_key[0]): json.loads(item.value_json) for item in record.history.item}


@pytest.fixture
def tracker(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    made = Wandb(Target(tmp_path, tmp_path.parent, "ppo/CartPole-v1"))
    made.connect()
    return made


def test_an_offline_run_has_its_points_once_after_it_was_continued(tracker, tmp_path):
    (tmp_path / "summary.json").write_text("{}")
    for count in (2, 3):  # the run was stopped, and continued by another process
        tracker.open(entry())
        tracker.write(entry().key, points(count))
        tracker.attach(entry().key, {"summary.json": tmp_path / "summary.json"})
        tracker.end(entry().key, "complete")
    (file,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    until = time.monotonic() + 20
    while not [*rows(file)] and time.monotonic() < until:
        time.sleep(0.05)  # W&B's process writes it
    assert [(row["env_steps"], row["score"]) for row in rows(file)] == [(100, 1.0), (200, 2.0), (300, 3.0)]
    assert tracker.project == "ppo-CartPole-v1" and "wandb sync" in tracker.where
    (run,) = [record.run for record in records(file) if record.WhichOneof("record_type") == "run"][:1]
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["learning_rate"] == "0.001" and "idea=first" in run.tags
    assert list((tmp_path / "wandb").glob("offline-run-*/files/summary.json"))


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_server_that_does_not_answer_is_not_waited_for_at_exit(tracker, monkeypatch, is_ours):
    """W&B's process would keep Python for about a minute; that of a user's own runs is left alone."""
    done = []
    process = SimpleNamespace(kill=lambda: done.append("kill"))
    service = SimpleNamespace(_cleanup=lambda: done.append("forget"), _proc=SimpleNamespace(_process=process))
    monkeypatch.setattr("shoal.tracking.wandb._service", lambda wandb: service)
    tracker._owns_service = is_ours
    tracker.abandon()
    assert done == ["forget", "kill"] * is_ours
