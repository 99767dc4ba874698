"""Layout functions: walls, masks, and samples that are as uniform as MiniGrid's rejection sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from shoal.core.keys import make_key
from shoal.grid.cells import COLORS, EMPTY, WALL, cell
from shoal.grid.layout import (
    between,
    choose,
    column,
    distinct,
    empty_room,
    place,
    place_each,
    random_color,
    rectangle,
    row,
    walled,
)

DRAWS = 20_000


def keys(n=DRAWS):
    return jax.random.split(make_key(0), n)


choose_many = jax.jit(jax.vmap(choose, in_axes=(0, None)))


def pick_many(mask):
    x, y = choose_many(keys(), jnp.asarray(mask))
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


def test_an_empty_mask_is_an_error_and_gives_the_first_cell_in_compiled_code():
    with pytest.raises(ValueError, match="no cell of the mask is left to choose from"):
        choose(make_key(0), jnp.zeros((4, 7), bool))
    x, y = pick_many(np.zeros((4, 7), bool))
    assert not x.any() and not y.any()


def test_the_given_number_of_distinct_numbers_is_sampled():
    numbers = np.asarray(jax.jit(jax.vmap(lambda key: distinct(key, 6, 6)))(keys(500)))
    assert np.array_equal(np.sort(numbers, axis=1), np.tile(np.arange(6), (500, 1)))
    with pytest.raises(ValueError, match="count=7 different numbers among=6 do not exist"):
        distinct(make_key(0), 7, 6)


def test_an_object_is_placed_in_an_empty_cell_of_the_mask():
    room = empty_room(5, 6)
    ball, where = cell("ball", "blue"), rectangle((5, 6), 2, 0, 3, 6)
    grids, x, y = jax.jit(jax.vmap(lambda k: place(k, jnp.asarray(room), ball, where)))(keys(500))
    assert (np.asarray(grids) == ball).sum((1, 2)).tolist() == [1] * 500
    assert (np.asarray(grids)[np.arange(500), x, y] == ball).all()
    assert set(zip(x.tolist(), y.tolist(), strict=True)) == {(a, b) for a in (2, 3) for b in (1, 2, 3, 4)}


def test_a_full_grid_is_an_error_and_stays_as_it_is_in_compiled_code():
    full = jnp.full((3, 3), WALL, jnp.uint16)
    with pytest.raises(ValueError, match="no cell of the mask is left"):
        place(make_key(0), full, cell("key"))
    grid, _, _ = jax.jit(place)(make_key(0), full, cell("key"))
    np.testing.assert_array_equal(grid, full)


def test_objects_get_different_cells_and_those_that_do_not_fit_are_left_out():
    room, things = jnp.asarray(empty_room(6, 6)), jnp.full(5, cell("ball"))
    grids, x, y = jax.jit(jax.vmap(lambda key: place_each(key, room, things, apart=1)))(keys(200))
    assert (np.asarray(grids) == cell("ball")).sum((1, 2)).max() == 4  # one in each quarter, where that works out
    x, y = np.asarray(x)[:, :2], np.asarray(y)[:, :2]
    assert (np.maximum(np.abs(np.diff(x)), np.abs(np.diff(y))) > 1).all()
    with jax.disable_jit(), pytest.raises(ValueError, match="no cell of the mask is left"):
        place_each(make_key(0), room, things, apart=1)


def test_a_room_has_a_wall_around_it():
    room = empty_room(4, 3)
    assert room.dtype == np.uint16
    np.testing.assert_array_equal(room == WALL, [[1, 1, 1], [1, 0, 1], [1, 0, 1], [1, 1, 1]])
    assert room[1, 1] == EMPTY


def test_adding_walls_does_not_change_the_given_grid():
    grid = np.full((5, 5), EMPTY, np.uint16)
    inner = walled(grid, 1, 1, 3, 3)
    assert (grid == EMPTY).all() and (inner == WALL).sum() == 8 and inner[2, 2] == EMPTY


def test_rectangles_are_cut_off_at_the_border():
    assert rectangle((4, 4), -1, 2, 3, 9).sum() == 2 * 2
    np.testing.assert_array_equal(jax.jit(lambda x: column((3, 2), x))(1), [[0, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(row((3, 2), 1), [[0, 1]] * 3)


def test_colors_are_uniform():
    colors = jax.jit(jax.vmap(random_color))(keys(6000))
    assert chisquare(np.bincount(colors, minlength=len(COLORS))).pvalue > 1e-3


@jax.jit
def draw_between(keys, low, high):
    return jax.vmap(lambda key: between(key, low, high))(keys)


@pytest.mark.parametrize("low, high", [(0, 1), (2, 5), (1, 19), (0, 256)])
def test_numbers_between_bounds_are_uniform_and_within_them(low, high):
    numbers = np.asarray(draw_between(keys(), jnp.int32(low), jnp.int32(high)))
    assert numbers.min() >= low and numbers.max() < high
    assert high - low == 1 or chisquare(np.bincount(numbers - low, minlength=high - low)).pvalue > 1e-3
