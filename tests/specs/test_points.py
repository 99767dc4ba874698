"""Settings other than a grid: lists, one value for each member, random samples."""

import math

import numpy as np
import pytest

import shoal
from shoal.agents.ppo import PPO
from shoal.core.struct import hyper_fields, info_of
from shoal.specs.points import from_samples
from shoal.specs.settings import AgentEnv
from shoal.training.jobs import make_job
from shoal.training.plan import make_plan

PAIR = AgentEnv(PPO(), shoal.make("CartPole-v1"))


def test_a_list_of_settings_is_planned():
    given = [{"learning_rate": 1e-3, "env.gravity": 5}, {"learning_rate": 1e-4, "env.gravity": 10}]
    plan = make_job("ppo", "CartPole-v1", settings=given, seeds=2, preset=None).plan()
    assert plan.settings == given
    np.testing.assert_array_equal(plan.batched().agent.learning_rate, np.float32([1e-3, 1e-3, 1e-4, 1e-4]))
    np.testing.assert_array_equal(plan.batched().env.gravity, np.float32([5, 5, 10, 10]))
    assert plan.member_names()[3] == "learning_rate=0.0001 env.gravity=10 seed=1"


def test_every_member_may_have_its_own_hyperparameter_value():
    plan = make_job("ppo", "CartPole-v1", members={"clip": np.linspace(0.1, 0.3, 5)}, preset=None).plan()
    assert plan.members == 5 and plan.roster.seed_index.tolist() == [0] * 5
    np.testing.assert_array_equal(plan.batched().agent.clip, np.float32(np.linspace(0.1, 0.3, 5)))


def test_random_settings_are_sampled_from_declared_ranges_and_recorded():
    spec = make_job("ppo", "CartPole-v1", random=200, fields={"clip": 0.1}).spec
    assert "clip" not in spec.points and "log_std_init" not in spec.points  # given; nothing where actions are discrete
    for path, values in spec.points.items():
        low, high = info_of(hyper_fields(PPO)[path]).search[:2]
        assert len(values) == 200 and low <= min(values) and max(values) <= high, path
    rates = np.log10(spec.points["learning_rate"])  # log-uniform from 1e-5 to 1e-2
    assert abs(rates.mean() + 3.5) < 0.2 and abs(rates.std() - 3 / math.sqrt(12)) < 0.1
    assert make_job("ppo", "CartPole-v1", random=200, fields={"clip": 0.1}).spec.points == spec.points
    assert make_job("ppo", "CartPole-v1", random=200, seed=1).spec.points["learning_rate"] != rates.tolist()


def test_one_more_hyperparameter_does_not_change_the_samples_of_others():
    one = from_samples(3, PAIR, 0, ["clip"])
    both = from_samples(4, PAIR, 0, {"clip": None, "env.gravity": (5, 15)})
    assert both["clip"][:3] == one["clip"] and all(5 <= g <= 15 for g in both["env.gravity"])


def test_choices_are_equally_likely():
    drawn = from_samples(3000, PAIR, 0, {"clip": (0.1, 0.2, 0.4, "choice")})["clip"]
    counts = np.unique(drawn, return_counts=True)
    assert counts[0].tolist() == [0.1, 0.2, 0.4] and abs(counts[1] - 1000).max() < 100  # four standard deviations


def test_a_field_given_in_the_agent_is_not_sampled():
    spec = make_job(PPO(clip=0.3), "CartPole-v1", random=2).spec
    assert "clip" not in spec.points and spec.fields["clip"] == 0.3 and "learning_rate" in spec.points


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"settings": []}, "settings is empty"),
        (
            {"settings": [{"clip": 0.1}, {"clip": 0.2, "discount": 1}]},
            "the first has clip, and number 1 differs in disc",
        ),
        ({"settings": [{"clop": 0.1}]}, "PPO has no field 'clop'. Did you mean clip"),
        ({"settings": [{"num_envs": 4}]}, "num_envs shapes the program"),
        ({"settings": [{"clip": -1}]}, "clip=-1.0 is out of range"),
        ({"members": {"clip": [0.1, 0.2]}, "seeds": 2}, "seeds=2 cannot be used"),
        ({"members": {"clip": 0.1}}, r"clip needs one value for each member, \[M\], and has 0.1"),
        ({"members": {"clip": [0.1]}, "random": 2}, "random and members each choose"),
        ({"random": 0}, "random=0 must be at least 1"),
        ({"search": ["clip"]}, "give random=N too"),
        ({"random": 2, "search": ["env.gravity"]}, "env.gravity declares no search range"),
        ({"random": 2, "search": {"clip": (2, 1)}}, "the lower one first"),
        ({"random": 2, "search": {"clip": (0, 1, "log")}}, r"cannot be sampled from \(0, 1, 'log'\)"),
        ({"random": 2, "search": {"clip": ("choice",)}}, "give one or more values that are numbers"),
        ({"random": 2, "search": ["num_envs"]}, "num_envs shapes the program"),
    ],
)
def test_invalid_settings_are_refused(given, answer):
    with pytest.raises((ValueError, TypeError), match=answer):
        make_plan(make_job("ppo", "CartPole-v1", preset=None, **given).spec)
