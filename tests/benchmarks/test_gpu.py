"""The command for a GPU: it is rehearsed on a CPU, so that no minute of a GPU is spent on a typo."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def gpu():
    sys.path.insert(0, str(BENCHMARKS))
    import gpu

    yield gpu
    sys.path.remove(str(BENCHMARKS))
    for name in ("gpu", "run", "turns"):
        sys.modules.pop(name, None)


def test_every_part_is_rehearsed_without_a_failure(gpu, tmp_path):
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "all", "--rehearse", "--out", str(tmp_path)]
    ran = subprocess.run(command, env={**os.environ, "JAX_PLATFORMS": "cpu"}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    parts = [part for wave in gpu.WAVES for part in wave]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"gpu-{part}.json" for part in parts)
    rows = {part: json.loads((tmp_path / f"gpu-{part}.json").read_text())["rows"] for part in parts}
    for of_part in rows.values():
        assert not [row for row in of_part if "failed" in row or "error" in row or row.get("outcome") == "failed"]
    assert {"CliffWalking-v1", "q-learning-CliffWalking-v1-cpu"} <= {
        row["test"].partition("[")[2][:-1] for row in rows["correctness"] if "test" in row
    }
    assert {(row["agent"], row["agents"]) for row in rows["agents"]} == {("q-learning", 1), ("q-learning", 2)}


def test_every_job_of_the_plan_can_be_built(gpu):
    jobs = [
        job
        for part in ("stepping", "training", "agents", "forms", "flags")
        for worker in gpu.PARTS[part](False)
        if "--jobs" in worker.command
        for job in json.loads(worker.command[worker.command.index("--jobs") + 1])
    ]
    assert len(jobs) > 50
    for kind in {json.dumps([job.get("agent"), job["env"], job.get("fields", {})]) for job in jobs}:
        agent, env, fields = json.loads(kind)
        if agent:
            env = make(env)
            jax.eval_shape(partial(AGENTS[agent].build(**fields).bind(env).init, env=env), make_key(0))


def test_each_field_of_the_form_is_changed(gpu):
    from shoal.core.form import Form

    assert {name for change in gpu.changed_forms(2048) for name in change} == set(Form._fields) - set(gpu.NOT_CHANGED)
    assert gpu.other_values(True) == [False]
    assert gpu.other_values(4) == [1, 10]
    assert gpu.other_values(1) == [4]
    assert gpu.other_values("auto") == ["on", "off"]


def test_rates_of_peers_are_of_the_median_call_or_of_the_run(gpu, tmp_path):
    results = gpu.Results(tmp_path, {})
    results.record({"part": "a", "steps": 100, "wall_s": [1.0, 0.001, 0.002]})
    results.record({"part": "a", "steps": 100, "run_s": 4.0})
    results.record({"part": "a", "steps_per_second": 7.0})
    rows = json.loads((tmp_path / "gpu-a.json").read_text())["rows"]
    assert [row["steps_per_second"] for row in rows] == [50_000.0, 25.0, 7.0]


def test_a_job_has_the_estimate_of_the_same_program(gpu, monkeypatch, tmp_path):
    counted = {"launches": 3.0, "kernel_microseconds": 4.5, "host_microseconds": 4.0, "bytes": 7}
    (tmp_path / "results").mkdir()
    rows = {"env CartPole-v1 --envs 1024": counted, "agent ppo --members 2048": counted}
    (tmp_path / "results" / "gpu-program.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(gpu, "HERE", tmp_path)
    found = {"counted": {"launches": 3.0, "estimated_us": 4.5}}
    assert gpu.estimate({"env": "CartPole-v1", "num_envs": 1024}) == found
    assert gpu.estimate(gpu.PPO_MANY) == found
    assert gpu.estimate({**gpu.PPO_MANY, "form": {"flat_weights": True}}) == {}
    assert gpu.estimate({"env": "CartPole-v1", "num_envs": 8}) == {}
