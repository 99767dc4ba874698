"""Numbers and values of hyperparameters as texts."""

import pytest

from shoal.viz.words import exact, number, setting_in_words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.00025, "0.00025"), (487.31, "487.3"), (12345.6, "12,346"), (3.0, "3"), (1e-5, "1e-05"), (-20.5, "-20.5")]
    + [(float("nan"), "–"), (None, "–"), (float("inf"), "infinite"), (True, "true"), (2e15, "2e+15")],
)
def test_numbers_have_four_digits(value, words):
    assert number(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(True, "true"), (None, "none"), (2.0, "2"), (0.1, "0.1"), ((64, 64), "64,64"), ("adam", "adam"), (1e20, "1e+20")],
)
def test_values_are_written_as_on_a_command_line(value, words):
    assert exact(value) == words


def test_a_setting_has_numbers_of_four_digits_and_values_as_on_a_command_line():
    setting = {"learning_rate": 0.00123456, "env.gravity": 5, "hidden": (64, 64), "target_kl": None}
    assert setting_in_words(setting) == "learning_rate 0.001235, env.gravity 5, hidden 64,64, target_kl none"
