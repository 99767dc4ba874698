"""Placing several objects at once: distinct numbers, and different cells."""

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from shoal.core.keys import make_key
from shoal.grid.cells import EMPTY, cell
from shoal.grid.layout import distinct, empty_room, place_each
from shoal.grid.words import look_words, object_word

THINGS = np.array([cell("key", "red"), cell("ball", "blue"), cell("box", "grey")])


def many(draw, n):
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(draw))(jax.random.split(make_key(0), n)))


@pytest.mark.parametrize("count,among", [(1, 1), (1, 6), (2, 4), (4, 4), (3, 5)])
def test_every_choice_of_different_numbers_is_as_likely_as_any_other(count, among):
    drawn = [tuple(row) for row in many(lambda key: distinct(key, count, among), 6000).tolist()]
    wanted = list(permutations(range(among), count))
    assert set(drawn) == set(wanted)
    assert len(wanted) == 1 or chisquare([drawn.count(each) for each in wanted]).pvalue > 1e-3


@pytest.mark.parametrize("apart", [0, 1])
def test_objects_get_different_cells_each_equally_likely(apart):
    room = jnp.asarray(empty_room(6, 6))
    grids, x, y = many(lambda key: place_each(key, room, jnp.asarray(THINGS[:2]), apart), 12_000)
    n = np.arange(len(grids))
    assert all((grids[n, x[:, i], y[:, i]] == THINGS[i]).all() for i in range(2))
    assert ((grids == EMPTY).sum((1, 2)) == 16 - 2).all()
    # The first lies anywhere; the second in any of the cells that are left, fewer of them the more central the first.
    places = [(a, b) for a in range(1, 5) for b in range(1, 5)]
    left = {p: [q for q in places if max(abs(p[0] - q[0]), abs(p[1] - q[1])) > apart] for p in places}
    probabilities = {(p, q): 1 / 16 / len(left[p]) for p in places for q in left[p]}
    pairs = [((a, b), (c, d)) for (a, c), (b, d) in zip(x.tolist(), y.tolist(), strict=True)]
    assert set(pairs) <= set(probabilities)
    counts = dict.fromkeys(probabilities, 0)
    for pair in pairs:
        counts[pair] += 1
    assert chisquare(list(counts.values()), [12_000 * p for p in probabilities.values()]).pvalue > 1e-3


def test_an_object_without_a_free_cell_is_left_out():
    grid, _, _ = place_each(make_key(0), jnp.asarray(empty_room(4, 4)), jnp.asarray(THINGS), apart=1)
    assert (np.asarray(grid) == THINGS[0]).sum() == 1 and (np.asarray(grid) == EMPTY).sum() == 3


def test_a_cell_is_described_by_its_color_and_its_object():
    color, thing = look_words(jnp.asarray(THINGS[1]))
    assert thing == object_word(jnp.int32(6)) and color == look_words(jnp.asarray(cell("door", "blue")))[0]
