"""`mix32` against a NumPy version, and as random numbers: avalanche, uniformity, correlation, repeats.

Statistics come from fixed keys, so a test either always passes or always fails; limits are at 5 standard deviations.
"""

import math
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from shoal.core.keys import make_key
from shoal.core.mix32 import BITS, FOLD_IN, MIX32, SECOND, SPLIT, words

SAMPLES = 1 << 14
ONE_BIT = np.uint32(1) << np.arange(32, dtype=np.uint32)


def numpy_words(key, counter, purpose):
    """The hash in NumPy, with 64-bit arithmetic."""

    def shift(x, bits):
        return x ^ (x >> bits)

    def multiply(x, by):
        return x * by % 2**32

    key, counter = np.asarray(key).astype(np.uint64), np.asarray(counter).astype(np.uint64)
    start = key[..., 0] ^ np.uint64(purpose)
    t = multiply(shift(counter ^ start, np.uint64(16)), np.uint64(0xED5AD4BB))
    y = multiply(shift(t ^ key[..., 1], np.uint64(15)), np.uint64(0xAC4C1B51))
    y = (shift(y, np.uint64(14)) + t + start) % 2**32
    y = multiply(shift(y, np.uint64(17)), np.uint64(0x31848BAB))
    return shift(y, np.uint64(15)).astype(np.uint32)


def numpy_pair(key, counter, purpose):
    return np.stack([numpy_words(key, counter, purpose), numpy_words(key, counter, purpose ^ SECOND)], axis=-1)


def numpy_seed(seed):
    high, low = seed % 2**64 >> 32, seed % 2**32
    for purpose in range(0x243F6A88, 0x243F6A88 + 4):
        high, low = low, high ^ int(numpy_words(np.zeros(2), low, purpose))
    return [high, low]


def raw(words_of_key):
    return jax.random.wrap_key_data(jnp.asarray(words_of_key, jnp.uint32), impl=MIX32)


def random_words(count, seed=1):
    return np.random.default_rng(seed).integers(2**32, size=count, dtype=np.uint32)


def signs(drawn):
    """+1 and -1 for the bits of words. Sums of them are exact in float32."""
    return 1 - 2 * (np.asarray(drawn).ravel()[:, None] >> np.arange(32, dtype=np.uint32) & 1).astype(np.float32)


def largest_correlation(first, second):
    """The largest correlation among all pairs of bits of two sequences of signs, in standard deviations."""
    return np.abs(first.T @ second).max() / math.sqrt(len(first))


# Five standard deviations for one pair of bits; about one chance in 2,000 among 1,024 pairs.
CORRELATION_LIMIT = 5.0


# The computed values.


@pytest.mark.parametrize("key", [(0, 0), (1, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0x12345678, 0x9ABCDEF0)])
def test_bits_split_and_fold_in_match_numpy(key):
    counters = np.arange(70_000)
    np.testing.assert_array_equal(jax.random.bits(raw(key), (70_000,)), numpy_words(key, counters, BITS[32]))
    np.testing.assert_array_equal(
        jax.random.key_data(jax.random.split(raw(key), (7, 100))).reshape(-1, 2),
        numpy_pair(key, counters[:700], SPLIT),
    )
    for data in (0, 1, 2**31, 2**32 - 1):
        np.testing.assert_array_equal(
            jax.random.key_data(jax.random.fold_in(raw(key), np.uint32(data))), numpy_pair(key, data, FOLD_IN)
        )


@pytest.mark.parametrize("seed", [0, 1, -1, 3, 2**31, 2**40 + 3, -(2**63), 2**63 - 1])
def test_a_seed_gives_the_same_key_as_numpy(seed):
    np.testing.assert_array_equal(jax.random.key_data(make_key(seed)), numpy_seed(seed))


