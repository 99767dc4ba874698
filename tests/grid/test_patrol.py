"""Patrols against a loop over cells in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np

from maps import drawn
from shoal.grid.cells import EMPTY, WALL, cell
from shoal.grid.level import GridState, begin
from shoal.grid.new_kinds import NewKind
from shoal.grid.patrol import patrol

GUARD = NewKind("guard", 13, states=4, every_step=patrol)
WAYS = ((1, 0), (0, 1), (-1, 0), (0, -1))


def patrolled_by_hand(grid, agent):
    """Look at one guard after the other: where it wants to go, and whether another one wants to go there too."""
    wanted = {}
    for x, y in np.argwhere(grid & 15 == 13).tolist():
        dx, dy = WAYS[grid[x, y] >> 7]
        wanted[x, y] = (x + dx, y + dy)
    after = grid.copy()
    for place, to in wanted.items():
        inside = 0 <= to[0] < grid.shape[0] and 0 <= to[1] < grid.shape[1]
        goes = inside and grid[to] == EMPTY and to != agent and [*wanted.values()].count(to) == 1
        if goes:
            after[to] = grid[place]
            after[place] = EMPTY
        else:
            after[place] = grid[place] & 127 | ((grid[place] >> 7) + 2) % 4 << 7
    return after


def test_patrols_move_as_in_a_loop_over_cells():
    rng = np.random.default_rng(0)
    step = jax.jit(lambda state: patrol(state, GUARD))
    moved = 0
    for _ in range(200):
        guards = np.array([cell(GUARD, "red", way) for way in range(4)] + [EMPTY] * 5 + [WALL], np.uint16)
        grid = guards[rng.integers(0, len(guards), (6, 5))]
        agent = tuple(rng.integers(0, (6, 5)).tolist())
        grid[agent] = EMPTY
        expected = patrolled_by_hand(grid, agent)
        np.testing.assert_array_equal(step(GridState(**begin(grid, *agent, 0))).grid, expected)
        moved += (expected & 127 != grid & 127).sum()
    assert moved > 500


def test_a_guard_walks_to_and_fro():
    state = drawn(GridState, "##### #g..# #.>.# #####", {"g": cell(GUARD, "blue", 0)})
    seen = []
    for _ in range(7):
        state = patrol(state, GUARD)
        ((x, y),) = np.argwhere(np.asarray(state.grid) & 15 == 13)
        seen.append((int(x), int(state.grid[x, y]) >> 7))
    assert seen == [(2, 0), (3, 0), (3, 2), (2, 2), (1, 2), (1, 0), (2, 0)]


def test_two_guards_who_want_the_same_cell_turn_round():
    letters = {"r": cell(GUARD, "blue", 0), "l": cell(GUARD, "red", 2)}
    state = patrol(drawn(GridState, "##### #r.l# #.v.# #####", letters), GUARD)
    assert state.grid[1, 1] == cell(GUARD, "blue", 2) and state.grid[3, 1] == cell(GUARD, "red", 0)
    assert state.grid[2, 1] == EMPTY


def test_a_guard_does_not_step_on_the_agent():
    state = patrol(drawn(GridState, "##### #g>.# #####", {"g": cell(GUARD, "blue", 0)}), GUARD)
    assert state.grid[1, 1] == cell(GUARD, "blue", 2) and state.grid[2, 1] == EMPTY
    assert jnp.asarray(state.grid).dtype == jnp.uint16
