"""Search spaces: values become coordinates and back."""

import jax
import numpy as np

from shoal.agents.learned_losses import LearnedDrift
from shoal.core.keys import make_key
from shoal.core.ranges import Range
from shoal.population.search_space import SearchSpace

DRIFT = LearnedDrift.init(make_key(0), hidden=3)
SPACE = SearchSpace({"rate": Range(1e-4, 1e-2, "log"), "surrogate": DRIFT, "gravity": Range(5.0, 15.0)})


def test_a_number_is_its_position_in_its_range():
    # log10: -4 is 0, -2 is 1, -3.5 is 0.25; 7.5 lies at a quarter of [5, 15].
    x = SPACE.coordinates({"rate": 10**-3.5, "surrogate": DRIFT, "gravity": 7.5})
    assert SPACE.size == 1 + 8 * 3 + 3 + 1 == len(x)
    np.testing.assert_allclose(x[[0, -1]], [0.25, 0.25], atol=1e-6)
    np.testing.assert_array_equal(x[1:-1], np.concatenate([np.ravel(DRIFT.hidden), DRIFT.output]))


def test_coordinates_become_the_same_values_again():
    x = np.random.default_rng(0).normal(size=(2, 5, SPACE.size)).astype(np.float32)
    x[..., [0, -1]] = np.clip(x[..., [0, -1]], 0, 1)
    values = SPACE.values(x)
    assert values["rate"].shape == (2, 5) and values["surrogate"].hidden.shape == (2, 5, 8, 3)
    np.testing.assert_array_equal(values["surrogate"].threshold, np.full((2, 5), 1e-4))
    one = jax.tree.map(lambda leaf: leaf[1, 4], values)
    np.testing.assert_allclose(SPACE.coordinates(one), x[1, 4], atol=2e-6)


def test_numbers_outside_their_range_are_clipped():
    x = np.zeros((2, SPACE.size), np.float32)
    x[0, [0, -1]], x[1, [0, -1]] = -3, 7
    values = SPACE.values(x)
    np.testing.assert_array_equal(values["rate"], np.float32([1e-4, 1e-2]))
    np.testing.assert_array_equal(values["gravity"], np.float32([5, 15]))
