"""What `kill -9` leaves of a run at any moment: it resumes, and `shoal.verify` finds nothing wrong with it.

Files change by renames, and by lines that are appended. So a copy of the folder after each of them is what a process
leaves that is killed then.
"""

import os
import shutil

import pytest

import shoal
from shoal.tracking.jsonl import JsonLines
from stops import assert_same_run
from tiny import SILENT

RUN = {
    "agent": "q-learning",
    "env": "FrozenLake-v1",
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


@pytest.fixture(scope="module", params=["alone", "selector"])
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