def test_jax_random_key_agrees_for_every_integer_dtype():
    for seed in (5, -5, np.int8(-5), np.uint8(251), np.int16(5), np.uint32(2**32 - 5)):
        found = jax.random.key_data(jax.random.key(jnp.asarray(seed), impl=MIX32))
        np.testing.assert_array_equal(found, numpy_seed(int(seed)))


def test_published_hash_values_do_not_change():
    """Recorded when the hash was fixed: another value would change every published result."""
    assert jax.random.bits(make_key(0), (3,)).tolist() == [2748758286, 1483013700, 1254397363]


def test_draws_of_every_width_match_numpy_and_differ_from_each_other():
    key, counters = make_key(4), np.arange(1000)
    data = np.asarray(jax.random.key_data(key))
    with jax.enable_x64(True):
        drawn = {width: np.asarray(jax.random.bits(key, (1000,), f"uint{width}")) for width in (8, 16, 32, 64)}
    for width in (8, 16, 32):
        np.testing.assert_array_equal(drawn[width], numpy_words(data, counters, BITS[width]).astype(f"uint{width}"))
    pair = numpy_pair(data, counters, BITS[64]).astype(np.uint64)
    np.testing.assert_array_equal(drawn[64], pair[:, 0] << np.uint64(32) | pair[:, 1])
    for width in (8, 16, 64):
        assert np.mean(drawn[width].astype(np.uint8) == drawn[32].astype(np.uint8)) < 0.03  # chance: 1/256


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2**17,)])
def test_the_shape_only_rearranges_the_same_words(shape):
    np.testing.assert_array_equal(
        jax.random.bits(make_key(1), shape).ravel(), jax.random.bits(make_key(1), (2**17,))[: math.prod(shape)]
    )


def test_vmap_equals_loop_and_jit_equals_eager():
    keys = jax.random.split(make_key(2), 5)
    for draw in (
        lambda k: jax.random.bits(k, (3, 2)),
        lambda k: jax.random.key_data(jax.random.split(k, (2, 3))),
        lambda k: jax.random.key_data(jax.random.fold_in(k, 9)),
    ):
        loop = np.stack([draw(k) for k in keys])
        np.testing.assert_array_equal(jax.vmap(draw)(keys), loop)
        np.testing.assert_array_equal(jax.jit(jax.vmap(draw))(keys), loop)


def test_more_words_than_counters_are_refused():
    with pytest.raises(ValueError, match="split the key first"):
        jax.jit(lambda key: jax.random.bits(key, (2**33,), "uint8")).lower(make_key(0))


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (lambda k, n: jax.random.uniform(k, n), stats.uniform()),
        (lambda k, n: jax.random.normal(k, n), stats.norm()),
        (lambda k, n: jax.random.gumbel(k, n), stats.gumbel_r()),
        (lambda k, n: jax.random.exponential(k, n), stats.expon()),
        (lambda k, n: jax.random.truncated_normal(k, -1.0, 2.0, n), stats.truncnorm(-1, 2)),
        (lambda k, n: jax.random.beta(k, 2.0, 3.0, n), stats.beta(2, 3)),
        (lambda k, n: jax.random.gamma(k, 2.0, n), stats.gamma(2)),
    ],
    ids=["uniform", "normal", "gumbel", "exponential", "truncated_normal", "beta", "gamma"],
)
def test_continuous_samples_follow_their_distribution(draw, law):
    drawn = np.asarray(draw(make_key(11), (5000,)))
    assert stats.kstest(drawn, law.cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    ("draw", "probabilities"),
    [
        (lambda k, n: jax.random.randint(k, n, 0, 6), np.full(6, 1 / 6)),
        (lambda k, n: jax.random.categorical(k, jnp.log(jnp.array([0.1, 0.2, 0.7])), shape=n), [0.1, 0.2, 0.7]),
        (lambda k, n: jax.random.bernoulli(k, 0.3, n).astype(jnp.int32), [0.7, 0.3]),
        (lambda k, n: jax.random.choice(k, 4, n), np.full(4, 1 / 4)),
        (lambda k, n: jax.vmap(lambda k: jax.random.permutation(k, 5)[0])(jax.random.split(k, n)), np.full(5, 1 / 5)),
    ],
    ids=["randint", "categorical", "bernoulli", "choice", "permutation"],
)
def test_discrete_samples_follow_their_probabilities(draw, probabilities):
    counts = np.bincount(np.asarray(draw(make_key(12), (6000,))), minlength=len(probabilities))
    assert stats.chisquare(counts, 6000 * np.asarray(probabilities)).pvalue > 1e-4


