"""Specs (the plain-data description of a run): settings, the JSON file, and values built from it again."""

import json

import numpy as np
import pytest

import shoal
from shoal.agents.bc import BC
from shoal.agents.ppo import PPO
from shoal.core.wrappers.frame_stack import FrameStack
from shoal.core.wrappers.time_limit import TimeLimit
from shoal.core.wrappers.transform_reward import TransformReward
from shoal.nn.torsos import MLP
from shoal.rollouts.demonstrations import Demonstrations
from shoal.specs.spec import RunSpec, differences, opaque_fields, resolved, spec_for, template
from shoal.training.plan import make_plan

STACK = "shoal.core.wrappers.frame_stack:FrameStack"


def read_back(spec):
    """The spec that a file of this one gives."""
    return RunSpec.from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False)))


def test_values_are_read_back_as_they_were_given():
    agent, env = PPO(network=MLP((8,), "relu")), FrameStack(shoal.make("CartPole-v1", gravity=5.0), 3)
    spec = spec_for(agent, env, steps=1000)
    assert (spec.agent, spec.env) == ("ppo", STACK) and read_back(spec) == spec
    made = template(read_back(spec))
    assert made.agent.network == MLP((8,), "relu") and made.env.n == 3 and made.env.env.gravity == 5.0
    assert opaque_fields(spec) == []


def test_a_spec_of_names_is_resolved_to_every_field():
    spec = RunSpec("ppo", "CartPole-v0", fields={"clip": 0.1}, env_sweep={"gravity": [5.0, 10.0]})
    whole = resolved(spec)
    assert whole.fields["clip"] == 0.1 and whole.fields["gae_lambda"] == 0.95 and whole.env_fields["max_steps"] == 200
    assert "gravity" not in whole.env_fields and whole.env_sweep == spec.env_sweep and resolved(whole) == whole
    assert read_back(whole) == whole


def test_a_later_default_does_not_change_what_a_spec_means(monkeypatch):
    written = resolved(RunSpec("ppo", "CartPole-v1")).to_json()
    init = PPO.__init__
    monkeypatch.setattr(PPO, "__init__", lambda self, clip=0.9, **fields: init(self, clip=clip, **fields))
    assert PPO().clip == 0.9 and template(RunSpec.from_json(written)).agent.clip == 0.2


def test_an_inner_field_is_swept_and_planned():
    env = TimeLimit(FrameStack(shoal.make("CartPole-v1"), 2), 20)
    spec = spec_for("ppo", env, env_sweep={"env.env.gravity": [5.0, 10.0]}, seeds=2)
    plan = make_plan(resolved(spec))
    np.testing.assert_array_equal(plan.batched().env.env.env.gravity, np.float32([5, 5, 10, 10]))
    assert plan.member_names()[2] == "env.env.env.gravity=10.0 seed=0"
    with pytest.raises(TypeError, match="TimeLimit has no field 'gravity'. Did you mean env.env.env.gravity?"):
        resolved(spec_for("ppo", env, env_sweep={"gravity": [5.0, 10.0]}))
    with pytest.raises(ValueError, match="env.env.n shapes the program"):
        make_plan(spec_for("ppo", env, env_sweep={"env.n": [2, 3]}))


def test_an_array_inside_a_wrapper_is_a_sweep():
    env = FrameStack(shoal.make("CartPole-v1", gravity=np.asarray([5.0, 10.0])), 2)
    spec = spec_for(PPO(learning_rate=np.asarray([1e-3, 1e-4])), env)
    assert spec.sweep == {"learning_rate": [1e-3, 1e-4]} and spec.env_sweep == {"env.gravity": [5.0, 10.0]}
    assert len(spec.settings()) == 4 and "learning_rate" not in spec.fields and read_back(spec) == spec
    plan = make_plan(spec)
    np.testing.assert_array_equal(plan.batched().env.env.gravity, np.float32([5, 10, 5, 10]))


def test_a_time_limit_inside_a_wrapper_is_swept():
    """Sizes of the rollout must hold for every limit."""
    env = FrameStack(shoal.make("CartPole-v1"), 2)
    plan = make_plan(spec_for("ppo", env, env_sweep={"env.max_steps": [500, 8]}))
    assert plan.agent.rollout.final_slots == 128 // 8
    assert plan.horizon == 500


