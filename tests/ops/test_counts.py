"""The table of counts, against a dictionary of Python, and fingerprints of observations."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from shoal.ops.counts import CountTable, fingerprints, is_countable, is_numbered
from shoal.ops.devices import DATA, device_share, gathered

BOARD = Box(0, 1, (20, 20), np.bool_)
TILES = Dict({"image": Box(0, 10, (7, 7, 3), np.uint8), "direction": Discrete(4)})
SMALL = [
    Discrete(7),
    MultiDiscrete((3, 1, 4)),
    Box(-2, 3, (2,), np.int8),
    Box(0, 255, (), np.uint8),
    Tuple((Discrete(2), Box(0, 1, (2, 2), np.bool_))),
    Dict({"a": Discrete(2), "b": Box(-(2**31), 2**31 - 1, (), np.int32)}),
    MultiDiscrete((2,) * 60),
]


def table_after(batches, slots=1024):
    """(the table, the counts that `add` returned for each batch of numbers)."""
    table, found = CountTable.empty(slots), []
    for batch in batches:
        table, seen = jax.jit(CountTable.add)(table, fingerprints(Discrete(10_000), jnp.asarray(batch, jnp.int32)))
        found.append(np.asarray(seen))
    return table, found


def test_counts_are_those_of_a_dictionary_with_all_of_the_batch_included():
    batches = np.random.default_rng(0).zipf(1.3, (20, 64)) % 500
    table, found = table_after(batches)
    counter = Counter()
    for batch, seen in zip(batches, found, strict=True):
        counter.update(batch.tolist())
        np.testing.assert_array_equal(seen, [counter[x] for x in batch.tolist()])
    assert int(table.count.sum()) == batches.size
    assert float(table.share_used()) == pytest.approx(len(counter) / 1024)


def test_a_full_table_gives_new_observations_no_count_and_keeps_the_others():
    table, (first, more) = table_after([np.arange(8), np.arange(16)], slots=8)
    assert (first == 1).all() and float(table.share_used()) == 1
    np.testing.assert_array_equal(more, [2] * 8 + [0] * 8)


def test_counts_do_not_depend_on_the_order_within_a_batch():
    batch = np.random.default_rng(1).integers(0, 300, 256)
    tables = [table_after([order], slots=512)[0] for order in (batch, batch[::-1])]
    for one, other in zip(*map(jax.tree.leaves, tables), strict=True):
        np.testing.assert_array_equal(one, other)


def test_devices_count_the_observations_of_all_of_them():
    numbers = jnp.asarray(np.random.default_rng(2).integers(0, 9, (2, 10)), jnp.int32)
    counter = Counter(np.ravel(numbers).tolist())

    def count(numbers):
        table, seen = CountTable.empty(64).add(gathered(fingerprints(Discrete(9), numbers), 2))
        return table, device_share(seen, 2, axis=0)

    table, seen = jax.vmap(count, axis_name=DATA)(numbers)
    np.testing.assert_array_equal(seen, [[counter[int(x)] for x in row] for row in numbers])
    np.testing.assert_array_equal(table.count[0], table.count[1])


@pytest.mark.parametrize("space", SMALL, ids=str)
def test_observations_of_a_small_space_have_numbers(space):
    assert is_numbered(space) and is_countable(space)
    assert_told_apart(space)


@pytest.mark.parametrize("space", [BOARD, TILES, MultiDiscrete((2,) * 70)], ids=["board", "tiles", "choices"])
def test_observations_of_a_large_space_have_hashes(space):
    assert not is_numbered(space) and is_countable(space)
    assert_told_apart(space)


def assert_told_apart(space):
    """As many fingerprints as there are different observations among 300, with two leading axes or with none."""
    keys = jax.random.split(jax.random.key(0), 300)
    samples = jax.vmap(space.sample)(keys)
    found = np.asarray(fingerprints(space, samples))
    rows = np.concatenate([np.asarray(x).reshape(300, -1).astype(np.int64) for x in jax.tree.leaves(samples)], axis=1)
    assert found.shape == (300, 2) and found.dtype == np.uint32 and (found[:, 0] > 0).all()
    assert len(np.unique(found, axis=0)) == len(np.unique(rows, axis=0))
    alike = np.unique(rows, axis=0, return_inverse=True)[1]
    assert len({(int(i), *f) for i, f in zip(np.ravel(alike), found.tolist(), strict=True)}) == len(np.unique(alike))
    axes = fingerprints(space, jax.tree.map(lambda x: x.reshape(30, 10, *x.shape[1:]), samples))
    np.testing.assert_array_equal(axes.reshape(300, 2), found)
    np.testing.assert_array_equal(fingerprints(space, jax.tree.map(lambda x: x[0], samples)), found[0])


def test_one_moved_cell_of_a_board_is_another_observation():
    boards = jnp.eye(400, dtype=bool).reshape(400, 20, 20)
    assert len(np.unique(np.asarray(fingerprints(BOARD, boards)), axis=0)) == 400


def test_the_largest_numbers_of_a_word_stay_apart():
    space = Box(-(2**31), 2**31 - 1, (), np.int32)
    ends = jnp.asarray([-(2**31), -1, 0, 1, 2**31 - 1], jnp.int32)
    found = np.asarray(fingerprints(space, ends))
    assert len(np.unique(found, axis=0)) == 5 and (found[:, 0] > 0).all()


def test_real_numbers_are_not_countable():
    assert not is_countable(Dict({"a": Discrete(2), "b": Box(0.0, 1.0, (1,))}))
