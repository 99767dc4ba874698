"""`index.json`: it equals the registries, and is not used when it may be out of date; listings do not import JAX."""

import subprocess
import sys

import pytest

from shoal.cli import index

LISTINGS = """
import sys
from shoal.cli.main import main
for words in (["--help"], ["envs"], ["envs", "minigrid"], ["agents"], ["completion", "bash"], ["doctor", "--help"]):
    assert main(words) == 0
    assert "jax" not in sys.modules, words
"""


def test_the_file_holds_what_the_registries_hold():
    stored, found = index.from_file(), index.from_registries()
    assert stored is not None, "run: python -m shoal.cli.index"
    assert stored[:-1] == found[:-1], "run: python -m shoal.cli.index"
    quick = [
        name for name in found.envs if not name.startswith(("MiniGrid-", "BabyAI-"))
    ]  # a level takes 0.05 s to build
    assert [stored.env_row(name) for name in quick] == [found.env_row(name) for name in quick]


@pytest.mark.slow
def test_the_whole_file_is_up_to_date():
    assert index.FILE.read_text() == index.as_text(index.from_registries()), "run: python -m shoal.cli.index"


def test_listings_do_not_import_jax():
    done = subprocess.run([sys.executable, "-c", LISTINGS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "MiniGrid-DoorKey-8x8-v0" in done.stdout and "--learning-rate" in done.stdout


def test_the_file_is_not_used_with_other_modules_or_plug_ins(monkeypatch):
    with monkeypatch.context() as changed:
        changed.setattr(index, "_modules", lambda: ["envs/classic/cartpole.py", "envs/classic/new.py"])
        assert index.from_file() is None
    monkeypatch.setattr(index, "entry_points", lambda group: ["plug-in"] * (group == "shoal.agents"))
    assert index.from_file() is None
