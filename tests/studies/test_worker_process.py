"""The process of a worker: its command, and how it ends."""

import json
import subprocess
import sys

import pytest

from shoal.studies.worker_processes import command


@pytest.fixture
def ended(tmp_path):
    """A worker of a folder without a study, started in a folder whose files must not replace modules."""
    (tmp_path / "json.py").write_text("raise SystemExit(7)")
    words = command(resume=str(tmp_path / "none"), worker="w3", cache=False)
    return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)


def test_a_worker_that_cannot_begin_says_why_in_a_line_and_ends_with_2(ended, tmp_path):
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [f"shoal: {tmp_path / 'none'} is not the folder of a study: it does not exist."]


def test_the_command_has_this_interpreter_and_the_arguments_as_json():
    words = command(resume="runs/s", grace=1.5)
    assert words[0] == sys.executable and json.loads(words[-1]) == {"resume": "runs/s", "grace": 1.5}
