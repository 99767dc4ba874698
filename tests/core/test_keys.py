"""Keys: seeds, streams and members."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import IMPLEMENTATIONS, make_key, make_keys, member_key, stream

NAMES = [
    "member",
    "evaluate",
    "select",
    "noise",
    "reset",
    "act",
    "shuffle",
    "init",
    "train",
    "test",
    "explore",
    "video",
]


def data(key):
    return np.asarray(jax.random.key_data(key)).tolist()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_every_64_bit_seed_gives_another_key(implementation):
    seeds = [0, 1, 3, -1, 2**31, 2**32 - 1, 2**32, 2**40 + 3, -(2**31), -(2**32), -(2**63), 2**63 - 1]
    assert len({tuple(data(make_key(seed, implementation))) for seed in seeds}) == len(seeds)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_x64_mode_does_not_change_a_key(implementation):
    for seed in (7, -7, 2**40 + 3):
        expected = data(make_key(seed, implementation))
        with jax.enable_x64(True):
            assert data(make_key(seed, implementation)) == expected
            assert data(jax.random.key(seed, impl=IMPLEMENTATIONS[implementation])) == expected


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_many_keys_are_those_of_their_seeds_and_compile_no_stack(implementation):
    seeds = [0, 3, -7, np.int32(5), 2**40 + 3, -(2**63), 2**63 - 1]
    assert data(make_keys(seeds, implementation)) == [data(make_key(seed, implementation)) for seed in seeds]
    program = jax.make_jaxpr(lambda: make_keys(range(3_000), implementation))()
    assert len(str(program)) < 20_000  # a stack of keys has an operand, and a line, for each


def test_threefry_keys_are_those_of_jax():
    for seed in (0, 42, 2**31 - 1):
        assert data(make_key(seed, "threefry2x32")) == data(jax.random.key(seed, impl="threefry2x32"))


def test_numpy_integers_are_seeds():
    assert data(make_key(np.int64(5))) == data(make_key(5)) == data(make_key(np.uint8(5)))


@pytest.mark.parametrize("seed", [1.0, "1", None, True, np.float32(1), [1], jnp.asarray(0.5), jnp.asarray([1])])
def test_a_seed_that_is_no_integer_is_refused(seed):
    with pytest.raises(TypeError, match="a seed is an integer, such as 0 or 42"):
        make_key(seed)


def test_a_seed_of_thousands_of_digits_is_refused_in_words():
    with pytest.raises(ValueError, match="seed=a number of more than 40 digits does not fit in 64 bits"):
        make_key(10**5_000)


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_a_seed_of_more_than_64_bits_is_refused(seed):
    with pytest.raises(ValueError, match=f"seed={seed} does not fit in 64 bits"):
        make_key(seed)


def test_an_unknown_generator_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'philox' is unknown. Choose one of: mix32, threefry2x32"):
        make_key(0, "philox")


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_stream_folds_in_the_crc32_of_its_name(implementation):
    key = make_key(0, implementation)
    assert data(stream(key, "evaluate")) == data(jax.random.fold_in(key, zlib.crc32(b"evaluate")))


def test_streams_and_members_all_have_different_keys():
    key = make_key(0)
    keys = [data(key)] + [data(stream(key, n)) for n in NAMES] + [data(member_key(key, i)) for i in range(64)]
    assert len({tuple(k) for k in keys}) == len(keys)


def test_a_member_does_not_depend_on_the_size_of_the_population():
    key = make_key(0)
    small, large = (jax.vmap(lambda i: member_key(key, i))(jnp.arange(m)) for m in (3, 100))
    assert data(small) == data(large[:3]) == [data(member_key(key, i)) for i in range(3)]


def test_a_negative_seed_index_is_refused():
    with pytest.raises(ValueError, match="seed index -1 is out of range"):
        member_key(make_key(0), -1)
