"""Jobs: the spec and folder of a run, and runs that are repeated, resumed and extended."""

import re
import shutil
from typing import NamedTuple

import jax
import numpy as np
import pytest

import shoal
from listeners import Listener
from shoal.agents.ppo import PPO
from shoal.agents.tabular import QTable
from shoal.cli.main import main
from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.registry import ENVS
from shoal.core.wrappers.frame_stack import FrameStack
from shoal.core.wrappers.time_limit import TimeLimit
from shoal.nn.torsos import MLP
from shoal.training.export import export
from shoal.training.extension import extend
from shoal.training.folder import RunFolder
from shoal.training.jobs import job_to_resume
from tiny import FIELDS, OPTIONS, SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


class Case(NamedTuple):
    """An agent and a wrapped environment: one field of the wrapper, one inner field with two values."""

    agent: Agent
    env: Env
    name: str
    observation: np.ndarray
    own: str
    inner: str
    values: list[float]
    elsewhere: dict[str, float]


CASES = {
    "table": lambda: Case(
        QTable(num_steps=64),
        TimeLimit(shoal.make("CliffWalking-v1"), 20),
        "q-learning on TimeLimit(CliffWalking-v1)",
        np.zeros((), np.uint8),
        "max_steps",
        "cliff_reward",
        [-50.0, -10.0],
        {"env.step_reward": -2.0},
    ),
    "network": lambda: Case(
        PPO(network=MLP((8,), "relu"), num_envs=4, num_steps=16),
        FrameStack(shoal.make("CartPole-v1"), 2),
        "ppo on FrameStack(CartPole-v1)",
        np.zeros((2, 4)),
        "n",
        "gravity",
        [5.0, 10.0],
        {"env.force_mag": 0.0},
    ),
}


@pytest.fixture(scope="module", params=["table", pytest.param("network", marks=pytest.mark.slow)])
def case(request):
    return CASES[request.param]()


@pytest.fixture(scope="module")
def wrapped(case, tmp_path_factory):
    """A run in a wrapped environment, with two values of a field of the inner environment."""
    sweep, root = {f"env.{case.inner}": case.values}, tmp_path_factory.mktemp("runs")
    return shoal.train(case.agent, case.env, env_sweep=sweep, root=root, **OPTIONS, **SILENT)


def test_a_wrapped_run_is_named_and_loaded_without_its_values(case, wrapped):
    agent, env = case.name.split(" on ")
    assert wrapped.folder.name == f"{agent}-{env.replace('(', '-').rstrip(')')}"
    assert repr(wrapped).startswith(f"<Result {case.name}: mean return")
    policy = shoal.load(wrapped.folder, 1)
    assert getattr(policy.env.env, case.inner) == case.values[1] and policy(case.observation).shape == ()
    mine, theirs = (jax.tree.leaves(loaded.weights) for loaded in (policy, wrapped.policies[1]))
    assert mine
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_wrapped_run_is_evaluated_in_another_inner_environment(case, wrapped):
    options = {"episodes": 2, "max_steps": 8, "env_fields": case.elsewhere}
    many = shoal.evaluate(wrapped.folder, **options)
    alone = shoal.evaluate(shoal.load(wrapped.folder, 1), **options)
    np.testing.assert_array_equal(many.episode_return[1], alone.episode_return)
    said = f"{type(case.env).__name__} has no field '{case.inner}'. Did you mean env.env.{case.inner}?"
    with pytest.raises(TypeError, match=re.escape(said)):
        shoal.evaluate(wrapped.folder, episodes=2, env_fields={case.inner: 0.0})


def test_a_wrapped_run_is_evaluated_and_resumed_from_the_command_line(case, wrapped, capsys):
    assert main(["eval", str(wrapped.folder), "--episodes", "2"]) == 0
    assert f"env.env.{case.inner}={case.values[1]}" in capsys.readouterr().out
    assert main(["train", "--resume", str(wrapped.folder), "--no-progress", "--no-figures"]) == 0
    assert main(["train", "--resume", str(wrapped.folder), f"--env.{case.own.replace('_', '-')}", "3"]) == 2
    assert f"env.{case.own}: {getattr(case.env, case.own)} -> 3" in capsys.readouterr().err


def test_a_wrapped_run_is_exported_and_loaded(case, wrapped, tmp_path):
    made = shoal.load(RunFolder(export(wrapped.folder, tmp_path / "policy", 1)).path)
    assert getattr(made.env.env, case.inner) == case.values[1]
    assert getattr(made.env, case.own) == getattr(case.env, case.own)


