"""Which cells an agent can touch, in rooms drawn by hand, and against a search in plain Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.grid.cells import BALL, EMPTY, KEY, WALL, cell
from shoal.grid.reach import everything_is_touched, touched

LETTERS = {"#": WALL, ".": EMPTY, "k": KEY, "b": BALL, "D": cell("door", "blue", "locked"), "d": cell("door", "red")}


def drawn(*rows):
    """A grid [x, y] from its rows."""
    return np.array([[LETTERS[letter] for letter in row] for row in rows], np.uint16).T


def search(grid, x, y):
    """The reference's search: it visits neighbors of cells that are empty or a door."""
    seen, stack = set(), [(x, y)]
    while stack:
        i, j = stack.pop()
        if not (0 <= i < grid.shape[0] and 0 <= j < grid.shape[1]) or (i, j) in seen:
            continue
        seen.add((i, j))
        if grid[i, j] == EMPTY or grid[i, j] & 15 == cell("door") & 15:
            stack += [(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)]
    return seen


def from_(grid, x, y, what=touched):
    """What an agent at (x, y) touches, or another function of it."""
    return jax.jit(what)(jnp.asarray(grid), jnp.int32(x), jnp.int32(y))


def test_a_thing_is_touched_but_what_lies_behind_it_is_not():
    grid = drawn("######", "#..k.#", "######")
    found = from_(grid, 1, 1)
    assert found[3, 1] and not found[4, 1]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("######", "#..k.#", "######"), True),
        (("######", "#.k.b#", "######"), False),
        (("######", "#.k.b#", "#....#", "######"), True),
        (("######", "#.D.b#", "######"), True),  # locked doors count as open
        (("######", "#.#.b#", "######"), False),
        (("######", "#.bD.#", "######"), False),  # a door that is blocked
        (("######", "#.#..#", "######"), True),  # a room that nothing is in may be closed
    ],
)
def test_everything_is_touched_only_if_every_door_and_thing_is(rows, expected):
    assert bool(from_(drawn(*rows), 1, 1, everything_is_touched)) is expected


def test_touched_cells_are_those_of_a_search():
    rng = np.random.default_rng(0)
    kinds = np.array([EMPTY, EMPTY, EMPTY, WALL, KEY, LETTERS["D"]], np.uint16)
    for _ in range(20):
        grid = rng.choice(kinds, (13, 9))
        grid[4, 4] = EMPTY
        found = from_(grid, 4, 4)
        assert {tuple(at) for at in np.argwhere(found).tolist()} == search(grid, 4, 4)
