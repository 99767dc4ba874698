"""`shoal bsuite`: the files it writes, its output, and its error messages."""

import json

import jax
import numpy as np
import pytest

from shoal.cli.main import main
from shoal.envs.bsuite.experiments import EXPERIMENTS
from shoal.studies.bsuite import chosen_experiments
from shoal.training.loop import Run
from shoal.training.stopping import Stopped

TINY = ["--num-steps", "16", "--hidden", "8", "--num-epochs", "1", "--num-minibatches", "1"]


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(autouse=True)
def _work_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shoal.training.host.prepare", lambda **options: None)


def test_a_quick_run_writes_scores_logs_and_a_radar(tmp_path, capsys):
    words = ["bsuite", "ppo", "--experiments", "bandit_noise", "--quick", "--episodes-scale", "0.01", *TINY]
    assert main(words) == 0
    folder = tmp_path / "runs" / "bsuite-ppo"
    found = json.loads((folder / "scores.json").read_text())
    noisy = found["experiments"]["bandit_noise"]
    assert noisy["ids"] == 4 and noisy["episodes"] == 100 and noisy["steps"] == 4 * 100 and not noisy["finished"]
    assert 0 <= noisy["score"] <= 1 and found["tags"]["noise"] == noisy["score"] and found["tags"]["memory"] is None
    # Arms with rewards 0, 0.1, ..., 1: a regret is a whole number of tenths, and none in 100 pulls costs more than 100.
    table = np.loadtxt(folder / "logs" / "bsuite_id_-_bandit_noise-0.csv", delimiter=",", skiprows=1)
    assert table[:, 0].tolist() == [*range(1, 11), 12, 14, 17, 20, 25, *range(30, 101, 10)]
    regret = table[:, -1]
    np.testing.assert_allclose(regret * 10, np.rint(regret * 10), atol=1e-4)
    assert (np.diff(regret) >= 0).all() and regret[-1] <= 100
    assert (folder / "figures" / "radar.png").is_file()
    assert [path.name for path in (folder / "programs").iterdir()] == ["bandit_noise-0-19"]
    out = capsys.readouterr().out
    assert "bandit_noise" in out and "a part" in out and "4 of 20" in out and "100 of 10,000" in out
    before = (folder / "scores.json").read_bytes()
    assert main(["bsuite", "ppo", "--experiments", "catch", "--quick", "--name", "bsuite-ppo", *TINY]) == 2
    answer = capsys.readouterr().err
    assert "already holds a run of bsuite. Continue it with `shoal bsuite --resume runs/bsuite-ppo`" in answer
    assert (folder / "scores.json").read_bytes() == before


@pytest.mark.parametrize(
    ("experiments", "before"), [("bandit_noise", 0), pytest.param("bandit,bandit_noise", 4, marks=pytest.mark.slow)]
)
def test_a_stopped_run_resumes_to_the_same_logs(experiments, before, tmp_path, capsys, monkeypatch):
    """`before`: records of the programs before the one that is stopped; each has four."""
    words = ["bsuite", "ppo", "--experiments", experiments, "--quick", "--episodes-scale", "0.01", *TINY]
    assert main([*words, "--no-figures", "--name", "whole"]) == 0
    chunks, step = [], Run.step

    def stops_in_the_middle(run, *stop):
        if run.is_over:
            return False
        chunks.append(run)
        if len(chunks) == before + 2:
            raise Stopped
        return step(run, *stop)

    monkeypatch.setattr(Run, "step", stops_in_the_middle)
    capsys.readouterr()
    assert main([*words, "--no-figures", "--name", "parts"]) == 130
    assert "stopped in bandit_noise/0-19. Continue with: shoal bsuite --resume runs/parts" in capsys.readouterr().err
    left = tmp_path / "runs" / "parts" / ".scores.json.0123456789ab.partial"  # by a process that was killed
    left.touch()
    assert main(["bsuite", "--resume", "runs/parts"]) == 0
    assert not left.exists()
    assert len(chunks) == before + 2 + 3  # programs before are whole, the last one has one of its four records
    assert main(["bsuite", "--resume", "runs/parts"]) == 0
    assert len(chunks) == before + 2 + 3  # now this one is whole, too
    whole, parts = tmp_path / "runs" / "whole", tmp_path / "runs" / "parts"
    logs = sorted(path.name for path in (whole / "logs").iterdir())
    assert len(logs) == before + 4 and logs == sorted(path.name for path in (parts / "logs").iterdir())
    assert all((whole / "logs" / name).read_bytes() == (parts / "logs" / name).read_bytes() for name in logs)
    program = parts / "programs" / f"{experiments.split(',')[0]}-0-19"
    spec = json.loads((program / "spec.json").read_text())
    (program / "spec.json").write_text(json.dumps({**spec, "seed": 9}))
    assert main(["bsuite", "--resume=runs/parts"]) == 2
    assert "was started by another version of shoal" in capsys.readouterr().err


def test_a_dry_run_prints_programs_and_steps(tmp_path, capsys):
    assert main(["bsuite", "ppo", "--experiments", "deep_sea,catch", "--quick", "--dry-run"]) == 0
    out = capsys.readouterr().out
    # 4 ids of catch train together, 9 steps x 500 each; seas of 10, 24, 36 and 50 rows one by one, 500 episodes each.
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if "/" in line}
    assert rows["catch/0-19"] == ["4", "500", str(4 * 9 * 500)] and rows["deep_sea/20"] == ["1", "500", str(50 * 500)]
    assert "5 programs, 78,000 steps in all" in out and not (tmp_path / "runs").exists()


def test_a_sweep_over_lengths_is_one_program_with_steps_for_the_longest(capsys):
    assert main(["bsuite", "ppo", "--experiments", "memory_len", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "memory_len/0-22" in out and f"1 program, {23 * 101 * 10_000:,} steps" in out


def test_mnist_is_left_out_where_its_files_are_missing(monkeypatch, capsys):
    assert chosen_experiments([]) == (list(EXPERIMENTS), [])
    monkeypatch.delenv("SHOAL_MNIST")
    found, left_out = chosen_experiments([])
    assert found == [name for name in EXPERIMENTS if not name.startswith("mnist")]
    assert left_out[0].startswith("mnist is left out: MNISTBandit needs MNIST's training files") and len(left_out) == 3
    noisy = [name for name, e in EXPERIMENTS.items() if "noise" in e.tags and name != "mnist_noise"]
    assert chosen_experiments(["noise"])[0] == noisy
    assert main(["bsuite", "ppo", "--experiments", "mnist"]) == 2
    assert "SHOAL_MNIST" in capsys.readouterr().err


def test_experiments_are_chosen_by_name_or_tag():
    assert chosen_experiments(["memory", "bandit"])[0] == ["bandit", "memory_len", "memory_size"]
    assert chosen_experiments(["scale"])[0] == [name for name in EXPERIMENTS if name.endswith("_scale")]


def test_ranges_of_ids_are_one_row(capsys):
    assert main(["envs", "bsuite/catch"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out[2:]] == [f"bsuite/catch{kind}/0-19" for kind in ("", "_noise", "_scale")]


def test_one_id_has_its_manual_page(capsys):
    assert main(["envs", "bsuite/deep_sea/3"]) == 0
    out = capsys.readouterr().out
    assert "--env.size" in out and "default 16" in out and "--env.right" not in out
