"""Arguments of the wrong name or kind, explained. `test_python_mistakes.py` has those of `train`."""

from functools import partial

import pytest

from shoal.specs.arguments import explaining_arguments


def stand_in(agent, env, *, steps=1, fields=None, sweep=None, env_fields=None, env_sweep=None, sinks=(), **options):
    return agent, env, steps, fields, options


explained = explaining_arguments(stand_in)


def test_right_arguments_reach_the_function_as_they_are():
    fields = {"discount": 0.9}
    assert explained("ppo", "CartPole-v1", steps=3, fields=fields) == ("ppo", "CartPole-v1", 3, fields, {})
    assert explained.__name__ == "stand_in"


def test_keywords_that_the_function_passes_on_are_named_beside_it():
    with pytest.raises(TypeError, match="has no argument 'rounds'"):
        explained("ppo", "CartPole-v1", rounds=2)
    others = partial(explaining_arguments, also=("rounds",))(stand_in)
    assert others("ppo", "CartPole-v1", rounds=2)[-1] == {"rounds": 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step": 3}, r"stand_in\(\) has no argument 'step'. Did you mean steps"),
        ({"gravity": 5}, "It is a field of the environment: write env_fields={'gravity': 5}"),
        ({"fields": [1]}, r"fields=\[1\] is no dict"),
        ({"sweep": {"discount": 0.9}}, r"needs a list of values, such as \[0.9\]"),
        ({"fields": {"gravity": 5}}, "gravity is a field of the environment: write env_fields="),
        ({"env_fields": {"discount": 0.9}}, "discount is a field of the agent: write fields="),
        ({"sinks": [1]}, "is no list of sinks"),
    ],
)
def test_wrong_arguments_are_explained_before_the_function_is_called(arguments, message):
    with pytest.raises(TypeError, match=message):
        explained("ppo", "CartPole-v1", **arguments)


def test_several_environments_are_for_another_function():
    with pytest.raises(TypeError, match="stand_in takes one environment: shoal.train_all takes a list of them"):
        explained("ppo", ["CartPole-v1", "Acrobot-v1"])


def test_a_class_is_no_value():
    from shoal.agents.ppo import PPO

    with pytest.raises(TypeError, match=r'agent=PPO is a class, not an agent: give "ppo", .*PPO\(\)'):
        explained(PPO, "CartPole-v1")
