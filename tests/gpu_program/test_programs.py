"""The programs that are counted: the fewest bytes that they could move, and what a command line means."""

import subprocess

import jax
import pytest
from cuda_program import device, programs

import gpu_program
from gpu_program import field, main
from shoal.training import program as training_program


def test_the_fewest_bytes_of_a_step_are_those_of_states_observations_and_actions():
    """CartPole has 4 numbers, a time and a return in its state, 4 numbers in its observation, and no step noise."""
    program = programs.environment_steps("CartPole-v1", 8)
    assert program.least_bytes == 8 * (2 * 6 * 4 + 2 * 4 * 4 + 4)
    assert (program.unit, program.units, program.parts) == ("step", 100, 8)


def test_the_fewest_bytes_of_a_reset_are_those_of_the_first_states():
    assert programs.environment_resets("CartPole-v1", 8).least_bytes == 8 * 5 * 4  # 4 numbers and the time


def test_the_fewest_bytes_of_an_update_are_those_of_weights_moments_and_samples():
    """PPO with one hidden unit: actor 4 + 1 + 2 + 2 and critic 4 + 1 + 1 + 1 weights, and a sample of 36 bytes."""
    fields = {"hidden": (1,), "num_envs": 2, "num_steps": 8, "num_epochs": 3, "num_minibatches": 2}
    program = programs.training_update("ppo", 5, fields=fields)
    step = 2 * 3 * 16 * 4 + 8 * 36  # weights and two moments, read and written; a minibatch of 8 samples
    assert program.gradient_steps == 6
    assert program.least_bytes == pytest.approx(5 * (6 * step + 16 * 36), rel=0.03)  # a counter and a flag beside them


def test_updates_of_an_older_checkout_are_counted_too(monkeypatch):
    """Before chunks were joined over stops, `train_chunk` took no totals."""
    new = training_program.train_chunk

    def older(member, agent, env, clock, updates):
        return new(member, agent, env, None, clock, updates)

    monkeypatch.setattr(training_program, "train_chunk", older)
    program = programs.training_update("q-learning", 2)
    jax.eval_shape(program.function, *program.arguments)


def test_a_failure_is_told_by_its_exception_and_not_by_the_note_below_it(monkeypatch):
    text = "Traceback:\n  File ...\nTypeError: it takes 5 arguments\n-----\nFor simplicity, JAX has removed frames.\n"
    failed = subprocess.CompletedProcess((), 1, "", text)
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: failed)
    options = gpu_program.parser().parse_args(["budgets"])
    assert gpu_program.count_elsewhere(["env", "A"], options) == {"error": "TypeError: it takes 5 arguments"}


def test_a_commit_has_seven_digits_in_a_repository_of_any_size(tmp_path):
    """A table goes on by these digits, and git writes more of them from about 100,000 objects on."""
    git = ("git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@b")
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "config", "core.abbrev", "12"], check=True)
    (tmp_path / "file").write_text("text")
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Begin"], check=True)
    assert len(gpu_program.commit_of(tmp_path)) == 7


def test_loops_of_unknown_length_are_those_of_gradient_steps_and_of_episodes():
    program = programs.Program(None, (), "update", 1, 1, 0.0, gradient_steps=4.0, episode_steps=500)
    asked = ("ReplayAgent.train_on_replay", "ES._run_episodes", "train_chunk")
    assert [programs.trips(program, function) for function in asked] == [4, 500, 1]


def test_fields_are_numbers_tuples_or_words():
    assert [field(text) for text in ("num_envs=10", "hidden=64,64", "memory=lstm")] == [
        ("num_envs", 10),
        ("hidden", (64, 64)),
        ("memory", "lstm"),
    ]


def test_without_the_compiler_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(device, "version", lambda name: "0.1")
    assert main(["env", "CartPole-v1"]) == 2
    assert "jax-cuda13-plugin is 0.1" in capsys.readouterr().err


def test_a_table_goes_on_where_it_was_stopped(monkeypatch, tmp_path, capsys):
    counted, out = [], str(tmp_path / "rows.json")
    row = {"unit": "step", "parts": 2, "launches": 3.0, "bytes": 4000, "bytes_moved": 6000, "least_bytes": 2000}
    row |= {
        "kernel_microseconds": 5.0,
        "host_microseconds": 1.0,
        "launches_of_a_gradient_step": 0.0,
        "opaque_launches": 1,
    }
    monkeypatch.setattr(gpu_program, "everything", lambda options: [["env", "A"], ["env", "B"]])
    monkeypatch.setattr(gpu_program, "count_elsewhere", lambda words, options: counted.append(words[1]) or row)
    monkeypatch.setattr(gpu_program.device, "missing", lambda: "")
    for commit, *more in (["first"], ["first"], ["second"], ["second", "--again"]):
        monkeypatch.setattr(gpu_program, "commit_of", lambda source, commit=commit: commit)
        assert main(["table", "--out", out, *more]) == 0
    assert "".join(counted) == "AB" + "" + "AB" + "AB"
    assert "| env B | 3.0 | - | 2 | 3 | 1 | 2.0 | > 5.0 | 1.0 |" in capsys.readouterr().out
