"""Spaces: samples lie inside, invalid values outside, and equal spaces are equal dictionary keys."""

import tracemalloc
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.spaces import (
    Box,
    Dict,
    Discrete,
    MultiDiscrete,
    Tuple,
    alike,
    explain,
    flat_size,
    from_unit,
    is_bounded,
    to_unit,
    without_real_bounds,
    zeros,
)

INF = float("inf")
REAL = st.floats(-(2.0**90), 2.0**90, width=32)
BOUNDS = st.tuples(st.just(-INF) | REAL, st.just(INF) | REAL).map(sorted).map(tuple)

# Few shapes and dtypes: outside of a program, every operation is compiled for each.
discretes = st.builds(Discrete, st.integers(1, 128), st.sampled_from([np.uint8, np.int32, np.int64]))
multi_discretes = st.builds(MultiDiscrete, st.lists(st.integers(1, 9), min_size=2, max_size=2).map(tuple))
real_boxes = st.builds(lambda b, shape: Box(*b, shape), BOUNDS, st.sampled_from([(), (2,)]))
mixed_boxes = st.lists(BOUNDS, min_size=2, max_size=2).map(lambda b: Box(*zip(*b, strict=True), (len(b),)))
image_boxes = st.builds(lambda high: Box(0, high, (2, 2, 1), np.uint8), st.integers(0, 255))
bool_boxes = st.just(Box(0, 1, (2, 3), np.bool_))
plain = discretes | multi_discretes | real_boxes | mixed_boxes | image_boxes | bool_boxes
spaces = (
    plain
    | st.lists(plain, max_size=2).map(lambda parts: Tuple(tuple(parts)))
    | st.dictionaries(st.sampled_from("abc"), plain, min_size=1, max_size=2).map(Dict)
)


def draw(space, count, seed=0):
    """That many samples of a space."""
    return jax.jit(jax.vmap(space.sample))(jax.random.split(jax.random.key(seed), count))


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # beartype does, where a strategy builds a space
@settings(max_examples=25, deadline=None)
@given(space=spaces, seed=st.integers(0, 2**31 - 1))
def test_every_sample_is_contained_and_looks_like_zeros(space, seed):
    x = space.sample(jax.random.key(seed))
    assert bool(space.contains(x)), (space, x)
    assert explain(space, x) is None
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), x) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), zeros(space)
    )
    assert flat_size(space) == sum(leaf.size for leaf in jax.tree.leaves(x))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "space",
    [
        Discrete(3),
        MultiDiscrete((2, 5)),
        Box(-1, 1, (2,)),
        Box(0, INF, (2,)),
        Tuple((Discrete(2), Box(0, 255, (2,), np.uint8))),
        Dict({"b": Discrete(2), "a": Box(-INF, INF, (3,))}),
    ],
)
def test_jit_and_vmap_agree_with_eager(space):
    keys = jax.random.split(jax.random.key(3), 5)
    drawn = jax.jit(jax.vmap(space.sample))(keys)
    one_by_one = jax.tree.map(lambda *xs: jnp.stack(xs), *[space.sample(k) for k in keys])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), drawn, one_by_one)
    assert jax.jit(jax.vmap(space.contains))(drawn).tolist() == [True] * 5


def test_discrete_holds_zero_to_n_minus_one():
    space = Discrete(3)
    assert [bool(space.contains(jnp.int32(x))) for x in (-1, 0, 2, 3)] == [False, True, True, False]
    seen = draw(space, 200)
    assert set(seen.tolist()) == {0, 1, 2}


def test_multi_discrete_checks_each_entry():
    space = MultiDiscrete((2, 3))
    inside = [bool(space.contains(jnp.int32(jnp.asarray(x)))) for x in ([1, 2], [2, 0], [0, 3], [-1, 0])]
    assert inside == [True, False, False, False]


def test_wrong_shape_dtype_or_kind_is_outside():
    space = Box(0.0, 1.0, (2,))
    good = jnp.array([0.0, 1.0])
    assert bool(space.contains(good))
    for bad in (good[:1], good[None], good.astype(jnp.float16), jnp.array([0, 1]), [0.0, 1.0], 0.5, None):
        assert not bool(space.contains(bad))
    for bad in (1, 1.0, jnp.float32(1), jnp.array([1]), jnp.uint8(1)):
        assert not bool(Discrete(3).contains(bad))


def test_no_space_contains_nan():
    assert not bool(Box(-INF, INF).contains(jnp.float32(jnp.nan)))


def test_a_box_contains_its_bounds():
    space = Box((-1.0, -INF), (1.0, 5.0), (2,))
    inside = [bool(space.contains(jnp.array(x))) for x in ([-1.0, 5.0], [1.0, -INF], [1.5, 0.0], [0.0, 5.5])]
    assert inside == [True, True, False, False]