def test_points_are_read_back_and_combined_with_a_sweep():
    points = {"learning_rate": [1e-3, 1e-4], "env.gravity": [5, 10]}
    spec = RunSpec("ppo", "CartPole-v1", points=points, sweep={"clip": [0.1, 0.2]})
    assert spec.settings()[1] == {"clip": 0.1, "learning_rate": 1e-4, "env.gravity": 10}
    assert len(spec.settings()) == 4 and spec.varying == ["clip", "learning_rate", "env.gravity"]
    assert read_back(spec) == spec and "points" not in RunSpec("ppo", "CartPole-v1").to_json()
    plan = make_plan(spec)
    np.testing.assert_array_equal(plan.batched().env.gravity, np.float32([5, 10, 5, 10]))
    with pytest.raises(ValueError, match="their numbers differ: learning_rate 2, clip 1"):
        RunSpec("ppo", "CartPole-v1", points={"learning_rate": [1, 2], "clip": [1]})


def test_a_lambda_is_not_written_to_a_file():
    env = FrameStack(TransformReward(shoal.make("CartPole-v1"), lambda reward: 2 * reward), 2)
    spec = spec_for("ppo", env)
    assert opaque_fields(spec) == ["env.env.function"] and opaque_fields(read_back(spec)) == opaque_fields(spec)
    assert template(spec).env.env.function is env.env.function  # while Python holds it
    with pytest.raises(ValueError, match="<lambda> was given in Python, and no file can hold it"):
        template(read_back(spec))
    assert template(read_back(spec), env=env).env.env.function is env.env.function


def test_differences_are_named_by_their_path():
    old = spec_for("ppo", FrameStack(shoal.make("CartPole-v1"), 2))
    new = spec_for("ppo", FrameStack(shoal.make("CartPole-v1", gravity=5.0), 3))
    assert differences(old, new) == ["env.env.gravity: 9.8 -> 5.0", "env.n: 2 -> 3"]


def test_a_run_is_named_by_its_agent_and_environment():
    env = TimeLimit(FrameStack(shoal.make("CartPole-v1"), 2), 20)
    assert spec_for("ppo", env).env_name == "TimeLimit(FrameStack(CartPole-v1))"
    assert spec_for("ppo", env).default_name == "ppo-TimeLimit-FrameStack-CartPole-v1"
    assert RunSpec("ppo", "bsuite/catch/0").default_name == "ppo-bsuite-catch-0"
    assert RunSpec("ppo", "/home/me/my_env.py:MyEnv").default_name == "ppo-MyEnv"


def test_recorded_steps_inside_an_agent_are_no_sweep():
    steps = Demonstrations(obs=np.zeros((3, 4), np.float32), mask=None, action=np.asarray([0, 1, 1], np.int32))
    spec = resolved(spec_for(BC(demonstrations=steps), "CartPole-v1", steps=64))
    assert not spec.varying
    assert make_plan(spec).agent.demonstrations.action.dtype == np.int32


HUGE = 10**5_000  # Python refuses to print it


@pytest.mark.parametrize("name", ["steps", "seeds", "seed", "records", "evaluations", "eval_episodes", "block"])
def test_numbers_of_thousands_of_digits_are_refused_in_words(name):
    with pytest.raises(ValueError, match=f"{name} does not fit in 64 bits"):
        RunSpec("ppo", "CartPole-v1", **{name: HUGE})


@pytest.mark.parametrize("fields", [{"num_envs": HUGE}, {"hidden": (8, HUGE)}, {"clip": HUGE}, {"clip": -HUGE}])
def test_fields_of_thousands_of_digits_are_refused_in_words(fields):
    with pytest.raises(ValueError, match=r"PPO\.\w+ has a number that does not fit in 64 bits"):
        PPO(**fields)


def test_more_settings_than_can_be_planned_are_refused_before_they_are_made():
    values = [i / 1_000 for i in range(1_000)]
    with pytest.raises(ValueError, match="1,000,000,000 settings are more than the 20,000"):
        RunSpec("ppo", "CartPole-v1", sweep=dict.fromkeys(("clip", "discount", "gae_lambda"), values)).settings()
