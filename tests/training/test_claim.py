"""A folder is used by one run at a time, however that run was started and however it ended."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from shoal.training.claim import claimed
from shoal.training.folder import RunFolder, new_path
from shoal.training.loop import Run
from shoal.training.plan import make_plan
from shoal.training.spec import RunSpec

HOLD = """
import sys
from pathlib import Path
from shoal.training.claim import claimed
with claimed(Path(sys.argv[1])):
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
            claimed(tmp_path),
        ):
            pass
        process.kill()
        process.wait()
        with claimed(tmp_path):
            pass


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
        paths = list(pool.map(lambda _: new_path(tmp_path / "runs", "ppo-CartPole-v1"), range(16)))
    names = {"ppo-CartPole-v1", *(f"ppo-CartPole-v1-{n}" for n in range(2, 17))}
    assert {path.name for path in paths} == names == {path.name for path in (tmp_path / "runs").iterdir()}


def test_a_root_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "runs").touch()
    with pytest.raises(PermissionError, match=r"cannot be written: .*\. Choose another --root"):
        new_path(tmp_path / "runs", "a")