def test_samples_of_the_widest_float_box_are_finite():
    greatest = float(np.finfo(np.float32).max)
    drawn = np.asarray(draw(Box(-greatest, greatest), 100))
    assert np.isfinite(drawn).all()
    assert drawn.min() < -0.5 * greatest and drawn.max() > 0.5 * greatest


def test_samples_of_image_boxes_reach_both_bounds():
    drawn = draw(Box(0, 255, (4, 4, 3), np.uint8), 200)
    assert drawn.dtype == jnp.uint8
    assert len(np.unique(drawn)) == 256


def test_samples_are_uniform():
    drawn = np.asarray(draw(Box(-2.0, 6.0), 4000, seed=1))
    # Uniform on [-2, 6]: mean 2, standard deviation 8 / sqrt(12) = 2.309; the error of the mean is 0.037.
    np.testing.assert_allclose(drawn.mean(), 2.0, atol=0.15)
    np.testing.assert_allclose(drawn.std(), 2.309, atol=0.1)


def test_samples_of_one_sided_boxes_respect_the_bound():
    assert np.asarray(draw(Box(3.0, INF), 50)).min() >= 3.0
    assert np.asarray(draw(Box(-INF, 3.0), 50)).max() <= 3.0


def test_integers_of_any_width_are_sampled():
    dtypes = [np.iinfo(dtype) for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32)]
    spaces = [Box(whole.min, whole.max, (64,), whole.dtype) for whole in dtypes]

    @jax.jit
    def samples(key):
        drawn = [space.sample(key) for space in spaces]
        return drawn, [space.contains(x) for space, x in zip(spaces, drawn, strict=True)]

    for whole, x, is_inside in zip(dtypes, *samples(jax.random.key(0)), strict=True):
        assert x.dtype == whole.dtype and is_inside, whole
        assert np.asarray(x).max() > 0.5 * whole.max


def test_samples_have_the_declared_dtype_under_x64():
    space = Box(-1.0, 1.0, (2,), np.float64)
    assert space.sample(jax.random.key(0)).dtype == jnp.float32
    with jax.enable_x64(True):
        drawn = space.sample(jax.random.key(0))
        assert drawn.dtype == jnp.float64
        assert bool(space.contains(drawn))
        assert not bool(space.contains(drawn.astype(jnp.float32)))
        assert Discrete(4).sample(jax.random.key(0)).dtype == jnp.int32
        assert Discrete(4, np.int64).sample(jax.random.key(0)).dtype == jnp.int64


def test_equal_spaces_are_one_key():
    same = [
        (Discrete(2), Discrete(2, np.dtype("int32"))),
        (MultiDiscrete((2, 3)), MultiDiscrete((2, 3), "int32")),
        (Box(0, 1, (2,)), Box(np.zeros(2), jnp.ones(2), (2,), "float32")),
        (Box((0, 1), 2, (2,)), Box(np.array([0.0, 1.0]), 2.0, (2,))),
        (Dict({"a": Discrete(2), "b": Discrete(3)}), Dict({"b": Discrete(3), "a": Discrete(2)})),
        (Tuple((Discrete(2),)), Tuple((Discrete(2, "int32"),))),
    ]
    for left, right in same:
        assert left == right and hash(left) == hash(right)
    different = [Discrete(2), Discrete(3), Discrete(2, np.uint8), Box(0, 1), Box(0, 2), Box(0, 1, (1,)), Tuple(())]
    assert len(set(different)) == len(different)


def test_composite_spaces_contain_only_values_with_exactly_their_parts():
    pair, named = Tuple((Discrete(2), Discrete(3))), Dict({"a": Discrete(2)})
    one, two = jnp.int32(1), jnp.int32(2)
    assert bool(pair.contains((one, two))) and not bool(pair.contains((two, one)))
    assert not bool(pair.contains((one,))) and not bool(pair.contains([one, two]))
    assert bool(named.contains({"a": one})) and not bool(named.contains({"a": two}))
    assert not bool(named.contains({"b": one})) and not bool(named.contains({"a": one, "b": one}))
    assert named["a"] == Discrete(2)


@pytest.mark.parametrize(
    ("build", "error", "says"),
    [
        (lambda: Discrete(0), ValueError, "n=0"),
        (lambda: Discrete(300, np.uint8), ValueError, "uint8"),
        (lambda: Discrete(2, np.float32), TypeError, "float32"),
        (lambda: MultiDiscrete(()), ValueError, "nvec"),
        (lambda: MultiDiscrete((2, 0)), ValueError, "nvec"),
        (lambda: Box(1, 0), ValueError, "low=1, high=0"),
        (lambda: Box(float("nan"), 1), ValueError, "low <= high"),
        (lambda: Box(-1, 255, (2,), np.uint8), ValueError, "0 to 255"),
        (lambda: Box(-INF, INF, (), np.int32), ValueError, "int32"),
    ],
)
def test_impossible_spaces_are_refused(build, error, says):
    with pytest.raises(error, match=says):
        build()