# Tests of randomness.


@pytest.mark.sampled(5)
@pytest.mark.parametrize("purpose", [BITS[32], SPLIT, SPLIT ^ SECOND, FOLD_IN, FOLD_IN ^ SECOND])
@pytest.mark.parametrize("changed", ["key 0", "key 1", "counter"])
def test_one_changed_bit_changes_every_output_bit_half_of_the_time(purpose, changed):
    keys, counters = random_words((SAMPLES, 2)), random_words(SAMPLES, 2) % np.uint32(1024)
    before = numpy_words(keys, counters, purpose)
    for bit in ONE_BIT:
        other, moved = keys.copy(), counters
        if changed == "counter":
            moved = counters ^ bit
        else:
            other[:, int(changed[-1])] ^= bit
        flips = before ^ numpy_words(other, moved, purpose)
        rates = (flips[:, None] & ONE_BIT > 0).mean(axis=0)
        # 0.5 / sqrt(SAMPLES) = 0.0039 is one standard deviation; 32 * 32 pairs are looked at.
        assert np.abs(rates - 0.5).max() < 5.5 * 0.5 / math.sqrt(SAMPLES)


def sequences():
    key, n = make_key(20), SAMPLES
    index = jnp.arange(n, dtype=jnp.uint32)

    def first(keys):
        return jax.random.key_data(keys)[..., 0]

    def draw(keys):
        return jax.vmap(lambda k: jax.random.bits(k, ()))(keys)

    folded = jax.vmap(lambda i: jax.random.fold_in(key, i))(index)
    _, chain = jax.lax.scan(lambda k, _: tuple(jax.random.split(k)), key, length=n)
    seeded = jax.vmap(lambda s: jax.random.key(s, impl=MIX32))(index)
    tree = jax.vmap(lambda k: jax.random.split(k, 128))(jax.random.split(key, 128)).ravel()
    return {
        "counter": jax.random.bits(key, (n,)),
        "split": first(jax.random.split(key, n)),
        "split tree": first(tree),
        "split chain, drawn": draw(chain),
        "fold_in": first(folded),
        "fold_in, drawn": draw(folded),
        "seeds": first(seeded),
        "seeds, drawn": draw(seeded),
        "zero key": jax.random.bits(raw((0, 0)), (n,)),
        "split of the zero key": first(jax.random.split(raw((0, 0)), n)),
    }


@pytest.fixture(scope="module")
def drawn():
    return {name: np.asarray(w) for name, w in sequences().items()}


NAMES = list(jax.eval_shape(sequences))


@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_uniform(drawn, name):
    for byte in drawn[name].view(np.uint8).reshape(-1, 4).T:
        assert stats.chisquare(np.bincount(byte, minlength=256)).pvalue > 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_words_do_not_depend_on_earlier_words(drawn, name):
    bits = signs(drawn[name])
    for lag in (1, 2, 3, 4, 16, 128, 256):
        assert largest_correlation(bits[:-lag], bits[lag:]) < CORRELATION_LIMIT


def test_sequences_do_not_depend_on_each_other(drawn):
    bits = [signs(drawn[name]) for name in NAMES]
    for i, first in enumerate(bits):
        for second in bits[i + 1 :]:
            assert largest_correlation(first, second) < CORRELATION_LIMIT + 0.5  # 45 times as many pairs


