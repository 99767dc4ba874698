"""Ranges: positions and numbers on three scales, against numbers worked out by hand; samples; what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.ranges import SCALES, Range
from shoal.core.struct import hyper

RANGES = {
    "linear": (Range(5.0, 15.0), {0: 5.0, 0.25: 7.5, 1: 15.0}),
    "log": (Range(1e-4, 1e-2, "log"), {0: 1e-4, 0.5: 1e-3, 1: 1e-2}),
    "near1": (Range(0.9, 0.999, "near1"), {0: 0.9, 0.5: 0.99, 1: 0.999}),
}


@pytest.mark.parametrize("numpy", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.parametrize("scale", SCALES)
def test_a_position_becomes_a_number_and_back(scale, numpy):
    span, numbers = RANGES[scale]
    for position, number in numbers.items():
        np.testing.assert_allclose(span.at(numpy.float32(position), numpy), number, rtol=1e-6)
        np.testing.assert_allclose(span.position(number), position, atol=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_samples_are_uniform_on_the_scale_and_inside(scale):
    span, _ = RANGES[scale]
    samples = np.asarray(span.sample(np.random.default_rng(0), 4_000))
    assert span.low <= samples.min() and samples.max() <= span.high
    shares = np.histogram(span.position(samples), bins=4, range=(0, 1))[0] / 4_000
    np.testing.assert_allclose(shares, 0.25, atol=0.03)  # four standard errors


def test_samples_near_1_keep_four_digits_of_the_distance_from_1():
    samples = Range(0.9, 0.999999, "near1").sample(np.random.default_rng(1), 200)
    assert max(samples) > 0.9999 and len(set(samples)) > 190
    assert all(float(f"{1 - x:.4g}") == pytest.approx(1 - x, rel=1e-9) for x in samples)


@pytest.mark.parametrize("numpy", [np, jnp], ids=["numpy", "jax"])
def test_whole_numbers_are_rounded_and_stay_inside(numpy):
    span = Range(10, 17, is_whole=True)
    np.testing.assert_array_equal(span.at(numpy.linspace(0, 1, 5), numpy), [10, 12, 14, 15, 17])  # 11.75, 13.5, 15.25
    samples = span.sample(np.random.default_rng(0), 500)
    assert {*samples} == {*range(10, 18)} and {*map(type, samples)} == {int}


@pytest.mark.parametrize(
    ("span", "count", "numbers"),
    [
        (Range(5, 15), 3, [5.0, 10.0, 15.0]),
        (Range(5, 15), 1, [5.0]),
        (Range(2, 2), 3, [2.0]),
        (Range(1.23456, 2.34567), 3, [1.23456, 1.79, 2.34567]),  # the ends as they are, 1.790115 with four digits
        (Range(1e-5, 1e-3, "log"), 5, [1e-5, 3.162e-5, 1e-4, 3.162e-4, 1e-3]),
        (Range(0.9, 0.999, "near1"), 3, [0.9, 0.99, 0.999]),
        (Range(10, 17, is_whole=True), 5, [10, 12, 14, 15, 17]),
        (Range(10, 12, is_whole=True), 5, [10, 11, 12]),  # 10, 10.5, 11, 11.5, 12: halves become even
        (Range(1, 100, "log", is_whole=True), 3, [1, 10, 100]),
        (Range(1, 3, values=(3, 1)), 5, [3, 1]),
    ],
)
def test_spaced_numbers_have_equal_distances_on_the_scale(span, count, numbers):
    found = span.spaced(count)
    assert found == pytest.approx(numbers, rel=1e-12) and [*map(type, found)] == [*map(type, numbers)]


@pytest.mark.parametrize("written", [(1.0, 2.0, "linear"), (0.1, 2.0, "log"), (0.5, 0.9, "near1"), (3, 1, 2, "choice")])
def test_a_range_is_read_as_it_is_written(written):
    assert Range.of(written).written() == written and Range.of(list(written)) == Range.of(written)


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ((2, 1), "is empty: write the lower bound first"),
        ((0, 1, "log"), "must start above 0"),
        ((0.9, 1, "near1"), "must end below 1"),
        ((1, 2, "square"), "has an unknown scale"),
        ((float("nan"), 1), "is empty"),
    ],
)
def test_what_is_no_range_is_refused_where_it_is_declared(search, words):
    with pytest.raises(ValueError, match=words):
        hyper(0.5, search=search)
