"""Runs that are stopped or killed, and then resumed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from commands import say
from shoal.cli.main import main
from shoal.training import checkpoint
from stops import assert_same_run
from tiny import FLAGS

# Killed runs.


def test_a_killed_run_is_resumed_bit_for_bit(run, tmp_path):
    """SIGKILL at a random moment after the first record; the resumed run equals an uninterrupted one."""
    words = ["train", "ppo", "CartPole-v1", *FLAGS, "--seeds", "2", "--learning-rate", "1e-3,1e-2", "--no-figures"]
    process = subprocess.Popen([sys.executable, "-m", "shoal.cli.main", *words, "--name", "r"], cwd=tmp_path)
    folder = tmp_path / "runs" / "r"
    deadline = time.monotonic() + 200
    while not (folder / "metrics.jsonl").exists() and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.002)
    time.sleep(float(np.random.default_rng().uniform(0, 0.1)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert main(["train", "--resume", str(folder), "--no-progress", "--no-figures"]) == 0
    resumed, straight = (np.load(checkpoint.newest(f / "checkpoints") / "learners.npz") for f in (folder, run))
    with resumed, straight:
        assert set(resumed) == set(straight)
        for name in straight:
            np.testing.assert_array_equal(resumed[name], straight[name], err_msg=name)
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 4


def test_ctrl_c_in_the_last_chunk_starts_no_other_run(capsys, monkeypatch):
    from shoal.training.records import Records

    save = Records.save

    def save_and_interrupt(self, *arguments):
        save(self, *arguments)
        if len(self) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as once:
        once.setattr(Records, "save", save_and_interrupt)
        words = [*FLAGS[2:], "--num-envs", "4,8", "--no-figures", "--name", "r"]
        status, _, err = say(capsys, "train", "ppo", "CartPole-v1", *words)
    assert (
        status == 130
        and "stopped after training was complete. To draw the figures: shoal train --resume runs/r/num_envs=4" in err
    )
    assert [path.name for path in Path("runs/r").iterdir()] == ["num_envs=4"]
    assert Path("runs/r/num_envs=4/summary.json").is_file()


LONG = "train q-learning CliffWalking-v1 --num-steps 100 --records 1 --no-figures --seeds 1 --name r"  # one chunk
STOPPING = "stopping when the training so far is saved"


def signalled(folder, words, signals, longest=10.0, growth=32):
    """Exit status and messages of a `shoal` process that gets each signal 0.5 s after it has said something.

    `longest` and `growth` are those of the pieces of a chunk.
    """
    code = f"from shoal.training import pieces; pieces.LONGEST, pieces.GROWTH = {longest}, {growth}"
    code += "; import sys; from shoal.cli.main import main; sys.exit(main())"
    command, said = [sys.executable, "-c", code, *words.split()], ""
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            for answer, number in signals:
                while answer not in (line := process.stderr.readline()):
                    assert line, f"ended before it said {answer!r}"
                    said += line
                said += line
                time.sleep(0.5)  # into the chunk
                process.send_signal(number)
            said += process.stderr.read()
            return process.wait(20), said
        finally:
            process.kill()


def test_ctrl_c_is_noticed_during_a_piece_and_a_second_ctrl_c_does_not_wait(tmp_path):
    hours, signals = f"{LONG} --steps 100_000_000_000", [("compiled in", signal.SIGINT), (STOPPING, signal.SIGINT)]
    status, said = signalled(tmp_path, hours, signals, longest=1e9, growth=10**12)
    assert status == 130 and "interrupted" in said


def test_signals_end_a_chunk_early_and_the_resumed_run_has_the_same_bits(tmp_path):
    words = f"{LONG} --steps 30_000_000"
    status, said = signalled(tmp_path, words, [("compiled in", signal.SIGTERM)], longest=0.02)
    assert status == 143 and STOPPING in said and "Continue with: shoal train --resume runs/r" in said
    assert not (tmp_path / "runs" / "r" / "curves.npz").exists()  # it is within its first record
    again = [("compiled in", signal.SIGINT)]
    status, said = signalled(tmp_path, "train --resume runs/r --no-figures", again, longest=0.02)
    assert status == 130 and STOPPING in said
    assert main(["train", "--resume", "runs/r", "--no-progress", "--no-figures"]) == 0
    assert main([*words.replace("--name r", "--name straight").split(), "--no-progress"]) == 0
    assert_same_run(tmp_path / "runs" / "r", tmp_path / "runs" / "straight")


def test_ctrl_c_exits_with_130_and_prints_how_to_resume(tmp_path, capsys, monkeypatch):
    from shoal.training.records import Records

    save = Records.save

    def save_and_interrupt(self, *arguments):
        save(self, *arguments)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as once:
        once.setattr(Records, "save", save_and_interrupt)
        status, _, err = say(capsys, "train", "ppo", "CartPole-v1", *FLAGS, "--no-figures", "--name", "r")
    assert status == 130 and "Continue with: shoal train --resume runs/r" in err
    assert main(["train", "--resume", "runs/r", "--no-progress", "--no-figures"]) == 0
    assert checkpoint.newest(tmp_path / "runs" / "r" / "checkpoints") is not None