@pytest.mark.parametrize(
    ("space", "x", "says"),
    [
        (Discrete(3), 1, "action is of type int, not an array of int32"),
        (Discrete(3), jnp.float32(1), "action is float32 with shape (), not int32 with shape ()"),
        (Discrete(3), jnp.int32(7), "action=7 is out of bounds"),
        (Tuple((Discrete(2), Discrete(2))), (jnp.int32(0), jnp.int32(5)), "action[1]=5 is out of bounds"),
        (Dict({"gas": Discrete(2)}), {"brake": jnp.int32(0)}, "not a dict of ['gas']"),
    ],
)
def test_explain_says_what_is_wrong(space, x, says):
    assert says in explain(space, x, "action")


def test_explain_checks_concrete_values_during_tracing():
    reasons = []
    jax.jit(lambda: reasons.append(explain(Discrete(3), np.int32(7))))()
    assert reasons == ["it=7 is out of bounds"]


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (Discrete(3), "Discrete(3)"),
        (Discrete(3, np.uint8), "Discrete(3, uint8)"),
        (MultiDiscrete((2, 3)), "MultiDiscrete((2, 3))"),
        (MultiDiscrete((4,) * 225, np.uint8), "MultiDiscrete((4,) * 225, uint8)"),
        (Box(0, 255, (2, 2), np.uint8), "Box(0, 255, (2, 2), uint8)"),
        (Box(-INF, np.float32(4.8), (3,)), "Box(-inf, 4.8, (3,))"),
        (Box((0.0, np.float32(0.1)), 1.0, (2,)), "Box((0.0, 0.1), 1.0, (2,))"),
        (Tuple((Discrete(2), Discrete(3))), "Tuple((Discrete(2), Discrete(3)))"),
        (Dict({"a": Discrete(2)}), "Dict({'a': Discrete(2)})"),
    ],
)
def test_a_space_prints_as_it_is_written(space, text):
    assert repr(space) == text


def test_spaces_are_similar_when_only_bounds_of_boxes_differ():
    box = Box(0.0, 1.0, (2,))
    assert alike(box, Box(-3.0, 9.0, (2,))) and not alike(box, Box(0.0, 1.0, (3,)))
    assert not alike(Box(0, 1, (2,), np.uint8), box)
    assert alike(Discrete(3), Discrete(3)) and not alike(Discrete(3), Discrete(4))
    assert not alike(Discrete(3), Discrete(3, np.uint8))
    assert not alike(MultiDiscrete((2, 3)), MultiDiscrete((2, 4))) and not alike(Discrete(2), box)
    assert alike(Dict({"a": box, "b": Discrete(2)}), Dict({"b": Discrete(2), "a": Box(0.0, 2.0, (2,))}))
    assert not alike(Dict({"a": box}), Dict({"b": box})) and not alike(Dict({"a": box}), Dict({"a": Discrete(2)}))
    assert alike(Tuple((box,)), Tuple((box,))) and not alike(Tuple((box,)), Tuple((box, box)))


def test_similarity_ignores_bounds_of_float_boxes_only():
    image, count = Box(0, 255, (2, 2, 1), np.uint8), Discrete(4)
    free = Box(-np.inf, np.inf, (2,))
    space = Dict({"image": image, "more": Tuple((count, Box(0.0, 1.0, (2,))))})
    assert without_real_bounds(space) == Dict({"image": image, "more": Tuple((count, free))})


def test_a_box_of_ten_thousand_million_numbers_is_refused_before_any_is_made():
    tracemalloc.start()
    with pytest.raises(ValueError, match="at most 268,435,456 numbers"):
        Box(0, 255, (100_000, 100_000), np.uint8)
    Box(0, 255, (2**14, 2**14), np.uint8)  # the largest one: its bounds are two numbers
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
    for bounds in ((np.zeros(3), 1.0), (0.0, (1.0, 2.0, 3.0))):
        with pytest.raises(ValueError, match=r"of a Box has the shape \(3,\), which does not fit \(\)"):
            Box(*bounds)
    with pytest.raises(ValueError, match="at least 0"):
        Box(0, 1, (-1,))


SKEWED = Box((-1.0, 10.0), (3.0, 10.5), (2,))


