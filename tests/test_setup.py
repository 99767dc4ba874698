"""The script `setup`: which Python it takes, tried with programs in place of Pythons."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A Python that is new enough, and that notes what it is asked to make: it can make nothing.
NEW = '#!/bin/sh\ncase "$1" in -c) exit 0 ;; -m) echo "$(basename "$0") $2" >>asked; exit 1 ;; esac\necho fake\n'
OLD = "#!/bin/sh\nexit 1\n"


@pytest.fixture
def set_up(tmp_path):
    """Run `setup` where only these programs are Pythons; returns (the first request to one of them, the messages)."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "cat", "cksum", "dirname", "basename"):
        (programs / name).symlink_to(shutil.which(name))
    for name in ("setup", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)

    def run(pythons, **variables):
        for name, text in pythons.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        done = subprocess.run(
            ["sh", "setup"], cwd=tmp_path, env={"PATH": str(programs), **variables}, capture_output=True, text=True
        )
        assert done.returncode != 0  # a program in place of a Python makes no environment
        asked = tmp_path / "asked"
        return asked.read_text().splitlines()[0] if asked.exists() else "", done.stderr

    return run


@pytest.mark.parametrize(
    ("pythons", "taken"),
    [
        ({"python3": NEW, "python3.12": NEW, "python3.13": NEW}, "python3.12"),
        ({"python3": NEW, "python3.12": OLD, "python3.13": NEW}, "python3"),  # as a shim of pyenv for another version
        ({"python3": OLD, "python3.13": NEW, "python3.11": NEW}, "python3.13"),
        ({"python3": OLD, "python3.11": NEW}, "python3.11"),
    ],
)
def test_python_3_12_is_taken_if_it_is_there(pythons, taken, set_up):
    assert set_up(pythons)[0] == f"{taken} venv"


def test_the_python_that_is_asked_for_is_taken(set_up):
    assert set_up({"python3": NEW, "python3.12": NEW, "python3.11": NEW}, PYTHON="python3.11")[0] == "python3.11 venv"


def test_without_a_python_that_is_new_enough_the_message_says_what_to_do(set_up):
    asked, said = set_up({"python3": OLD, "python3.12": OLD})
    assert asked == "" and "no Python 3.11 or newer is on PATH. Install one, or run: PYTHON=/path/to/python3.12" in said
    assert "PYTHON=python3.9 is not a Python of version 3.11" in set_up({"python3.9": OLD}, PYTHON="python3.9")[1]


def test_containers_and_hosted_lint_take_the_same_default():
    assert "ARG BASE=python:3.12-" in (ROOT / "Dockerfile").read_text()
    hosted = ROOT / ".github" / "workflows" / "tests.yml"
    if not hosted.is_file():
        pytest.skip("a source distribution has no files of the host")
    assert "if: matrix.python == '3.12'" in hosted.read_text()
    assert {'python: "3.11"', 'python: "3.13"'} < {*re.findall(r'python: "3\.\d+"', hosted.read_text())}