@pytest.mark.parametrize(
    "key_of",
    [lambda i: jax.random.key(i, impl=MIX32), lambda i: jax.random.fold_in(make_key(0), i)],
    ids=["seeds", "fold_in"],
)
def test_streams_of_neighbors_are_unrelated(key_of):
    index = jnp.arange(32, dtype=jnp.uint32)
    streams = np.asarray(jax.vmap(lambda i: jax.random.bits(key_of(i), (4096,)))(index))
    bits = [signs(stream) for stream in streams]
    for first, second in zip(bits[:-1], bits[1:], strict=True):
        assert largest_correlation(first, second) < CORRELATION_LIMIT + 0.5
    assert len(np.unique(streams)) > streams.size - 12  # 131,072 words: 2 repeats expected


def test_split_fold_in_and_bits_of_one_key_give_different_words():
    key = make_key(30)
    children = np.asarray(jax.random.key_data(jax.random.split(key, 1000)))
    folded = np.asarray(jax.random.key_data(jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(1000))))
    every = np.concatenate([children.ravel(), folded.ravel(), np.asarray(jax.random.bits(key, (2000,)))])
    assert len(np.unique(every)) == len(every)  # 6,000 words: 0.004 repeats expected


def test_words_of_one_key_repeat_as_often_as_expected_at_random():
    keys = jax.random.split(make_key(40), 1024)
    drawn = np.sort(jax.jit(jax.vmap(lambda k: jax.random.bits(k, (2**14,))))(keys), axis=1)
    repeats = int((drawn[:, 1:] == drawn[:, :-1]).sum())
    expected = 1024 * 2**14 * (2**14 - 1) / 2 / 2**32  # 32: a bijection would give 0
    assert stats.poisson(expected).ppf(1e-4) <= repeats <= stats.poisson(expected).ppf(1 - 1e-4)


def distinct(numbers):
    # Sorted by hand: `np.unique` hashes, which takes a minute for ten million numbers.
    numbers = np.sort(numbers, axis=None)
    return 1 + int((numbers[1:] != numbers[:-1]).sum())


def as_numbers(keys):
    return np.asarray(jax.random.key_data(keys)).view(np.uint64)


@pytest.mark.parametrize("root", [(0, 0), (1, 0), (0x2545F491, 0x4F6CDD1D)])
def test_ten_million_split_keys_are_distinct(root):
    assert distinct(as_numbers(jax.random.split(raw(root), 10**7))) == 10**7


def test_ten_million_keys_of_a_split_tree_are_distinct():
    tree = jax.jit(lambda k: jax.vmap(lambda k: jax.random.split(k, 2500))(jax.random.split(k, 4000)))
    assert distinct(as_numbers(tree(make_key(50)))) == 10**7


@pytest.mark.long
def test_collisions_of_shortened_keys_are_as_many_as_expected_at_random():
    """24 + 16 bits of each of 2**23 sibling keys: 32 collisions expected for each of 8 parents."""
    found = 0
    for parent in jax.random.split(make_key(60), 8):
        data = np.asarray(jax.random.key_data(jax.random.split(parent, 2**23))).astype(np.uint64)
        found += 2**23 - distinct((data[:, 0] >> np.uint64(8)) << np.uint64(16) | data[:, 1] >> np.uint64(16))
    assert abs(found - 256) < 5 * math.sqrt(256)


@pytest.mark.long
def test_the_battery_script_writes_the_words_of_one_key():
    script = pathlib.Path(__file__).parents[2] / "benchmarks" / "rng_battery.py"
    with subprocess.Popen([sys.executable, script, "counter", "--seed", "7"], stdout=subprocess.PIPE) as battery:
        found = np.frombuffer(battery.stdout.read(4000), np.uint32)
        battery.kill()
    first = jax.random.split(make_key(7))[1]
    np.testing.assert_array_equal(
        found, words(jax.random.key_data(first), jnp.arange(1000, dtype=jnp.uint32), BITS[32])
    )
