"""Files are flushed to the disk before a run reports that it is saved; a full disk keeps the old files."""

import errno
import os
import sys
from contextlib import nullcontext
from pathlib import Path

import jax
import numpy as np
import pytest

from shoal.core.agent import Metrics
from shoal.rollouts.demonstrations import Demonstrations
from shoal.rollouts.episodes import EpisodeStats
from shoal.specs.disk import replace
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.recording import save_demonstrations
from shoal.training.records import Records
from shoal.viz.curves import learning_curves
from shoal.viz.gif import write_gif
from shoal.viz.run_data import Curve

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flushes nothing there")


@pytest.fixture
def flushed(monkeypatch):
    """A function: whether a file or folder was flushed. Inodes are compared, which renaming does not change."""
    seen = set()
    monkeypatch.setattr(os, "fsync", lambda handle: seen.add(os.fstat(handle).st_ino))
    return lambda path: path.stat().st_ino in seen


def test_files_of_a_run_are_flushed_with_their_names(flushed, tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_json("spec.json", {"agent": "ppo"})
    assert flushed(tmp_path / "spec.json") and flushed(tmp_path)


def test_curves_are_flushed(flushed, tmp_path):
    records = Records(1)
    nothing = jax.tree.map(lambda x: np.asarray(x)[None], EpisodeStats.zero())
    records.append(1, 1.0, Metrics(nothing, {}), np.array([True]), None)
    records.save(RunFolder(tmp_path))
    assert flushed(tmp_path / "curves.npz") and flushed(tmp_path)


def test_a_checkpoint_is_flushed_with_the_names_in_it(flushed, tmp_path):
    saved = tmp_path / "step-1"
    checkpoint.save(saved, {"policies": {"x": np.zeros(2)}}, "spec", {})
    for path in (saved / "policies.npz", saved / checkpoint.MANIFEST, saved, tmp_path):
        assert flushed(path), path


def test_a_manifest_is_json(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        checkpoint.save(tmp_path / "step-1", {"policies": {"x": np.zeros(2)}}, "spec", {"best": -np.inf})


def test_a_checkpoint_held_open_by_a_reader_does_not_end_training(tmp_path, monkeypatch):
    for n in range(3):
        checkpoint.save(tmp_path / f"step-{n}", {"policies": {"x": np.zeros(2)}}, "spec", {})

    def in_use(*args, **kwargs):
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    with monkeypatch.context() as nfs:
        nfs.setattr(os, "rmdir", in_use)
        checkpoint.keep_newest(tmp_path, 2)
    assert [path.name for path in checkpoint.saved(tmp_path)] == ["step-2", "step-1"]


def test_a_full_disk_is_reported_and_existing_files_are_kept(monkeypatch, tmp_path):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    there = tmp_path / "step-1"
    checkpoint.save(there, {"policies": {"a": np.zeros(2)}}, "", {})
    monkeypatch.setattr(checkpoint, "write_arrays", full)
    with pytest.raises(OSError, match="could not be written: No space left on device") as error:
        checkpoint.save(there, {"policies": {"a": np.ones(2)}}, "", {})
    assert error.value.filename == str(there) and error.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]
    np.testing.assert_array_equal(checkpoint.restore(there, "policies", {"a": np.zeros(2)}, "")["a"], 0)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="summary.json"):
        RunFolder(tmp_path).write_json("summary.json", {})


def half_then_full(*args, **kwargs):
    """A write that meets a full disk midway."""
    path = next(x for x in args if isinstance(x, Path) or hasattr(x, "write"))
    with path.open("wb") if isinstance(path, Path) else nullcontext(path) as file:
        file.write(b"half of a file")
    raise OSError(errno.ENOSPC, "No space left on device")


def write_figure(path, monkeypatch):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    print_png = FigureCanvasAgg.print_png

    def full(self, out, **how):  # matplotlib also calls it, with a buffer, to measure texts
        return half_then_full(out) if isinstance(out, Path) else print_png(self, out, **how)

    monkeypatch.setattr(FigureCanvasAgg, "print_png", full)
    learning_curves([Curve("a", np.arange(3), np.ones((3, 2)))], path)


def write_animation(path, monkeypatch):
    from PIL import Image

    monkeypatch.setattr(Image.Image, "save", lambda self, out, **_: half_then_full(out))
    write_gif([np.zeros((4, 4, 3), np.uint8)], path)


def write_recording(path, monkeypatch):
    monkeypatch.setattr(np, "savez_compressed", half_then_full)
    save_demonstrations(path, Demonstrations(np.zeros((3, 2)), np.zeros(3)))


@pytest.mark.parametrize(
    ("name", "write"), [("a.png", write_figure), ("a.gif", write_animation), ("a.npz", write_recording)]
)
def test_figures_and_recordings_on_a_full_disk_keep_existing_files(name, write, monkeypatch, tmp_path):
    there = tmp_path / name
    there.write_bytes(b"before")
    with monkeypatch.context() as full, pytest.raises(OSError, match="could not be written: No space left") as error:
        write(there, full)
    assert error.value.filename == str(there) and error.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == [name] and there.read_bytes() == b"before"


def test_two_processes_that_write_one_file_at_once_do_not_take_each_others_temporary_file(tmp_path):
    """Two workers that begin a study together both write its `study.json`."""
    target = tmp_path / "study.json"

    def write_while_another_does(path):
        path.write_text("first")
        replace(target, lambda other: other.write_text("second"))

    replace(target, write_while_another_does)
    assert target.read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]
