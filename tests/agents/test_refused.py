"""What is given and would change nothing is refused, in words; what matters elsewhere is taken there."""

import pytest

from shoal.core.registry import AGENTS, make

CHOICES, NUMBERS = "CartPole-v1", "Pendulum-v1"
IGNORED = [
    ("ppo", CHOICES, {"noise_correlation": 0.5}, {}, NUMBERS),
    ("ppo", CHOICES, {"log_std_init": -1.0}, {}, NUMBERS),
    ("ppo", CHOICES, {"memory_size": 8}, {"memory": "gru"}, CHOICES),
    ("dqn", CHOICES, {"epsilon_end": 0.1, "noisy": True}, {"noisy": False}, CHOICES),
    ("dqn", CHOICES, {"priority_exponent": 0.5}, {"prioritized": True}, CHOICES),
    ("dqn", CHOICES, {"v_max": 10.0}, {"head": "categorical"}, CHOICES),
    ("dqn", CHOICES, {"atoms": 11}, {"head": "quantile"}, CHOICES),
    ("c51", CHOICES, {"loss": "huber"}, {"head": "expected", "atoms": 51}, CHOICES),
    ("sac", CHOICES, {"entropy_ratio": 0.5}, {}, NUMBERS),
    ("sac", NUMBERS, {"discrete_entropy_ratio": 0.5}, {}, CHOICES),
    ("q-learning", "FrozenLake-v1", {"visit_power": 0.6}, {"count_visits": True}, "FrozenLake-v1"),
    ("es", CHOICES, {"squash": "clip"}, {}, NUMBERS),
    ("es", NUMBERS, {"sample_actions": True}, {}, CHOICES),
    ("es", CHOICES, {"memory_size": 8}, {"memory": "gru"}, CHOICES),
]


@pytest.mark.parametrize(
    "name, env, fields, sense, other", IGNORED, ids=lambda x: "-".join(x) if type(x) is dict else x
)
def test_fields_that_change_nothing_are_refused_and_taken_where_they_do(name, env, fields, sense, other):
    given = next(iter(fields))
    with pytest.raises(ValueError, match=f"^{given}=.* changes nothing .*: leave it out"):
        AGENTS[name].build(**fields).bind(make(env))
    AGENTS[name].build(**{**fields, **sense}).bind(make(other))


@pytest.mark.parametrize("name", ["ppo", "es"])
def test_categories_are_not_normalized(name):
    from shoal.grid.wrappers import ImgObs

    with pytest.raises(ValueError, match="arrays of numbers, not images of categories"):
        AGENTS[name].build(normalize_observation=True).bind(ImgObs(make("MiniGrid-Empty-5x5-v0")))


def test_a_number_need_not_be_among_those_worth_searching():
    assert AGENTS["dqn"].build(n_step=4).bind(make(CHOICES)).n_step == 4
