"""Fixtures for tests of commands: an empty working folder, and a small finished run."""

import jax
import pytest

from shoal.cli.main import main
from tiny import FLAGS


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


@pytest.fixture(autouse=True)
def _work_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small finished run: two settings, two seeds."""
    root = tmp_path_factory.mktemp("runs")
    words = ["--seeds", "2", "--learning-rate", "1e-3,1e-2", "--root", str(root), "--name", "small", "--no-figures"]
    assert main(["train", "ppo", "CartPole-v1", *FLAGS, *words]) == 0
    return root / "small"
