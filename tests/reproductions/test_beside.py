"""Other libraries beside shoal: measured if they are installed, otherwise a sentence on the page."""

import json
import sys

from reproductions import workspace
from reproductions.beside import Peer, bench, measure_peer, train
from reproductions.reproduction import Need, NotMeasured
from reproductions.workspace import Workspace
from shoal.training.host import with_small_loops


def test_a_missing_package_is_said_once_and_nothing_runs(tmp_path):
    notes, peer = [], Peer("Other", "no_such_script", (Need("no_such_package", "pip install it"),))
    work = Workspace(tmp_path, "", print)
    assert measure_peer(work._replace(python=sys.executable), peer, notes) is None
    assert measure_peer(work._replace(python=sys.executable), peer, notes) is None
    assert notes == ["Other: not measured here: needs the package no_such_package (pip install it)."]


def test_an_installed_peer_is_measured_with_the_words(tmp_path, monkeypatch):
    asked = []
    answer = {"steps": 3, "versions": {"python": "3.9", "json": "2.0", "jax": "0.1"}}
    monkeypatch.setattr(Workspace, "peer", lambda self, *words, threads: asked.append((*words, threads)) or answer)
    notes, peer = [], Peer("Other", "script", (Need("json"),), ("jax", "flax"), 16)
    assert measure_peer(Workspace(tmp_path, sys.executable, print), peer, notes, "--steps", 3) == answer
    assert asked == [("script", "--steps", 3, 16)] and notes == ["Other: python 3.9, json 2.0, jax 0.1."]


def test_a_failing_script_is_a_sentence(tmp_path, monkeypatch):
    def fail(self, *words, threads):
        raise NotMeasured("`the script x.py` failed: no memory")

    monkeypatch.setattr(Workspace, "peer", fail)
    notes = []
    assert measure_peer(Workspace(tmp_path, "", print), Peer("Other", "x", ()), notes) is None
    assert notes == ["Other: not measured here: `the script x.py` failed: no memory."]


def test_a_peer_runs_with_the_threads_asked_for_and_the_flags_of_shoal(tmp_path, monkeypatch):
    names = ("NPROC", "XLA_FLAGS", "JAX_ENABLE_COMPILATION_CACHE")
    (tmp_path / "tell.py").write_text(
        f"import json, os, sys\nprint(json.dumps({{n: os.environ[n] for n in {names!r}}} | {{'argv': sys.argv}}))"
    )
    monkeypatch.setattr(workspace, "WORKERS", tmp_path)
    monkeypatch.setenv("NPROC", "2")
    monkeypatch.setenv("XLA_FLAGS", with_small_loops(""))
    for asked, threads in ((0, "2"), (16, "16")):
        told = Workspace(tmp_path, sys.executable, print).peer("tell", threads=asked)
        assert [told[name] for name in names] == [threads, with_small_loops(""), "false"]
        assert "argv" not in told  # it may hold paths of this machine


def test_training_shows_the_command_that_repeats_it(tmp_path, in_process):
    done = train(Workspace(tmp_path, "", lambda text: None), "tiny", "q-learning", "GridWorld-v0", "--steps", 200)
    assert done.command == (
        "shoal train q-learning GridWorld-v0 --steps 200 --evaluations 0 --preset none --no-figures --no-progress "
        "--name tiny"
    )
    assert done.result.spec.steps == 200 and json.loads((done.result.folder / "spec.json").read_text())


def test_benchmarks_say_how_many_environments_they_step(tmp_path, monkeypatch):
    rows = [{"env": "E-v0", "num_envs": size, "steps_per_second": 10 * size} for size in (1, 2048)]
    (tmp_path / "bench.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(Workspace, "shoal", lambda self, *words: None)
    said = []
    assert bench(Workspace(tmp_path, "", said.append), ["E-v0"], [1, 2048]) == {"E-v0": {1: 10, 2048: 20480}}
    assert said == ["  shoal bench: 1 environment, 1 and 2,048 copies in a call"]
