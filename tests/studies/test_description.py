"""The description of a run that a dry run prints."""

from pathlib import Path

import shoal
from shoal import FrameStack
from shoal.studies.description import describe
from shoal.training.jobs import make_job
from tiny import FIELDS


def test_fields_inside_a_wrapper_are_named_by_their_paths(tmp_path: Path):
    job = make_job("ppo", FrameStack(shoal.make("CartPole-v1"), 2), env_sweep={"env.length": [0.5, 1.0]}, fields=FIELDS)
    said = describe([job.plan()], tmp_path)
    assert "environment FrameStack(CartPole-v1)  env=CartPole-v1 env.gravity=9.8" in said and " n=2 " in said
    assert "sweep       env.env.length: 0.5, 1.0" in said and "Described" not in said


def test_members_that_cannot_learn_are_reported_with_the_condition_their_agent_declares(tmp_path: Path):
    fields = {"num_envs": 2, "hidden": (8,), "buffer_size": 2_000, "batch_size": 8}
    starts = {"learning_starts": [100, 300, 400]}
    plan = make_job("dqn", "CartPole-v1", fields=fields, sweep=starts, steps=256, preset=None).plan()
    assert "; 2 will not learn: the first gradient step of dqn comes after 300 or more steps" in describe(
        [plan], tmp_path
    )
