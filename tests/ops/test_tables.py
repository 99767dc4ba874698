"""Table indices of observations, and reading and writing single entries of a table."""

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from shoal.ops.tables import choices, index_of, read, write


def test_a_grid_is_counted_row_by_row():
    space = MultiDiscrete((3, 4), np.uint8)
    cells = jnp.asarray([[r, c] for r in range(3) for c in range(4)], jnp.uint8)
    assert index_of(space, cells).tolist() == list(range(12))


def test_large_digits_in_small_dtypes_do_not_overflow():
    assert index_of(MultiDiscrete((200, 200), np.uint8), jnp.asarray([199, 199], jnp.uint8)) == 39_999


def test_parts_of_tuples_and_dicts_are_digits():
    space = Tuple((Discrete(3), Dict({"b": Discrete(2), "a": MultiDiscrete((4, 5))})))
    assert choices(space) == (3, 4, 5, 2)
    obs = (jnp.int32(2), {"a": jnp.asarray([3, 4]), "b": jnp.int32(1)})
    assert index_of(space, obs) == 2 * 40 + 3 * 10 + 4 * 2 + 1


def test_float_spaces_have_no_table_index():
    assert choices(Box(0, 1, (1,))) is None
    assert choices(Tuple((Discrete(3), Box(0, 1, (1,))))) is None


def test_members_read_and_write_their_own_tables():
    tables = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)
    places, values = jnp.asarray([3, 0, 2]), jnp.asarray([50.0, 60.0, 70.0])
    np.testing.assert_array_equal(jax.vmap(read)(tables, places), [3, 4, 10])
    expected = np.arange(12, dtype=np.float32).reshape(3, 4)
    expected[[0, 1, 2], [3, 0, 2]] = values
    np.testing.assert_array_equal(jax.vmap(write)(tables, places, values), expected)


def test_a_table_or_an_index_may_be_shared_under_vmap():
    table, places = jnp.arange(4, dtype=jnp.float32), jnp.asarray([2, 1])
    np.testing.assert_array_equal(jax.vmap(read, (None, 0))(table, places), [2, 1])
    written = jax.vmap(write, (None, 0, None))(table, places, jnp.float32(9))
    np.testing.assert_array_equal(written, [[0, 1, 9, 3], [0, 9, 2, 3]])
    both = jnp.stack([table, table + 10])
    np.testing.assert_array_equal(jax.vmap(read, (0, None))(both, jnp.int32(3)), [3, 13])


def test_reading_and_writing_work_without_vmap():
    table = jnp.arange(4, dtype=jnp.float32)
    assert read(table, jnp.int32(3)) == 3
    np.testing.assert_array_equal(write(table, jnp.int32(1), jnp.float32(9)), [0, 9, 2, 3])
