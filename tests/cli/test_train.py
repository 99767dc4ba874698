"""`shoal train`: the files it writes, dry runs, and the folders it refuses."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from commands import MY_ENV, refused, say
from shoal.cli.train import report
from shoal.core.registry import ENVS
from tiny import FLAGS


def test_an_existing_run_is_not_overwritten(run, capsys):
    words = ["train", "ppo", "CartPole-v1", *FLAGS, "--root", run.parent, "--name", "small"]
    assert "already holds a run. Continue it with `shoal train --resume" in refused(capsys, *words)


def test_the_folders_of_all_runs_are_checked_before_the_first(run, tmp_path, capsys):
    import shutil

    shutil.copytree(run, tmp_path / "runs" / "x" / "num_envs=8")
    words = ["train", "ppo", "CartPole-v1", *FLAGS[2:], "--name", "x"]
    assert "num_envs=8 already holds a run" in refused(capsys, *words, "--num-envs", "4,8")
    assert "num_envs=4 is given twice" in refused(capsys, *words, "--num-envs", "4,4")
    assert [path.name for path in Path("runs/x").iterdir()] == ["num_envs=8"]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, capsys):
    (tmp_path / "file").touch()
    words = ["train", "ppo", "CartPole-v1", *FLAGS, "--root", tmp_path / "file"]
    assert "cannot be written" in refused(capsys, *words)


@pytest.mark.parametrize("evaluations, end", [(0, "(--evaluations 0)"), (2, "over 100 evaluation episodes")])
def test_a_run_without_evaluations_has_no_empty_table(evaluations, end):
    summary = dict.fromkeys(("steps_per_second", "total_seconds", "compile_seconds", "train_seconds"), 1.0)
    summary |= {"eval_seconds": 0.0, "other_seconds": 0.0, "evaluation_episodes_cut_off": 0, "per_member": []}
    summary |= {"last": {"members": 0}, "settings": [{"setting": {}, "members": 0}], "episodes_per_evaluation": 100}
    result = SimpleNamespace(summary=summary, folder="runs/x", spec=SimpleNamespace(evaluations=evaluations))
    lines = report(result).splitlines()
    assert lines[0].endswith(end) and ("none evaluated" in lines[-3]) == (evaluations > 0)
    assert ("`shoal eval runs/x` makes one" in lines) == (evaluations == 0)


def test_resuming_with_changed_flags_names_the_changes(run, capsys):
    err = refused(capsys, "train", "--resume", run, "--steps", "128", "--clip", "0.3")
    assert "cannot be resumed with changes (steps: 256 -> 128; clip: 0.2 -> 0.3)" in err


@pytest.mark.parametrize("option", ["--name", "--root", "--preset", "--suite"])
def test_resuming_refuses_flags_of_a_new_run(option, run, capsys):
    assert f"{option} is for a new run" in refused(capsys, "train", "--resume", run, option, "classic")


def test_a_dry_run_of_a_resumed_run_trains_nothing(run, capsys):
    before = (run / "provenance.json").stat().st_mtime_ns, (run / "summary.json").stat().st_mtime_ns
    status, out, _ = say(capsys, "train", "--resume", run, "--dry-run")
    assert status == 0 and "members     4 = 2 setting(s) x 2 seed(s)" in out
    assert before == ((run / "provenance.json").stat().st_mtime_ns, (run / "summary.json").stat().st_mtime_ns)


# Files and output of `shoal train`.


def test_a_run_writes_its_files_and_prints_a_table(run, capsys):
    names = {path.name for path in run.iterdir()}
    assert {"spec.json", "provenance.json", "metrics.jsonl", "curves.npz", "summary.json", "checkpoints"} <= names
    spec = json.loads((run / "spec.json").read_text())
    assert spec["sweep"] == {"learning_rate": [1e-3, 1e-2]} and spec["fields"]["hidden"] == [8]
    assert len(json.loads((run / "summary.json").read_text())["per_member"]) == 4


def test_a_dry_run_prints_sizes_without_compiling(capsys):
    words = "train ppo CartPole-v1 --steps 100_000 --seeds 8 --learning-rate 1e-4,3e-4 --dry-run --preset none"
    say(capsys, *words.split())  # the first time, small programs make keys and copy values
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: compiled.append(name))
    status, out, _ = say(capsys, *words.split())
    jax.monitoring.clear_event_listeners()
    assert status == 0 and not [name for name in compiled if "backend_compile" in name]
    assert "members     16 = 2 setting(s) x 8 seed(s)" in out
    assert "Box((-4.8, -inf, -0.41887903, -inf), (4.8, inf, 0.41887903, inf), (4,))" in out  # not 4.800000190734863
    assert "196 x 512 steps = 100,352 steps per member" in out  # 100,000 / (4 x 128), rounded up
    assert "weights     9,155 numbers" in out  # 2 x (4 x 64 + 64 + 64 x 64 + 64) + (64 x 2 + 2) + (64 + 1)
    assert not Path("runs").exists()


def test_the_description_lists_the_layers_of_one_network(capsys):
    words = ["ppo", "CartPole-v1", "--hidden", "8", "--preset", "none"]
    _, out, _ = say(capsys, "describe", *words)
    layers = [line.split() for line in out.partition("layer ")[2].splitlines()[2:]]
    numbers = {name: int(count) for name, *_, count in layers}
    assert numbers == {"actor/Dense_0": 40, "critic/Dense_0": 40, "policy": 18, "value": 9}
    assert layers[0][1:-1] == ["bias", "8,", "kernel", "4", "x", "8"] and "weights     107 numbers" in out
    assert out == say(capsys, "train", *words, "--dry-run")[1]
    assert "layer " not in say(capsys, "describe", *words, "--num-envs", "2,4")[1]  # two runs
    _, out, _ = say(capsys, "describe", "q-learning", "FrozenLake-v1", "--preset", "none")
    assert ["policy", "q", "16", "x", "4,", "epsilon", "1", "65"] in [line.split() for line in out.splitlines()]


def test_a_dry_run_estimates_time_from_finished_runs_and_skips_other_folders(run, capsys):
    from shoal.training.export import export

    export(run, "runs/policy")  # has a summary, and no speed
    for name, text in (("half", '{"agent": "ppo", '), ("list", "[1]")):
        Path("runs", name).mkdir()
        Path("runs", name, "summary.json").write_text(text)
    assert "time        unknown" in say(capsys, "train", "ppo", "CartPole-v1", "--dry-run")[1]
    status, out, _ = say(capsys, "train", "ppo", "CartPole-v1", "--dry-run", "--root", run.parent)
    assert status == 0 and "the median of 1 earlier run(s)" in out


def test_a_list_of_values_for_a_static_field_makes_one_run_each(capsys):
    words = "train ppo CartPole-v1 --num_envs=2,4 --env.integrator euler,semi-implicit --discount 0.9,0.99 --dry-run"
    _, out, _ = say(capsys, *words.split())
    assert "dry run: 4 runs" in out and out.count("members     2 = 2 setting(s) x 1 seed(s)") == 4


def test_negative_numbers_and_tuples_are_values(capsys):
    words = "train ppo CartPole-v1 --env.reset-low -0.2,-1e-1 --hidden 32,16 --shared true --preset none --dry-run"
    _, out, _ = say(capsys, *words.split())
    assert "env.reset_low: -0.2, -0.1" in out and "hidden=(32, 16)" in out and "shared=True" in out
    words = "train ppo Acrobot-v1 --env.torques -2.5e-1,0,0.5 --dry-run"
    assert "torques=(-0.25, 0.0, 0.5)" in say(capsys, *words.split())[1]


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "runs"), [("classic", 5), ("minigrid-10", 10)])
def test_a_suite_makes_one_run_for_each_environment(name, runs, capsys):
    from shoal.studies.suite_file import suites

    _, out, _ = say(capsys, "train", "ppo", "--suite", name, "--dry-run")
    assert all(env in ENVS and env in out for env in suites()[name]["envs"]) and f"dry run: {runs} runs" in out


def test_a_user_environment_file_trains_and_is_loaded_again(tmp_path, capsys):
    (tmp_path / "my_env.py").write_text(MY_ENV)
    words = [*FLAGS, "--env.bonus", "2,3", "--root", tmp_path / "runs"]
    status, out, err = say(capsys, "train", "ppo", "my_env.py:MyEnv", *words)
    assert status == 0, err
    assert "env.bonus=2" in out and " 10 " in out and " 15 " in out  # five steps of 2 and of 3
    os.chdir("/")
    status, out, _ = say(capsys, "eval", tmp_path / "runs" / "ppo-MyEnv", "--episodes", "2", "--member", "1")
    assert status == 0 and " 15 " in out


def test_infinity_is_kept_and_read_back(capsys):
    import shoal

    words = ["--env.low", "-inf", "--env.high", "inf,2.4"]  # of the few numbers that may be infinite: no bound
    rest = ["--wrap", "ClipReward", "--no-figures", "--name", "r"]
    status, out, err = say(capsys, "train", "ppo", "CartPole-v1", *FLAGS, *words, *rest)
    assert status == 0 and "env.high=inf" in out, err
    spec = json.loads(Path("runs/r/spec.json").read_text())
    assert spec["env_fields"]["low"] == "-inf" and spec["env_sweep"] == {"high": ["inf", 2.4]}
    assert shoal.load_result("runs/r").spec.env_fields["low"] == -float("inf")
    assert shoal.load_result("runs/r").settings == [{"env.high": float("inf")}, {"env.high": 2.4}]
    assert say(capsys, "eval", "runs/r", "--episodes", "2")[0] == 0
    assert say(capsys, "train", "--resume", "runs/r", *words, "--no-figures", "--no-progress")[0] == 0


def test_a_block_is_refused_where_all_members_run_in_one_call(monkeypatch, capsys):
    from functools import partial

    from shoal.training.placement import make_placement

    monkeypatch.setattr("shoal.training.plan.make_placement", partial(make_placement, on_mesh=True))
    said = refused(capsys, "train", "ppo", "CartPole-v1", *FLAGS, "--seeds", "2", "--block", "2")
    assert "block=2 is for CPUs; here it is 2 x cpu, all members at a time" in said and not Path("runs").exists()


def test_a_dry_run_reports_that_evaluations_are_limited_to_records(capsys):
    words = ["train", "ppo", "CartPole-v1", "--evaluations", "50", "--records", "3", "--dry-run"]
    assert "3, 3 (not 50) of them evaluated" in say(capsys, *words)[1]


def test_a_run_is_repeated_from_its_spec_in_another_folder(run, capsys):
    status, out, err = say(capsys, "train", "--spec", run, "--seeds", "3", "--dry-run")
    assert status == 0 and "members     6 = 2 setting(s) x 3 seed(s)" in out, err
    assert say(capsys, "train", "--spec", run / "spec.json", "--dry-run")[0] == 0
    assert "leave ppo out" in refused(capsys, "train", "ppo", "--spec", run)
    assert "unknown flag --clip" in refused(capsys, "train", "--spec", run, "--clip", "0.1")
    assert "--spec is for a new run" in refused(capsys, "train", "--resume", run, "--spec", run)


def test_random_settings_are_sampled_from_the_declared_ranges(capsys):
    status, out, err = say(capsys, "train", "ppo", "CartPole-v1", *FLAGS, "--random", "5", "--dry-run")
    assert status == 0 and "members     5 = 5 setting(s) x 1 seed(s)" in out, err
