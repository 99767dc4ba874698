"""Reproductions in tests: an empty registry, and processes that run inside this one, which saves start-up time."""

import io
import json
import runpy
import sys
from contextlib import chdir, redirect_stdout

import jax
import pytest

from reproductions import reproduction
from reproductions.workspace import WORKERS, Done, Workspace
from shoal.cli.main import main


@pytest.fixture(autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture
def registry(monkeypatch):
    """An empty registry, a dict by name. `register` fills it as long as the test runs."""
    registered = {}
    monkeypatch.setattr(reproduction, "_REGISTERED", registered)
    monkeypatch.setattr(reproduction, "_import_sources", lambda: None)
    return registered


@pytest.fixture
def in_process(monkeypatch):
    """Let commands of shoal and scripts of others run in this process."""

    def shoal(self, *words):
        with chdir(self.folder), redirect_stdout(io.StringIO()) as out:
            assert main([str(word) for word in words]) == 0
        return Done(1.0, 1.0, out.getvalue())

    def peer(self, script, *words, threads=0):
        monkeypatch.setattr(sys, "argv", [script, *map(str, words)])
        monkeypatch.syspath_prepend(WORKERS)  # as for a script that is started
        with redirect_stdout(io.StringIO()) as out:
            runpy.run_path(str(WORKERS / f"{script}.py"), run_name="__main__")
        return {**json.loads(out.getvalue().splitlines()[-1]), "seconds": 1.0, "cpu_seconds": 1.0}

    monkeypatch.setattr(Workspace, "shoal", shoal)
    monkeypatch.setattr(Workspace, "peer", peer)
    monkeypatch.setattr("shoal.training.host.prepare", lambda **options: None)  # JAX is running already