def test_the_units_of_a_box_are_minus_1_and_1_at_its_bounds():
    unit = jnp.asarray([[-1.0, 1.0], [0.0, 0.5]])
    element = from_unit(SKEWED, unit)
    np.testing.assert_allclose(element, [[-1, 10.5], [1, 10.375]], rtol=1e-6)
    np.testing.assert_allclose(to_unit(SKEWED, element), unit, atol=1e-5)
    np.testing.assert_array_equal(from_unit(SKEWED, 2 * unit[:1]), [[-1, 10.5]])  # never outside


def test_a_number_without_two_finite_bounds_keeps_its_units():
    half_open = Box((-INF, 5.0, -INF, -1e-3), (INF, INF, 2.0, 1e-3), (4,))
    np.testing.assert_array_equal(is_bounded(half_open), [False, False, False, True])
    np.testing.assert_allclose(from_unit(half_open, jnp.full(4, -3.0)), [-3, 5, -3, -1e-3])
    np.testing.assert_allclose(from_unit(half_open, jnp.full(4, 7.0)), [7, 7, 2, 1e-3])
    np.testing.assert_allclose(to_unit(half_open, jnp.asarray([7.0, 7, 2, 1e-3])), [7, 7, 2, 1], rtol=1e-6)


@pytest.mark.parametrize(("low", "high"), [(-3e38, 3e38), (3e38, 3.3e38), (-1e-30, 1e-30), (4.0, 4.0), (5.0, 5.001)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_elements_for_any_numbers_lie_in_their_box(low, high, dtype):
    limit = float(np.finfo(dtype).max)
    space = Box(np.clip(low, -limit, limit).item(), np.clip(high, -limit, limit).item(), (1,), dtype)
    is_point = space.bounds()[0] == space.bounds()[1]  # also where this dtype rounds them to one number
    for unit in (-1e30, -1.0, -0.3, 0.0, 1.0, 1e30):
        element = from_unit(space, jnp.full(1, unit, jnp.float32))
        assert space.contains(element)
        np.testing.assert_allclose(to_unit(space, element), 0 if is_point else np.clip(unit, -1, 1), atol=2e-3)


@pytest.mark.parametrize("make", [lambda n: Discrete(n), lambda n: MultiDiscrete((2, n))], ids=["one", "several"])
def test_sizes_of_thousands_of_digits_are_refused_in_words(make):
    with pytest.raises(ValueError, match="not n.*=.*a number of more than 40 digits"):
        make(10**5_000)


WRONG_NUMBERS = [None, "3", 2.7, np.nan, [2], {}, object(), True, 1j, np.asarray([3]), b"3"]
WRONG_LISTS = [None, 3, np.asarray(3), jnp.int32(3), "ab", object(), [None], ["a"], [2.5], [np.inf], [True]]
WRONG_DTYPES = ["x", "", np.nan, 10**30, object(), [1], {"a": 1}, {1}, np.asarray(3), 1j, lambda x: x]


@pytest.mark.usefixtures("without_type_checker")
@pytest.mark.parametrize(
    "call",
    [
        *(partial(Discrete, each) for each in WRONG_NUMBERS),
        *(partial(MultiDiscrete, each) for each in WRONG_LISTS),
        *(partial(Box, 0, 1, each) for each in WRONG_LISTS),
        *(partial(Box, each, 1) for each in (None, "x", object(), 1j, 10**30, {}, [None])),
        *(partial(Box, 0, each) for each in (None, "x", object(), 1j, 10**30, {}, [None])),
        *(partial(Box, 0, 1, (2,), each) for each in WRONG_DTYPES),
        *(partial(Discrete, 2, each) for each in [*WRONG_DTYPES, np.float32]),
        *(partial(Tuple, each) for each in [*WRONG_LISTS, [Discrete]]),
        *(partial(Dict, each) for each in [*WRONG_LISTS, {"a": 3}, {3: Discrete(2)}, {"a": Discrete}]),
    ],
)
def test_a_space_of_a_wrong_kind_is_refused_in_words(call):
    with pytest.raises(TypeError, match=f"{call.func.__name__} (needs|must)"):
        call()


def test_bounds_of_another_shape_are_refused_in_words():
    with pytest.raises(ValueError, match=r"low of a Box has the shape \(3,\), which does not fit \(2,\)"):
        Box(np.zeros(3), 1, (2,))


@pytest.mark.usefixtures("without_type_checker")
def test_whole_numbers_of_numpy_make_spaces():
    assert Discrete(np.int64(3)) == Discrete(jnp.int32(3)) == Discrete(np.asarray(3)) == Discrete(3)
    assert MultiDiscrete(np.asarray([2, 3])) == MultiDiscrete([2, 3]) == MultiDiscrete((2, 3))
    assert Box(0, 1, np.asarray([2, 3])).shape == (2, 3)
