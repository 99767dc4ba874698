"""Struct classes: they are frozen, survive flattening as JAX pytrees, and check the fields that a user gives."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, TypeCheckError

from shoal.core.env import State
from shoal.core.registry import make
from shoal.core.struct import (
    Number,
    Range,
    Struct,
    hyper,
    hyper_fields,
    info_of,
    is_concrete,
    part,
    static,
    static_fields,
    struct,
    to_arrays,
)


@struct
class Settings(Struct):
    rate: Number = hyper(0.1, search=(1e-3, 1.0, "log"), valid=(0.0, 1.0), help="how fast")
    width: int = static(8, choices=(8, 16))
    offset: Number = 2.0


@struct
class Bounded(Settings):
    """A subclass with one more field and a check of its own."""

    low: Number = 0.0
    high: Number = hyper(1.0, valid=(-5.0, 5.0))

    def __post_init__(self):
        if is_concrete(self.low) and is_concrete(self.high) and np.any(np.asarray(self.low) > np.asarray(self.high)):
            raise ValueError("low is above high")


@struct
class Narrower(Bounded):
    """A subclass without a check, which must keep those above it."""

    rate: Number = hyper(0.1, valid=(0.0, 0.5))


def test_a_value_is_frozen():
    with pytest.raises(FrozenInstanceError):
        Settings().rate = 0.2


def test_a_struct_is_unchanged_by_flatten_and_unflatten():
    value = Settings(rate=0.3, width=16, offset=jnp.arange(3))
    leaves, structure = jax.tree.flatten(value)
    again = jax.tree.unflatten(structure, leaves)
    assert type(again) is Settings
    assert (again.rate, again.width) == (0.3, 16)
    np.testing.assert_array_equal(again.offset, [0, 1, 2])
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(value)]
    assert paths == [".rate", ".offset"]


def test_static_fields_are_part_of_the_structure():
    structure = jax.tree.structure
    assert structure(Settings(width=8)) == structure(Settings(rate=0.9))
    assert structure(Settings(width=8)) != structure(Settings(width=16))
    assert hash(structure(Settings(width=8))) == hash(structure(Settings(width=8)))


def test_jax_may_replace_a_leaf_by_any_value():
    value = Bounded()
    assert jax.tree.map(lambda _: None, value).rate is None
    assert jax.tree.map(lambda _: 7.0, value).rate == 7.0  # out of range, but JAX is at work
    axes = jax.tree.map(lambda _: 0, value)
    population = jax.tree.map(lambda x: jnp.full(3, x), value)
    assert jax.vmap(lambda v: v.rate + v.offset, in_axes=(axes,))(population).shape == (3,)
    assert jax.eval_shape(lambda v: v, value).rate.shape == ()


def test_copies_and_pickles_are_equal_values():
    value = Bounded(low=-1.0, width=16)
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert jax.tree.structure(again) == jax.tree.structure(value)
        assert jax.tree.leaves(again) == jax.tree.leaves(value)


def test_field_metadata_distinguishes_static_and_hyper_fields():
    assert list(hyper_fields(Bounded)) == ["rate", "high"]
    assert list(static_fields(Bounded())) == ["width"]
    rate = info_of(hyper_fields(Settings)["rate"])
    assert rate.search == Range(1e-3, 1.0, "log") and rate.valid == Range(0.0, 1.0)
    assert rate.help == "how fast"
    assert info_of(static_fields(Settings)["width"]).choices == (8, 16)


@pytest.mark.parametrize(
    "bad", [1.5, -0.1, float("nan"), np.float32(2), np.array([0.1, 1.1]), jnp.array([0.1, jnp.nan])]
)
def test_a_number_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match=r"Settings.rate=.* is out of range: it must lie in \[0.0, 1.0\]"):
        Settings(rate=bad)


@pytest.mark.parametrize("good", [0, 1, 0.5, True, np.array([0.0, 1.0]), jnp.array([[0.5]])])
def test_a_range_includes_its_ends_and_takes_a_member_axis(good):
    np.testing.assert_array_equal(Settings(rate=good).rate, good)


@pytest.mark.parametrize("bad", ["0.1", [0.1, 0.2], (0.1,), {"rate": 0.1}])
def test_a_non_numeric_value_is_refused(bad):
    with pytest.raises(TypeError, match="Settings.rate=.*write a number, or for a population an array"):
        Settings(rate=bad)


@pytest.mark.parametrize("bad", ["fast", [1.0], (1.0,)])
def test_a_non_numeric_value_of_a_plain_field_is_refused(bad):
    env = make("CartPole-v1")
    object.__setattr__(env, "gravity", bad)  # what type checks, which run in tests alone, refuse
    with pytest.raises(TypeError, match="CartPole.gravity=.*write a number, or for a population an array"):
        env.__post_init__()


def test_none_beside_numbers_is_refused():
    with pytest.raises(TypeError, match=r"CartPole.max_steps=\[None, 50\] mixes None with numbers.* different runs"):
        make("CartPole-v1", max_steps=np.array([None, 50]))


@pytest.mark.parametrize("bad", ["false", 1, None])
def test_a_switch_is_true_or_false(bad):
    env = make("FrozenLake-v1")
    object.__setattr__(env, "is_slippery", bad)
    with pytest.raises(TypeError, match="FrozenLake.is_slippery=.* is a .*: write True or False"):
        env.__post_init__()


def test_traced_values_are_not_range_checked():
    assert float(jax.jit(lambda x: Settings(rate=x).rate * 2)(5.0)) == 10.0
    assert jax.vmap(lambda x: Settings().replace(rate=x).rate)(jnp.arange(3.0)).shape == (3,)


@pytest.mark.parametrize("bad", [[8], {"a": 1}, np.arange(2), jnp.arange(2)])
def test_a_static_field_must_be_hashable(bad):
    with pytest.raises(TypeError, match="Settings.width shapes the program"):
        Settings(width=bad)


@pytest.mark.parametrize("bad", [8.0, True, "8", None])
def test_a_static_integer_field_must_be_an_integer(bad):
    with pytest.raises(TypeError, match=rf"Settings.width={bad!r} is a {type(bad).__name__}: write a whole number"):
        Settings(width=bad)
    assert Settings(width=np.int64(9)).width == 9


@pytest.mark.parametrize(
    ("name", "bad", "said"),
    [
        ("locked_room_prob", "half", r"='half' is a str: write a number"),
        ("locked_room_prob", True, r"=True is a bool: write a number"),
        ("action_kinds", "goto", r"='goto' is a str: write a tuple, \('goto',\)"),
        ("instr_kinds", None, r"=None is a NoneType: write a tuple"),
    ],
)
def test_a_static_number_or_tuple_is_one(name, bad, said):
    env = make("BabyAI-BossLevel-v0")
    object.__setattr__(env, name, bad)
    with pytest.raises(TypeError, match=f"BossLevel.{name}{said}"):
        env.__post_init__()


def test_a_static_field_must_not_be_traced():
    with pytest.raises(TypeError, match="Settings.width shapes the program"):
        jax.jit(lambda n: Settings(width=n).rate)(3)


def test_replace_checks_again():
    value = Settings().replace(rate=0.9)
    assert (value.rate, value.width) == (0.9, 8)
    with pytest.raises(ValueError, match="out of range"):
        value.replace(rate=9.0)


def test_replace_names_the_nearest_field():
    with pytest.raises(TypeError, match=r"Settings has no field 'rte'. Did you mean rate\?$"):
        Settings().replace(rte=0.5)


def test_an_unknown_keyword_is_a_type_error():
    with pytest.raises(TypeError, match="rte"):
        Settings(rte=0.5)


def test_subclasses_keep_the_checks_of_their_base_classes():
    for cls in (Bounded, Narrower):
        with pytest.raises(ValueError, match="low is above high"):
            cls(low=2.0, high=1.0)
        with pytest.raises(ValueError, match="high=9.0 is out of range"):
            cls(high=9.0)
    assert Bounded(rate=0.7).rate == 0.7
    with pytest.raises(ValueError, match=r"Narrower.rate=0.7 is out of range: it must lie in \[0.0, 0.5\]"):
        Narrower(rate=0.7)


def test_an_attribute_may_not_hide_an_inherited_field():
    with pytest.raises(
        TypeError, match="Wide.width has no type, so it does not replace the field .*`width: int = ...`"
    ):

        @struct
        class Wide(Settings):
            width = 9


@pytest.mark.parametrize(
    ("ranges", "says"),
    [
        ({"search": (1.0, 0.1)}, "empty"),
        ({"valid": (1.0, float("nan"))}, "empty"),
        ({"search": (0.1, 1.0, "lgo")}, "unknown scale"),
        ({"search": (0.0, 1.0, "log")}, "must start above 0"),
    ],
)
def test_an_impossible_range_is_refused_where_it_is_declared(ranges, says):
    with pytest.raises(ValueError, match=says):
        hyper(0.5, **ranges)


def test_arrays_instead_of_numbers_never_retrace():
    traces = []

    @jax.jit
    def double(value):
        traces.append(value)
        return value.rate * 2

    for rate in (0.1, 0.2, 1, np.float32(0.3), np.float64(0.4), jnp.float32(0.5), jnp.asarray(0.6)):
        double(to_arrays(Settings(rate=jnp.asarray(rate, jnp.float32) if rate == 1 else rate)))
    assert len(traces) == 1
    double(to_arrays(Settings(width=16)))
    assert len(traces) == 2


def test_to_arrays_gives_strong_types_of_the_default_width():
    @struct
    class Kinds(Struct):
        real: Number = 0.5
        whole: Number = 3
        truth: Number = True
        small: Number = np.uint8(7)
        weak: Number = 0.0

    arrays = to_arrays(Kinds(weak=jnp.asarray(1.0)))
    kinds = {name: (getattr(arrays, name).dtype.name, getattr(arrays, name).weak_type) for name in vars(arrays)}
    assert kinds == {
        "real": ("float32", False),
        "whole": ("int32", False),
        "truth": ("bool", False),
        "small": ("uint8", False),
        "weak": ("float32", False),
    }
    key = jax.random.key(0)
    assert to_arrays({"key": key})["key"].dtype == key.dtype
    with jax.enable_x64(True):
        assert to_arrays(Kinds()).real.dtype == jnp.float64


def test_a_hyper_field_has_32_bits_with_x64_too():
    @struct
    class Learner(Struct):
        rate: Number = hyper(0.5)
        count: Number = hyper(3)
        key: Number = 0.5

    with jax.enable_x64(True):
        arrays = to_arrays(Learner())
        assert (arrays.rate.dtype, arrays.count.dtype, arrays.key.dtype) == (jnp.float32, jnp.int32, jnp.float64)


def test_so_has_a_struct_that_is_a_part_of_a_learner():
    """As the loss of `docs/losses.md`."""

    @struct
    class Huber(Struct):
        width: Number = 1.0

    @struct
    class Learner(Struct):
        loss: object = part("squared")

    with jax.enable_x64(True):
        assert to_arrays(Learner(loss=Huber())).loss.width.dtype == jnp.float32


@struct
class Kinds(Struct):
    """A field of each kind."""

    real: Number = 0.5
    whole: Number = 3
    rate: Number = hyper(0.1)
    limit: Number | None = None
    size: int = static(4)
    factor: float = static(0.5)
    name: str = static("relu")
    flag: bool = static(False)
    sizes: tuple[int, ...] = static((8, 8))
    function: Callable = static(abs)


WRONG_KINDS = {
    "None": None,
    "a text": "x",
    "a list": [1.0],
    "a dict": {},
    "an object": object(),
    "a function": lambda x: x,
    "a class": int,
    "bytes": b"1",
    "complex": 1j,
    "NumPy complex": np.complex64(1j),
    "NumPy text": np.asarray("x"),
    "NumPy objects": np.asarray([object()], object),
    "a date": np.datetime64("2020-01-01"),
    "a key": jax.random.key(0),
    "an empty array": np.zeros(0),
    "a bool": True,
    "a NumPy bool": np.bool_(True),
}
RIGHT_KINDS = {
    ("None", "limit"),
    *((kind, field) for kind in ("a bool", "a NumPy bool") for field in ("real", "whole", "rate", "limit")),
    ("a bool", "flag"),
    ("a NumPy bool", "flag"),
    ("a text", "name"),
    ("a class", "function"),
    ("a function", "function"),
}


@pytest.mark.parametrize(
    "field", ["real", "whole", "rate", "limit", "size", "factor", "name", "flag", "sizes", "function"]
)
@pytest.mark.parametrize("kind", WRONG_KINDS)
def test_a_value_of_another_kind_than_the_field_is_refused_in_words(kind, field):
    if (kind, field) in RIGHT_KINDS:
        Kinds(**{field: WRONG_KINDS[kind]})
        return
    with pytest.raises(TypeError, match=rf"^Kinds.{field}"):
        Kinds(**{field: WRONG_KINDS[kind]})


@pytest.mark.parametrize("sizes", [(8.5,), ("8",), (None,), (True,), ((8,),)])
def test_the_numbers_of_a_tuple_of_sizes_are_whole(sizes):
    with pytest.raises(TypeError, match="Kinds.sizes=.* must hold whole numbers"):
        Kinds(sizes=sizes)


@pytest.mark.parametrize(
    "number", [np.float64(0.5), np.float32(0.5), np.asarray(0.5), np.asarray([0.5]), jnp.float32(0.5), 1]
)
def test_numbers_of_any_width_fit(number):
    assert np.ravel(Kinds(real=number, rate=number, limit=number).real).size == 1


def test_annotations_are_checked_while_tests_run(request):
    if not request.config.getoption("jaxtyping_packages"):
        pytest.skip("`make test` leaves them to `make test-newest`")
    with pytest.raises(TypeCheckError):
        State(time=jnp.zeros(2, jnp.int32))


def test_a_struct_without_the_base_class_can_be_replaced():
    @struct
    class Plain:
        x: Float[Array, ""]

    assert float(Plain(jnp.float32(1)).replace(x=jnp.float32(2)).x) == 2.0
