"""`shoal train --distributed`: one run in several processes of this machine, connected over loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from checkpoints import arrays_of
from commands import refused
from shoal.cli.main import main
from shoal.training import checkpoint

SECONDS = 120  # a process that does not end by then fails its test
WORDS = "train q-learning CliffWalking-v1 --preset none --num-steps 250 --seeds 3 --steps 20_000 --records 20"
TRAIN = f"{WORDS} --evaluations 2 --eval-episodes 3 --eval-max-steps 20 --no-figures --no-progress".split()


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def start(words, distributed, folder=None, **variables):
    command = [sys.executable, "-m", "shoal", *words, "--distributed", distributed]
    environment = {**os.environ, **variables}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=-1, stderr=-1, text=True)


def start_all(words, count, folders=()):
    """Start `count` processes of one run; `words` and `folders` may differ for each."""
    address = free_address()
    lines = words if isinstance(words[0], list) else [words] * count
    folders = folders or [None] * count
    return [start(lines[n], f"{address},{count},{n}", folders[n]) for n in range(count)]


def ended(processes):
    """Wait until all processes have ended: (exit status, standard output, standard error) of each."""
    try:
        outputs = [process.communicate(timeout=SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *output) for process, output in zip(processes, outputs, strict=True)]


def wait_for_records(name, processes):
    while not Path("runs", name, "metrics.jsonl").exists() and all(process.poll() is None for process in processes):
        time.sleep(0.002)


def arrays(name):
    """The last checkpoint and the curves of a run, by name; without times."""
    folder = Path("runs", name)
    with np.load(folder / "curves.npz") as curves:
        of_curves = {f"curves/{name}": curves[name] for name in curves.files if name != "wall_seconds"}
    return {**arrays_of(checkpoint.newest(folder / "checkpoints"), "learners", "policies"), **of_curves}


def assert_same(found, expected):
    found, expected = arrays(found), arrays(expected)
    assert found.keys() == expected.keys() and len(found) > 15
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.fixture
def straight():
    """A run in this process that was never stopped."""
    assert main([*TRAIN, "--name", "straight"]) == 0
    return "straight"


def test_a_run_that_lost_a_process_goes_on_in_one_process_with_the_same_bits(straight):
    processes = start_all([*TRAIN, "--name", "r"], 2)
    wait_for_records("r", processes)
    processes[1].kill()
    (status, _, err), _ = ended(processes)
    assert status == 2 and err.startswith("shoal: process 1 on ") and "is lost" in err
    assert err.endswith("Continue, with any number of processes: shoal train --resume runs/r\n")
    assert not Path("runs/r/summary.json").exists()
    assert main(["train", "--resume", "runs/r", "--no-progress", "--no-figures"]) == 0
    assert_same("r", straight)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_a_run_has_the_same_bits_in_any_number_of_processes(count, straight):
    ((status, out, _),) = ended([start([*TRAIN, "--name", "r"], f"local:{count}")])
    assert status == 0 and out.count("runs/r") == 1
    assert_same("r", straight)


EVOLVE = (
    "evolve q-learning CliffWalking-v1 --vary learning_rate,env.step_reward=-2..-0.5 --num-steps 250 "
    "--env.max-steps 50 --generations 8 --candidates 2 --steps 2000 --records 2 --no-figures --no-progress"
)
PBT = " ".join(TRAIN).replace("--seeds 3", "--seeds 4").replace("--evaluations 2", "--evaluations 20")
OF_SELECTORS = {
    "pbt": f"{PBT} --selector pbt --selector.vary learning_rate".split(),
    "evolve": EVOLVE.split(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_SELECTORS)
def test_a_run_with_a_selector_that_lost_a_process_goes_on_in_another_number_of_them(name):
    words = OF_SELECTORS[name]
    assert main([*words, "--name", "straight"]) == 0
    ((status, out, _),) = ended([start([*words, "--name", "three"], "local:3")])
    assert status == 0 and out.count("runs/three") == (2 if name == "evolve" else 1)
    assert_same("three", "straight")
    processes = start_all([*words, "--name", "r"], 2)
    wait_for_records("r", processes)
    processes[1].kill()
    assert ended(processes)[0][0] == 2
    again = [words[0], "--resume", "runs/r", "--no-progress", "--no-figures"]
    assert [status for status, *_ in ended([start(again, "local:4")])] == [0]
    assert_same("r", "straight")


@pytest.mark.slow
def test_a_run_that_lost_process_0_goes_on_in_more_processes(straight):
    processes = start_all([*TRAIN, "--name", "r"], 2)
    wait_for_records("r", processes)
    processes[0].kill()
    _, (status, _, err) = ended(processes)
    assert status == 2 and err.startswith("shoal: process 0 on 127.0.0.1 is lost") and err.count("\n") == 1
    resumed = ended(start_all(["train", "--resume", "runs/r", "--no-progress", "--no-figures"], 3))
    assert [status for status, *_ in resumed] == [0, 0, 0] and [bool(out) for _, out, _ in resumed] == [
        True,
        False,
        False,
    ]
    assert_same("r", straight)


@pytest.mark.slow
@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_a_signal_to_any_process_stops_all_with_the_chunk_saved(which, straight):
    processes = start_all([*TRAIN, "--name", "r"], 2)
    wait_for_records("r", processes)
    for n in which:
        processes[n].send_signal(signal.SIGTERM)
    for status, _, err in ended(processes):
        assert status == 143 and err.endswith("shoal: stopped. Continue with: shoal train --resume runs/r\n")
    assert main(["train", "--resume", "runs/r", "--no-progress", "--no-figures"]) == 0
    assert_same("r", straight)


@pytest.mark.slow
def test_ctrl_c_in_the_terminal_of_a_local_run_stops_it_once(straight):
    process = start([*TRAIN, "--name", "r"], "local:2")
    wait_for_records("r", [process])
    process.send_signal(signal.SIGINT)
    ((status, _, err),) = ended([process])
    assert status == 130 and err.count("stopped. Continue with: shoal train --resume runs/r") == 2


@pytest.mark.slow
def test_different_specs_are_refused_by_all_processes():
    lines = [[*TRAIN, "--name", "r"], [*TRAIN, "--name", "r", "--epsilon-end", "0.2"]]
    results = ended(start_all(lines, 2))
    assert [status for status, *_ in results] == [2, 2] and results[0][2] == results[1][2]
    assert "was started for another run than process 0 (epsilon_end: 0.05 -> 0.2): give all" in results[0][2]
    assert not Path("runs").exists()


@pytest.mark.slow
def test_the_other_processes_need_no_run_folder(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    assert [status for status, *_ in ended(start_all([*TRAIN, "--name", "r"], 2, folders))] == [0, 0]
    again = ["train", "--resume", "runs/r", "--steps", "30_000", "--no-progress", "--no-figures"]
    assert [status for status, *_ in ended(start_all(again, 2, folders))] == [0, 0]
    assert (folders[0] / "runs/r/summary.json").exists() and not any(folders[1].iterdir())


SCRIPT = """
import sys, shoal
number = shoal.prepare(distributed=sys.argv[1])
result = shoal.train("q-learning", "CliffWalking-v1", steps=1000, seeds=2, progress=False, figures=False, folder="r")
print(number, type(result).__name__, len(result.members))
"""


@pytest.mark.slow
def test_a_script_runs_in_every_process():
    address = free_address()
    words = [[sys.executable, "-c", SCRIPT, f"{address},2,{n}"] for n in (0, 1)]
    results = ended([subprocess.Popen(line, stdout=-1, stderr=-1, text=True) for line in words])
    assert [out for _, out, _ in results] == ["0 Result 2\n", "1 Result 2\n"], results


@pytest.mark.slow
def test_the_processes_of_a_slurm_job_find_each_other(straight):
    job = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}
    each = [{**job, "SLURM_PROCID": n, "SLURM_LOCALID": n} for n in ("0", "1")]
    results = ended([start([*TRAIN, "--name", "r"], "auto", **variables) for variables in each])
    assert [status for status, *_ in results] == [0, 0], results
    assert_same("r", straight)


def test_a_wrong_address_is_refused(capsys):
    assert "--distributed local:0: give 1 to 64 processes" in refused(capsys, *TRAIN, "--distributed", "local:0")


def test_a_dry_run_starts_no_processes(capsys):
    assert main([*TRAIN, "--distributed", "local:2", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("dry run: 1 run;")
