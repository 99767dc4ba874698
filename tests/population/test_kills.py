"""A run with a selector that is killed with SIGKILL at any moment resumes, and ends with the same bits."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from shoal.training import checkpoint

RUN = ["q-learning", "CliffWalking-v1", "--num-steps", "32", "--steps", "5120", "--seeds", "6", "--records", "40"]
RUN += ["--evaluations", "40", "--eval-episodes", "2", "--eval-max-steps", "10", "--no-figures", "--no-progress"]
RUN += ["--selector.vary", "learning_rate,env.step_reward=-2..-0.5"]
EVOLVE = ["evolve", "q-learning", "CliffWalking-v1", "--vary", "learning_rate,env.step_reward=-2..-0.5"]
EVOLVE += ["--num-steps", "32", "--env.max-steps", "8", "--steps", "256", "--records", "4", "--generations", "10"]
EVOLVE += ["--candidates", "4", "--seeds", "2", "--no-figures", "--no-progress"]
SEVERAL = ["evolve", "q-learning", "--envs", "Blackjack-v1,Taxi-v4", "--vary", "learning_rate", "--preset", "none"]
SEVERAL += ["--steps", "1000", "--records", "2", "--generations", "10", "--candidates", "4", "--seeds", "2"]
SEVERAL += ["--test-seeds", "2", "--no-figures", "--no-progress"]
LINES = {
    "pbt": ["train", *RUN, "--selector", "pbt"],
    "pb2": ["train", *RUN, "--selector", "pb2", "--selector.memory", "5"],
    "halving": ["train", *RUN, "--selector", "halving", "--selector.eta", "2", "--selector.refill", "fresh"],
    "random": ["train", *RUN, "--selector", "random", "--selector.every", "3"],
    "evolve": EVOLVE,
    "evolve in segments": [*EVOLVE, "--strategy", "PersistentES", "--segments", "2", "--sigma-decay", "0.9"],
    "evolve in two environments": SEVERAL,
}


def start(*words):
    return subprocess.Popen([sys.executable, "-m", "shoal.cli.main", *words], stderr=subprocess.PIPE)


def finish(*words):
    process = start(*words)
    _, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors


def contents(folder):
    """Everything that a finished run leaves except times: the arrays of its checkpoint, its curves, what it found.

    Of an evolution over several environments also that of the other runs, and how it transfers.
    """
    others = {f"{path.name}/{part}": value for path in folder.glob("envs/*") for part, value in contents(path).items()}
    if others:
        others["transfer"] = str(json.loads((folder / "summary.json").read_text())["transfer"])
    found = others | {"found": (folder / "found.json").read_text()} if (folder / "found.json").exists() else {}
    for part in ("learners.npz", "run.npz", "policies.npz"):
        with np.load(checkpoint.newest(folder / "checkpoints") / part) as file:
            found |= {f"{part}/{name}": file[name] for name in file}
    with np.load(folder / "curves.npz") as file:
        return found | {name: file[name] for name in file if name != "wall_seconds"}


def kill_and_resume(line, folder, delay):
    """Kill the run `delay` seconds after its folder appears, or when it is over; then resume it, or start it again."""
    process = start(*line, "--root", str(folder.parent), "--name", folder.name)
    while not (folder / "spec.json").exists() and process.poll() is None:
        time.sleep(0.002)
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode in (-signal.SIGKILL, 0)
    finish(line[0], "--resume", str(folder), "--no-figures", "--no-progress")
    return process.returncode


@pytest.mark.parametrize(
    ("name", "moments"),
    [("pbt", 1), *(pytest.param(name, 20, marks=pytest.mark.slow) for name in LINES)],
)
@pytest.mark.timeout(7200)
def test_a_killed_run_resumes_to_the_same_bits(name, moments, tmp_path):
    finish(*LINES[name], "--root", str(tmp_path), "--name", "whole")
    expected = contents(tmp_path / "whole")
    assert (expected["occupant"][-1] != expected["occupant"][0]).any()
    delays, killed = random.Random(0), 0
    for moment in range(moments):
        folder = tmp_path / f"killed-{moment}"
        status = kill_and_resume(LINES[name], folder, delays.uniform(0, 0.4))
        killed += status == -signal.SIGKILL
        found = contents(folder)
        assert found.keys() == expected.keys()
        for part in expected:
            np.testing.assert_array_equal(found[part], expected[part], err_msg=part)
    assert killed >= moments / 2
