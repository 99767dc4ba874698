"""The line that says which hyperparameters of a run are not the defaults."""

import pytest

from shoal.specs.changes import changes_in_words
from shoal.training.jobs import make_job


@pytest.mark.parametrize(
    ("agent", "env", "options", "words"),
    [
        ("dqn", "CartPole-v1", {"preset": None}, ""),
        ("q-learning", "Taxi-v4", {}, "preset: learning_rate=0.5 epsilon_end=0.1"),
        (
            "q-learning",
            "Taxi-v4",
            {"fields": {"anneal": 0.5}},
            "preset: learning_rate=0.5 epsilon_end=0.1; also anneal=0.5",
        ),
        ("q-learning", "Taxi-v4", {"fields": {"epsilon_end": 0.2}}, "learning_rate=0.5 epsilon_end=0.2"),
        ("q-learning", "Taxi-v4", {"preset": None, "env_fields": {"is_rainy": True}}, "env.is_rainy=True"),
        ("a2c", "CartPole-v1", {"preset": None}, ""),  # its own defaults are not those of PPO
        ("dqn", "CartPole-v1", {"preset": None, "fields": {"batch_size": 32.0}}, "batch_size=32"),
        ("ppo", "Acrobot-v1", {"preset": None, "sweep": {"clip": [0.1, 0.3]}}, ""),
    ],
)
def test_values_that_are_not_the_defaults_are_named(agent, env, options, words):
    assert changes_in_words(make_job(agent, env, **options).spec) == words
