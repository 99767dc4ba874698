"""Laying out: walls, masks, and draws that are as uniform as MiniGrid's rejection sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from shoal.core.keys import make_key
from shoal.grid.cells import COLORS, EMPTY, WALL, cell
from shoal.grid.layout import choose, column, empty_room, place, random_color, rectangle, row, walled

DRAWS = 20_000


def keys(n=DRAWS):
    return jax.random.split(make_key(0), n)


def pick_many(mask):
    x, y = jax.jit(jax.vmap(choose, in_axes=(0, None)))(keys(), jnp.asarray(mask))
    return np.asarray(x), np.asarray(y)


@pytest.mark.parametrize("shape", [(5, 5), (6, 9), (19, 19)])
def test_every_cell_of_a_mask_is_as_likely_as_any_other(shape):
    mask = np.random.default_rng(0).random(shape) < 0.5
    x, y = pick_many(mask)
    counts = np.zeros(shape, int)
    np.add.at(counts, (x, y), 1)
    assert not counts[~mask].any()
    assert chisquare(counts[mask]).pvalue > 1e-3


def test_the_one_cell_of_a_mask_is_always_chosen():
    mask = np.zeros((4, 7), bool)
    mask[3, 5] = True
    x, y = pick_many(mask)
    assert (x == 3).all() and (y == 5).all()


def test_an_empty_mask_gives_the_first_cell():
    x, y = pick_many(np.zeros((4, 7), bool))
    assert not x.any() and not y.any()


def test_a_thing_is_put_into_an_empty_cell_of_the_mask():
    room = empty_room(5, 6)
    ball, where = cell("ball", "blue"), rectangle((5, 6), 2, 0, 3, 6)
    grids, x, y = jax.vmap(lambda k: place(k, jnp.asarray(room), ball, where))(keys(500))
    assert (np.asarray(grids) == ball).sum((1, 2)).tolist() == [1] * 500
    assert (np.asarray(grids)[np.arange(500), x, y] == ball).all()
    assert set(zip(x.tolist(), y.tolist(), strict=True)) == {(a, b) for a in (2, 3) for b in (1, 2, 3, 4)}


def test_a_full_grid_stays_as_it_is():
    full = jnp.full((3, 3), WALL, jnp.uint16)
    grid, _, _ = place(make_key(0), full, cell("key"))
    np.testing.assert_array_equal(grid, full)


def test_a_room_has_a_wall_around_it():
    room = empty_room(4, 3)
    assert room.dtype == np.uint16
    np.testing.assert_array_equal(room == WALL, [[1, 1, 1], [1, 0, 1], [1, 0, 1], [1, 1, 1]])
    assert room[1, 1] == EMPTY


def test_walls_leave_the_grid_they_are_given_alone():
    grid = np.full((5, 5), EMPTY, np.uint16)
    inner = walled(grid, 1, 1, 3, 3)
    assert (grid == EMPTY).all() and (inner == WALL).sum() == 8 and inner[2, 2] == EMPTY


def test_rectangles_are_cut_off_at_the_border():
    assert rectangle((4, 4), -1, 2, 3, 9).sum() == 2 * 2
    np.testing.assert_array_equal(jax.jit(lambda x: column((3, 2), x))(1), [[0, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(row((3, 2), 1), [[0, 1]] * 3)


def test_colors_are_uniform():
    colors = jax.vmap(random_color)(keys(6000))
    assert chisquare(np.bincount(colors, minlength=len(COLORS))).pvalue > 1e-3
