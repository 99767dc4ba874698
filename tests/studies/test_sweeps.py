"""Several runs, one folder each: several environments, and sweeps over static fields."""

import pytest

import shoal
from shoal.agents.tabular import QTable
from shoal.studies.sweeps import plan_all
from tiny import FIELDS, OPTIONS, SILENT

SMALL = {"fields": {"num_steps": 16, "hidden": (8,)}, "preset": None, **OPTIONS}


def test_a_run_for_each_static_value_and_a_member_for_each_traced_one():
    swept = {"num_envs": [4, 8], "learning_rate": [1e-3, 1e-2]}
    batch = plan_all("ppo", "CartPole-v1", sweep=swept, env_sweep={"integrator": ["euler", "semi-implicit"]}, **SMALL)
    labels = [f"num_envs={n},env.integrator={kind}" for n in (4, 8) for kind in ("euler", "semi-implicit")]
    assert [task.label for task in batch.tasks] == labels and batch.title == "ppo-CartPole-v1"
    assert [plan.members for plan in batch.plans] == [2] * 4
    assert [task.job.spec.fields["num_envs"] for task in batch.tasks] == [4, 4, 8, 8]
    assert [task.job.spec.sweep for task in batch.tasks] == [{"learning_rate": [1e-3, 1e-2]}] * 4


def test_train_all_makes_a_folder_and_a_result_for_each_environment(tmp_path):
    agent, envs = QTable(num_steps=64), ["CliffWalking-v1", "FrozenLake-v1"]
    results = shoal.train_all(agent, envs, root=tmp_path, name="x", **OPTIONS, **SILENT)
    assert [result.spec.env for result in results] == envs
    assert [result.folder for result in results] == [tmp_path / "x" / name for name in envs]
    alone = shoal.train(agent, "CliffWalking-v1", root=tmp_path, **OPTIONS, **SILENT)
    assert alone.summary["last"] == results[0].summary["last"]


def test_mistakes_of_any_run_are_found_before_the_first(tmp_path):
    with pytest.raises(ValueError, match="num_minibatches=4 does not divide"):
        plan_all("ppo", "CartPole-v1", sweep={"num_envs": [4, 3]}, **{**SMALL, "fields": {"num_steps": 3}})
    with pytest.raises(ValueError, match="num_envs=4 is given twice"):
        plan_all("ppo", "CartPole-v1", sweep={"num_envs": [4, 4]}, **SMALL)
    with pytest.raises(ValueError, match="num_envs is in fields and in sweep"):
        plan_all("ppo", "CartPole-v1", sweep={"num_envs": [4, 8]}, fields=FIELDS, preset=None)
    with pytest.raises(ValueError, match="envs is empty"):
        plan_all("ppo", [])
    assert not list(tmp_path.iterdir())