def test_an_extended_run_equals_a_longer_run(tmp_path):
    """Where no schedule depends on its length: same weights, curves and scores."""
    agent, listener = QTable(num_steps=64, horizon=384), Listener()
    short = shoal.train(agent, "CliffWalking-v1", folder=tmp_path / "a", **{**OPTIONS, "evaluations": 4}, **SILENT)
    more = shoal.train(resume=short.folder, steps=350, sinks=[listener], **SILENT)  # rounded up to 384
    options = {**OPTIONS, "steps": 384, "records": 6, "evaluations": 6}
    straight = shoal.train(agent, "CliffWalking-v1", folder=tmp_path / "b", **options, **SILENT)
    for name, curve in straight.curves.items():
        if name != "wall_seconds":
            np.testing.assert_array_equal(more.curves[name], curve, err_msg=name)
    for mine, theirs in zip(*(jax.tree.leaves(run.policies.weights) for run in (more, straight)), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert listener.heard == ["ends at 350 steps now, no longer at 256"] and more.summary["steps_per_member"] == 384
    assert shoal.load_result(short.folder).spec.first_steps == 256
    shoal.train(resume=short.folder, **SILENT)  # and is resumed as such


def test_schedules_that_change_are_named(case, wrapped, tmp_path):
    folder = RunFolder(shutil.copytree(wrapped.folder, tmp_path / "copy"))
    spec = job_to_resume(folder.path, None, None, {"steps": 1000}).spec
    message = extend(folder, spec, case.agent)
    assert message.startswith("ends at 1,000 steps now, no longer at 256; schedules span all steps of a run, so")
    assert not (folder.path / "summary.json").exists() and folder.read_spec().longer(2000).first_steps == 256
    assert folder.spec_hash == RunFolder(wrapped.folder).spec_hash
    assert extend(folder, spec, case.agent) == ""


def test_a_preset_by_name_is_refused_for_a_value():
    for pair in ((PPO(), "CartPole-v1"), ("ppo", shoal.make("CartPole-v1"))):
        with pytest.raises(ValueError, match="preset='fast' needs agent and environment by name"):
            shoal.train(*pair, preset="fast")


def test_resuming_with_changes_says_what_changed(result):
    with pytest.raises(ValueError, match=r"cannot be resumed with changes \(steps: 256 -> 128\)"):
        shoal.train(resume=result.folder, steps=128)
    with pytest.raises(ValueError, match="env: CartPole-v1 -> Pendulum-v1"):
        shoal.train(env="Pendulum-v1", resume=result.folder)
    with pytest.raises(ValueError, match=r"\(num_envs: 4 -> 8; env.gravity: 9.8 -> 5.0\)"):
        shoal.train(resume=result.folder, fields={"num_envs": 8}, env_fields={"gravity": 5.0})
    with pytest.raises(ValueError, match=r"gravity: 9.8 -> 5.0"):
        shoal.train(env=shoal.make("CartPole-v1", gravity=5.0), resume=result.folder)
    with pytest.raises(FileNotFoundError, match="is not a run folder"):
        shoal.train(resume=result.folder / "nothing")


@pytest.mark.parametrize("given", [{"name": "x"}, {"root": "x"}, {"folder": "x"}, {"preset": "fast"}, {"preset": None}])
def test_resuming_refuses_arguments_of_a_new_run(given, result):
    with pytest.raises(ValueError, match=f"{[*given][0]}='.*' is for a new run; resume continues"):
        shoal.train(resume=result.folder, **given)


def test_resuming_compares_seeds_and_accepts_aliases(result, monkeypatch):
    with pytest.raises(ValueError, match=r"cannot be resumed with changes \(seeds: 2 -> 1\)"):
        shoal.train(resume=result.folder, seeds=1)
    monkeypatch.setitem(ENVS._aliases, "Pole", "CartPole-v1")
    assert shoal.train(env="Pole", resume=result.folder, **SILENT).spec.env == "CartPole-v1"


def test_resuming_uses_exactly_the_values_of_the_original_run(tmp_path):
    agent = PPO(network=MLP((8,), "relu"), num_steps=16)
    beside = {"fields": {"num_envs": 4}, "sweep": {"learning_rate": [1e-3, 1e-4]}}
    made = shoal.train(agent, "CartPole-v1", folder=tmp_path / "r", **beside, **OPTIONS, **SILENT)
    for again in (beside, {}, {"fields": beside["fields"]}):
        assert shoal.train(agent, resume=made.folder, **again, **SILENT).summary["members"] == 2
    with pytest.raises(ValueError, match="changes \\(num_steps: 16 -> 32\\)"):
        shoal.train(agent.replace(num_steps=32), resume=made.folder, **SILENT)
    with pytest.raises(ValueError, match="changes \\(num_envs: 4 -> 8\\)"):
        shoal.train(agent.replace(num_envs=8), resume=made.folder, **SILENT)


def test_a_finished_folder_is_not_overwritten(result):
    with pytest.raises(FileExistsError, match="already holds a run"):
        shoal.train("ppo", "CartPole-v1", folder=result.folder, fields=FIELDS, **OPTIONS, **SILENT)


def test_an_unwritable_folder_is_reported_before_compilation(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PermissionError, match="cannot be written"):
        shoal.train("ppo", "CartPole-v1", folder=tmp_path / "file" / "run", fields=FIELDS, **OPTIONS, **SILENT)


def test_a_mistake_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match="num_steps"):
        shoal.train("ppo", "CartPole-v1", fields={"num_steps": 0}, root=tmp_path / "runs", **SILENT)
    assert not (tmp_path / "runs").exists()


def test_a_folder_together_with_a_name_or_root_is_refused(tmp_path):
    with pytest.raises(ValueError, match="already is the path of the run: leave name and root out"):
        shoal.train("ppo", "CartPole-v1", folder=tmp_path / "x", name="y", fields=FIELDS, **OPTIONS, **SILENT)
