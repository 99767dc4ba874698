"""Fields that would have no effect are refused, and accepted where they have one; unsuitable pairs are refused."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.core.errors import Unsuited
from shoal.core.registry import AGENTS, make
from shoal.core.spaces import Box
from shoal.core.struct import struct
from shoal.envs.classic.pendulum import Pendulum
from shoal.grid.wrappers import ImgObs, RGBImgPartialObs
from shoal.specs.spec import RunSpec
from shoal.training.plan import make_plan

CHOICES, NUMBERS, PICTURES, PARTS = (
    "CartPole-v1",
    "Pendulum-v1",
    "MinAtar/Breakout-v1",
    RGBImgPartialObs(make("MiniGrid-Empty-5x5-v0")),
)


@struct
class Counted(Pendulum):
    """Pendulum with an integer torque."""

    @property
    def action_space(self):
        return Box(0, 3, (1,), np.int32)


IGNORED = [
    ("ppo", CHOICES, {"noise_correlation": 0.5}, {}, NUMBERS),
    ("ppo", CHOICES, {"log_std_init": -1.0}, {}, NUMBERS),
    ("ppo", CHOICES, {"memory_size": 8}, {"memory": "gru"}, CHOICES),
    ("dqn", CHOICES, {"epsilon_end": 0.1, "noisy": True}, {"noisy": False}, CHOICES),
    ("dqn", CHOICES, {"priority_exponent": 0.5}, {"prioritized": True}, CHOICES),
    ("dqn", CHOICES, {"v_max": 10.0}, {"head": "categorical"}, CHOICES),
    ("dqn", CHOICES, {"sequence_length": 10}, {"memory": "gru"}, CHOICES),
    ("dqn", CHOICES, {"burn_in": 5}, {"memory": "gru"}, CHOICES),
    ("dqn", CHOICES, {"atoms": 11}, {"head": "quantile"}, CHOICES),
    ("dqn", CHOICES, {"kappa": 2.0}, {"loss": "huber"}, CHOICES),
    ("dqn", CHOICES, {"kappa": 2.0}, {"head": "quantile"}, CHOICES),
    ("dqn", CHOICES, {"munchausen_clip": -2.0}, {"munchausen": True}, CHOICES),
    ("dqn", CHOICES, {"double": True, "munchausen": True}, {"munchausen": False}, CHOICES),
    ("iqn", CHOICES, {"loss": "huber"}, {"head": "expected", "atoms": 51}, CHOICES),
    ("crossq", NUMBERS, {"entropy_ratio": 0.5, "temperature": "fixed"}, {"temperature": "tuned"}, NUMBERS),
    ("tqc", NUMBERS, {"alpha_learning_rate": 0.1, "temperature": "fixed"}, {"temperature": "tuned"}, NUMBERS),
    ("c51", CHOICES, {"kappa": 2.0}, {"head": "quantile"}, CHOICES),
    ("a2c", CHOICES, {"clip": 0.1}, {"value_loss": "clipped"}, CHOICES),
    ("ppo", CHOICES, {"clip": 0.1, "surrogate": "dpo", "value_loss": "squared"}, {"value_loss": "clipped"}, CHOICES),
    ("ppo", PICTURES, {"hidden": (512,), "torso": "impala"}, {"torso": "cnn"}, PICTURES),
    ("ppo", PICTURES, {"activation": "relu", "torso": "impala"}, {}, PARTS),
    ("c51", CHOICES, {"loss": "huber"}, {"head": "expected"}, CHOICES),
    ("dqn", CHOICES, {"adam_eps": 1e-4, "optimizer": "sgd"}, {"optimizer": "adam"}, CHOICES),
    ("sac", NUMBERS, {"entropy_ratio": 0.5, "temperature": "fixed"}, {"temperature": "tuned"}, NUMBERS),
    ("sac", CHOICES, {"alpha_learning_rate": 0.1, "temperature": "fixed"}, {"temperature": "tuned"}, CHOICES),
    ("ddpg", NUMBERS, {"target_clip": 0.1}, {"target_noise": 0.1}, NUMBERS),
    ("sac", CHOICES, {"entropy_ratio": 0.5}, {}, NUMBERS),
    ("sac", NUMBERS, {"discrete_entropy_ratio": 0.7}, {}, CHOICES),
    ("q-learning", "FrozenLake-v1", {"visit_power": 0.6}, {"count_visits": True}, "FrozenLake-v1"),
    ("es", CHOICES, {"squash": "clip"}, {}, NUMBERS),
    ("es", NUMBERS, {"sample_actions": True}, {}, CHOICES),
    ("sac", NUMBERS, {"burn_in": 5}, {"memory": "gru"}, NUMBERS),
    ("td3", NUMBERS, {"sequence_length": 8}, {"memory": "gru"}, NUMBERS),
    ("crossq", NUMBERS, {"memory_size": 8}, {"memory": "gru"}, NUMBERS),
    ("crossq", NUMBERS, {"critic_hidden": (8,), "memory": "gru"}, {"memory": "none"}, NUMBERS),
    ("droq", NUMBERS, {"burn_in": 5}, {"memory": "gru"}, NUMBERS),
    ("fasttd3", NUMBERS, {"target_clip": 0.1, "target_noise": 0.0}, {"target_noise": 0.1}, NUMBERS),
    ("tqc", NUMBERS, {"memory_window": 8, "memory": "gru"}, {"memory": "gtrxl"}, NUMBERS),
    ("es", CHOICES, {"memory_size": 8}, {"memory": "gru"}, CHOICES),
]


@pytest.mark.parametrize(
    "name, env, fields, sense, other", IGNORED, ids=lambda x: "-".join(x) if type(x) is dict else x
)
def test_fields_without_effect_are_refused_and_accepted_where_they_have_one(name, env, fields, sense, other):
    given = next(iter(fields))
    with pytest.raises(ValueError, match=f"^{given}=.* changes nothing .*: leave it out"):
        AGENTS[name].build(**fields).bind(env_for(env))
    AGENTS[name].build(**{**fields, **sense}).bind(env_for(other))


ABLE = {
    CHOICES: "a2c bc c51 dqn es iqn pqn ppo rainbow redq rl2 sac",
    NUMBERS: "a2c bc crossq ddpg droq es fasttd3 ppo redq rl2 sac td3 tqc",
    "FrozenLake-v1": "a2c bc c51 double-q dqn es expected-sarsa iqn pqn ppo q-learning rainbow redq rl2 sac sarsa",
    "Probe-MultiDiscrete-v0": "a2c bc es ppo rl2",
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("env", ABLE)
@pytest.mark.parametrize("name", sorted(AGENTS))
def test_an_unsuitable_agent_is_refused_with_the_names_of_suitable_agents(name, env, tmp_path):
    able = ABLE[env].split()
    if name not in able:
        words = rf"^{name} cannot play {env}: \w.* Agents that can play {env}: ([\w, -]+)\.$"
        with pytest.raises(Unsuited, match=words) as refused:
            shoal.train(name, env, preset=None, folder=tmp_path / "run")
        assert sorted(re.match(words, str(refused.value))[1].split(", ")) == sorted(able)
        assert not (tmp_path / "run").exists()  # nothing was compiled either: only a run compiles
    elif name == "bc":
        with pytest.raises(ValueError, match="no demonstrations to learn from"):
            make_plan(RunSpec(name, env, steps=1000))
    else:
        make_plan(RunSpec(name, env, steps=1000))


def env_for(env):
    return make(env) if isinstance(env, str) else env


@pytest.mark.parametrize("name", ["ppo", "es", "dqn", "pqn", "sac"])
def test_categories_are_not_normalized(name):
    with pytest.raises(ValueError, match="arrays of numbers, not images of categories"):
        AGENTS[name].build(normalize_observation=True).bind(ImgObs(make("MiniGrid-Empty-5x5-v0")))


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_integer_box_actions_are_refused(name):
    with pytest.raises(Unsuited, match="actions are real numbers, so it needs a Box of floats"):
        AGENTS[name].build().bind(Counted())


def test_a_value_outside_the_search_choices_is_accepted():
    assert AGENTS["dqn"].build(n_step=4).bind(make(CHOICES)).n_step == 4


def holding(name, field, value):
    """An agent with a field value that the type checks of the tests would refuse."""
    agent = AGENTS[name].build()
    object.__setattr__(agent, field, value)
    return agent


@pytest.mark.parametrize("field", ["activation", "memory"])
def test_only_fields_declared_as_any_accept_a_function(field):
    with pytest.raises(ValueError, match=f"{field}=.*tanh.* is unknown. Choose one of"):
        holding("ppo", field, jnp.tanh).bind(make(CHOICES))


@pytest.mark.parametrize("name", ["ppo", "dqn", "pqn", "sac", "es"])
def test_a_number_is_refused_as_layer_sizes(name):
    with pytest.raises(TypeError, match=r"hidden=64 must be a tuple, such as \(64, 64\)"):
        holding(name, "hidden", 64).bind(make(CHOICES))


@pytest.mark.parametrize("name", ["dqn", "sac", "td3"])
def test_a_buffer_too_small_for_one_sample_is_refused(name):
    env = make(CHOICES if name == "dqn" else NUMBERS)
    with pytest.raises(ValueError, match="buffer_size=200 holds 1 steps of each of 256 environments: too few"):
        AGENTS[name].build(num_envs=256, buffer_size=200).bind(env)
    AGENTS[name].build(num_envs=256, buffer_size=257).bind(env)


def test_normalized_advantages_with_minibatches_of_one_sample_are_refused():
    alone = {"num_envs": 1, "num_steps": 16, "num_minibatches": 16}
    with pytest.raises(
        ValueError, match="num_minibatches=16 gives minibatches of one sample each, whose normalized advantage is 0"
    ):
        AGENTS["ppo"].build(**alone).bind(make(CHOICES))
    AGENTS["ppo"].build(**alone, normalize_advantage=False).bind(make(CHOICES))
