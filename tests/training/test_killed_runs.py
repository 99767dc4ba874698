"""What `kill -9` leaves of a run at any moment: it resumes, and `shoal.verify` finds nothing wrong with it.

Files change by renames, and by lines that are appended. So a copy of the folder after each of them is what a process
leaves that is killed then.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import shoal
from listeners import Interrupt
from shoal.tracking.jsonl import JsonLines
from shoal.training import checkpoint
from shoal.training.stopping import Stopped
from stops import assert_same_run
from tiny import SILENT

RUN = {
    "agent": "q-learning",
    "env": "Blackjack-v1",
    "fields": {"num_steps": 100},
    "steps": 400,
    "records": 4,
    "evaluations": 4,
    "eval_episodes": 5,
    "seeds": 4,
    **SILENT,
}


class Moments:
    """Copies a run folder after each change of its files, until the run is over."""

    def __init__(self, monkeypatch, folder, into):
        """Begin without a copy."""
        self.folder, self.into, self.copies = folder, into, []
        for owner, name in ((os, "rename"), (os, "replace"), (JsonLines, "receive")):
            monkeypatch.setattr(owner, name, self._copying(getattr(owner, name)))

    def _copying(self, change):
        def changed(*args):
            found = change(*args)
            if (self.folder / "spec.json").exists():
                self.copies.append(shutil.copytree(self.folder, self.into / str(len(self.copies))))
            return found

        return changed


@pytest.fixture(scope="module", params=["alone", pytest.param("selector", marks=pytest.mark.slow)])
def moments(request, tmp_path_factory):
    """A run, and what a kill leaves of it at each moment."""
    tmp_path = tmp_path_factory.mktemp("killed")
    how = {"selector": shoal.PBT(vary=("learning_rate",))} if request.param == "selector" else {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = Moments(monkeypatch, tmp_path / "run", tmp_path / "moments")
        shoal.train(**RUN, **how, folder=found.folder)
    return found


def test_a_run_that_was_killed_at_any_moment_does_not_differ(moments):
    assert len(moments.copies) > 20
    trained = 0
    for copy in moments.copies:
        found = shoal.verify(copy, at_most=0)
        assert found.outcome == "not verified", f"{copy}: {found}"
        trained += any(check.what == "summary.json" for check in found.checks)
    assert trained > 10
    for copy in moments.copies[len(moments.copies) // 2 :: 9]:
        found = shoal.verify(copy)
        assert (found.outcome, found.share) == ("verified", 1.0), f"{copy}: {found}"


def test_a_run_that_was_killed_at_any_moment_resumes_to_the_same_bits(moments, tmp_path):
    for i, copy in enumerate(moments.copies[::5]):
        folder = shutil.copytree(copy, tmp_path / str(i))
        shoal.train(resume=folder, **SILENT)
        assert_same_run(folder, moments.folder)


@pytest.fixture(scope="module")
def branch(tmp_path_factory):
    """A branch with no evaluation of its own before its end, and what a kill leaves of it at each moment."""
    tmp_path = tmp_path_factory.mktemp("branch")
    trunk = shoal.train(**{**RUN, "evaluations": 2}, keep_checkpoints=1, folder=tmp_path / "trunk").folder
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = Moments(monkeypatch, tmp_path / "b", tmp_path / "moments")
        shoal.branch(trunk, 2, {"learning_rate": [0.9]}, root=tmp_path, name="b", **SILENT)
    return trunk, found


def test_a_branch_that_was_killed_at_any_moment_goes_on_to_the_same_bits(branch, tmp_path):
    trunk, moments = branch
    copies = [*moments.copies[:6], *moments.copies[6::3]]  # also before its first checkpoint
    assert len(moments.copies) > 12 and not checkpoint.saved(moments.copies[0] / "checkpoints")
    for i, copy in enumerate(copies):
        folder = shutil.copytree(copy, tmp_path / str(i))
        if not checkpoint.saved(folder / "checkpoints"):  # then stopped again, before its first evaluation
            with pytest.raises(Stopped):
                shoal.train(resume=folder, **SILENT, sinks=[Interrupt(after=1)])
        if i % 2:
            shoal.train(resume=folder, **SILENT)
        else:
            shoal.branch(trunk, 2, {"learning_rate": [0.9]}, root=tmp_path, name=str(i), **SILENT)
        assert_same_run(folder, moments.folder)


def test_a_branch_that_was_killed_at_any_moment_does_not_differ(branch):
    _, moments = branch
    for copy in moments.copies[::2]:
        assert shoal.verify(copy, at_most=0).outcome == "not verified", copy


KILLED = """
import os, signal, sys
import shoal
from shoal.training import checkpoint
from test_killed_runs import RUN

save, left = checkpoint.save, int(sys.argv[1])


def killed(directory, *args, **options):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    save(directory, *args, **options)


checkpoint.save = killed
if sys.argv[2] == "train":
    shoal.train(**RUN, folder="run")
else:
    shoal.branch("run", 2, {"learning_rate": [0.9]}, root=".", name="b", progress=False, figures=False)
"""


def killed(words, cwd):
    """Start a process that is killed when it begins to save its Nth checkpoint or its best policies."""
    here = Path(__file__).parent
    paths = [str(here), str(here.parent), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run([sys.executable, "-c", KILLED, *words], cwd=cwd, env=env, capture_output=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_processes_that_are_killed_leave_runs_that_are_verified_and_branches_that_go_on(tmp_path):
    killed(["6", "train"], tmp_path)  # each record saves the best policies, then a checkpoint: before that of record 3
    found = shoal.verify(tmp_path / "run")
    assert (found.outcome, found.share) == ("verified", 1.0), str(found)
    shoal.train(resume=tmp_path / "run", keep_checkpoints=1, **SILENT)
    assert shoal.verify(tmp_path / "run").outcome == "verified"

    trunk = shoal.train(**RUN, keep_checkpoints=1, folder=tmp_path / "whole" / "run").folder
    vary = {"learning_rate": [0.9]}
    whole = shoal.branch(trunk, 2, vary, root=tmp_path / "whole", name="b", **SILENT).results[0]
    shutil.rmtree(tmp_path / "run")
    shutil.copytree(trunk, tmp_path / "run")
    killed(["2", "branch"], tmp_path)  # when it has saved the best policies of its run, before its first record
    assert not checkpoint.saved(tmp_path / "b" / "checkpoints")
    shoal.train(resume=tmp_path / "b", **SILENT)
    assert_same_run(tmp_path / "b", whole.folder)
