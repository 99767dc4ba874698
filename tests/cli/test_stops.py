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


def test_ctrl_c_is_noticed_during_a_chunk_and_a_second_ctrl_c_does_not_wait(tmp_path):
    words = "train q-learning CliffWalking-v1 --steps 100_000_000_000 --records 1 --no-figures --seeds 1"  # hours
    command = [sys.executable, "-m", "shoal.cli.main", *words.split()]
    answers = ("compiled in", "stopping when this chunk is saved", "interrupted")
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            for answer in answers:
                while answer not in (line := process.stderr.readline()):
                    assert line, f"ended before it said {answer!r}"
                time.sleep(0.5)  # into the chunk
                process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
        finally:
            process.kill()


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
