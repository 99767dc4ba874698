"""Advice for environments of other libraries."""

from functools import partial

import gymnasium
import pytest

import shoal
from shoal.core.errors import CheckError
from shoal.core.foreign import gymnasium_name, library_of
from shoal.envs.classic.cartpole import CartPole

FILE = """
import gymnasium


class Mine(gymnasium.Env):
    pass
"""


class Mine(gymnasium.Env):
    """An environment of the user's own, whose module says nothing about Gymnasium."""


def test_the_library_is_that_of_the_class_or_of_one_from_which_it_derives():
    assert library_of(Mine()) == library_of(Mine) == "gymnasium"
    assert library_of(CartPole()) is None and library_of("CartPole-v1") is None


def test_an_environment_of_gymnasium_is_given_by_its_name():
    assert gymnasium_name(gymnasium.make("CartPole-v1")) == 'give its name, "gymnasium/CartPole-v1"'
    assert gymnasium_name(CartPole()) == gymnasium_name(CartPole) == ""


@pytest.mark.parametrize("value", [Mine(), Mine], ids=["value", "class"])
@pytest.mark.parametrize("call", [partial(shoal.train, "ppo"), shoal.check_env], ids=["train", "check_env"])
def test_an_own_environment_of_gymnasium_is_registered_and_given_by_its_name(call, value):
    registration = r'gymnasium.register\("Mine-v0", "my_file:Mine"\) .* give the name "gymnasium/my_file:Mine-v0"'
    with pytest.raises((TypeError, CheckError), match=registration):
        call(value)


def test_a_class_of_gymnasium_in_a_file_is_given_by_its_name(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    with pytest.raises(ValueError, match=r"Mine is no environment: write gymnasium.register\("):
        shoal.make(f"{tmp_path / 'mine.py'}:Mine")
