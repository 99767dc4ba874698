"""A folder is used by one run at a time, however that run was started and however it ended."""

import resource
import signal
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import shoal
from shoal.specs.spec import RunSpec
from shoal.training.claim import locked
from shoal.training.folder import RunFolder, new_folder
from shoal.training.loop import Run
from shoal.training.plan import make_plan
from tiny import FIELDS, SILENT

HOLD = """
import sys
from pathlib import Path
from shoal.training.claim import locked
with locked(Path(sys.argv[1])):
    print("holds it", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_in(folder):
    """A process that holds a folder until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout.readline() == "holds it\n"
            yield process
        finally:
            process.kill()


def run_in(folder):
    """A new run, of which nothing is compiled yet."""
    fields = {"num_envs": 2, "num_steps": 8, "hidden": (8,), "num_minibatches": 1}
    return Run(make_plan(RunSpec(agent="ppo", env="CartPole-v1", fields=fields, steps=16)), RunFolder(folder))


def test_a_folder_is_locked_by_one_process_until_it_ends(tmp_path):
    with another_process_in(tmp_path) as process:
        with (
            pytest.raises(FileExistsError, match=f"written by another run .process {process.pid} on "),
            locked(tmp_path),
        ):
            pass
        process.kill()
        process.wait()
        with locked(tmp_path):
            pass


def test_what_a_killed_process_was_writing_is_removed_by_the_next_one(tmp_path):
    (tmp_path / f".summary.json.{uuid.uuid4().hex[:12]}.partial").write_text("{")
    kept = [tmp_path / name for name in ("summary.json", ".download.partial", ".x.0123456789ab.partial.txt")]
    for path in kept:
        path.write_text("mine")
    with locked(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {".lock", *(path.name for path in kept)}


@pytest.mark.parametrize("resume", [False, True])
def test_two_runs_cannot_train_in_one_folder(resume, tmp_path):
    with another_process_in(tmp_path), pytest.raises(FileExistsError, match="written by another run"):
        run_in(tmp_path).train(resume=resume)


def test_a_folder_filled_after_its_creation_is_not_overwritten(tmp_path):
    folder = RunFolder(tmp_path)
    folder.create()
    folder.write_json("spec.json", {})
    with pytest.raises(FileExistsError, match="already holds a run"):
        run_in(tmp_path).train()


def test_runs_started_at_the_same_time_get_different_folders(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        paths = [f.path for f in pool.map(lambda _: new_folder(tmp_path / "runs", "ppo-CartPole-v1"), range(16))]
    names = {"ppo-CartPole-v1", *(f"ppo-CartPole-v1-{n}" for n in range(2, 17))}
    assert {path.name for path in paths} == names == {path.name for path in (tmp_path / "runs").iterdir()}


def test_a_root_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "runs").touch()
    with pytest.raises(PermissionError, match=r"cannot be written: .*\. Choose another --root"):
        new_folder(tmp_path / "runs", "a")


# A run that ends before it begins to train: its folder is removed again.


def failing(monkeypatch, error):
    """Let the compilation of every run fail with an error, or do what a function does."""

    def compile_nothing(population):
        if callable(error):
            error()
        raise error

    monkeypatch.setattr("shoal.training.population.Population.compile", compile_nothing)


def test_a_run_that_fails_before_it_trains_leaves_no_folder(tmp_path, monkeypatch):
    failing(monkeypatch, MemoryError("too large"))
    options = {"fields": FIELDS, "steps": 64, "root": tmp_path / "new" / "runs", **SILENT}
    for name in ("", "mine"):
        with pytest.raises(MemoryError, match="too large"):
            shoal.train("ppo", "CartPole-v1", name=name, **options)
    with pytest.raises(MemoryError, match="too large"):
        shoal.train_all("ppo", "CartPole-v1", sweep={"num_minibatches": [1, 2]}, **options)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_existed_before_is_kept_and_so_are_the_files_of_others(tmp_path, monkeypatch):
    failing(monkeypatch, MemoryError("too large"))
    (tmp_path / "before").mkdir()
    (tmp_path / "runs").mkdir()
    made = {"fields": FIELDS, "steps": 64, "root": tmp_path, **SILENT}
    with pytest.raises(MemoryError):
        shoal.train("ppo", "CartPole-v1", name="before", **made)
    failing(monkeypatch, lambda: (tmp_path / "notes" / "mine.txt").touch())
    with pytest.raises(TypeError):
        shoal.train("ppo", "CartPole-v1", name="notes", **made)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["before", "notes", "runs"]
    assert (tmp_path / "notes" / "mine.txt").is_file()


def test_a_later_run_of_several_that_fails_leaves_the_runs_before_it(tmp_path):
    folder = RunFolder(tmp_path / "a" / "one")
    folder.create()
    folder.write_json("spec.json", {})
    other = RunFolder(tmp_path / "a" / "two", [tmp_path / "a"])
    other.create()
    for each in (folder, other):
        each.remove_unused()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["one"]


def test_ctrl_c_while_compiling_leaves_no_folder(tmp_path, monkeypatch):
    seen = []

    def ends_the_process(signum, frame):  # as the command's handler does, with os._exit
        seen.append(sorted(tmp_path.iterdir()))
        raise KeyboardInterrupt

    failing(monkeypatch, lambda: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, ends_the_process)
    try:
        with pytest.raises(KeyboardInterrupt):
            shoal.train("ppo", "CartPole-v1", fields=FIELDS, steps=64, root=tmp_path / "runs", **SILENT)
        assert signal.getsignal(signal.SIGINT) is ends_the_process
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [[]] and not list(tmp_path.iterdir())


def test_a_lock_that_cannot_be_written_is_named(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # as on a full disk
    try:
        with pytest.raises(OSError, match="could not be written") as caught, locked(tmp_path):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(tmp_path / ".lock")
