"""WFC without the reference; tests/parity compares tables, walls and layouts with MiniGrid's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from maps import at, first_state, layouts, reached, steps
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.envs.minigrid import wave_function
from shoal.envs.minigrid.wave_function import SETTLED, WRAPS, catalog, draw_walls, largest_component
from shoal.grid.cells import EMPTY, GOAL, WALL

ENV_ID = "MiniGrid-WFC-ObstaclesBlackdots-v0"
FEW = 16


def test_all_free_cells_hang_together():
    states = layouts(make("MiniGrid-WFC-MazeSimple-v0", size=13), FEW)
    free = states.grid != WALL
    for i in range(FEW):
        np.testing.assert_array_equal(reached(free[i], (states.x[i], states.y[i])), free[i])
    assert ((states.grid == GOAL).sum((1, 2)) == 1).all()
    assert (states.grid[np.arange(FEW), states.x, states.y] == EMPTY).all()
    assert not free[:, [0, -1]].any() and not free[:, :, [0, -1]].any()


def test_without_ensure_connected_all_cells_stay_free():
    connected, apart = (
        layouts(make("MiniGrid-WFC-MazeSimple-v0", size=13, ensure_connected=choice), FEW) for choice in (True, False)
    )
    count = [ndimage.label(grid != WALL)[1] for grid in apart.grid]
    assert max(count) > 1
    for kept, grid, n in zip(connected.grid, apart.grid, count, strict=True):
        free = grid != WALL
        sizes = ndimage.sum_labels(free, ndimage.label(free)[0], np.arange(1, n + 1))
        assert (kept != WALL).sum() == sizes.max()


def test_the_largest_component_is_the_first_of_equal_ones():
    free = np.array([[1, 0, 1, 1], [0, 0, 0, 1], [1, 1, 0, 0], [1, 0, 0, 1]], bool)
    # Three cells in the upper right corner and three in the lower left; the numbering begins in the first row.
    expected = np.array([[0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]], bool)
    np.testing.assert_array_equal(largest_component(jnp.asarray(free)), expected)


def test_the_largest_component_agrees_with_scipy():
    masks = np.random.default_rng(0).random((200, 23, 23)) < 0.6
    found = np.asarray(jax.jit(jax.vmap(largest_component))(masks))
    for mask, ours in zip(masks, found, strict=True):
        label, count = ndimage.label(mask)  # numbered by their first cells
        sizes = ndimage.sum_labels(mask, label, np.arange(1, count + 1))
        np.testing.assert_array_equal(ours, label == 1 + np.argmax(sizes))


@pytest.mark.parametrize("picture", WRAPS)
def test_at_the_start_all_patterns_fit(picture):
    tables = catalog(picture)
    every = [int(word) for word in tables.all_patterns]
    for side in tables.allows:
        assert [int(word) for word in np.bitwise_or.reduce(side, axis=0)] == every
    for side in tables.classes:  # each pattern belongs to one class
        assert [int(word) for word in np.bitwise_xor.reduce(side, axis=0)] == every
        assert np.bitwise_count(side).sum() == len(tables.weight)
    assert tables.weight.sum() < 2**9 and len(tables.weight) < wave_function.MOST_PATTERNS


def test_patterns_are_taken_by_weight():
    tables = catalog("ObstaclesHogs3")
    numbers = [1, 2, 23, 35, 39]  # weights 6, 4, 2, 2 and 8
    weights = np.array([6, 4, 2, 2, 8])
    np.testing.assert_array_equal(tables.weight[numbers], weights)
    among = wave_function._set_of(np.isin(np.arange(40), numbers))
    bits = np.arange(0, 2**32, 2**32 // 2200, dtype=np.uint64).astype(np.uint32)
    taken = jax.vmap(lambda b: wave_function._one_of(b, jnp.asarray(among), tables))(bits)
    sets, counts = np.unique(np.asarray(taken), axis=0, return_counts=True)
    is_taken = {int(low) | int(high) << 32: count for (low, high), count in zip(sets, counts, strict=True)}
    assert set(is_taken) == {1 << number for number in numbers}
    share = [is_taken[1 << number] / len(bits) for number in numbers]
    np.testing.assert_allclose(share, weights / weights.sum(), atol=2e-3)


def test_a_contradiction_begins_the_grid_again():
    tables, side = catalog("ObstaclesBlackdots"), 5
    start = wave_function._fresh(tables, jnp.arange(25, dtype=jnp.int32))
    # Pattern 4 fits in no direction beside itself: its wall is one cell alone.
    patterns = start.patterns.at[0, 11].set(1 << 4).at[0, 12].set(1 << 4)
    wave = start._replace(patterns=patterns, order=start.order.at[11].set(0))
    after = wave_function._visit(jnp.uint32(0), wave, tables, side)
    jax.tree.map(np.testing.assert_array_equal, after, start)


def test_a_level_without_walls_is_counted(monkeypatch):
    env = make(ENV_ID, size=9)
    monkeypatch.setattr(wave_function, "VISITS_PER_CELL", 0)
    walls, failed = draw_walls(make_key(0), "ObstaclesBlackdots", 7)
    assert failed and not walls.any()
    states = jax.vmap(env.init)(jax.random.split(make_key(0), 3))
    assert states.fallback.all() and ((states.grid == WALL).sum((1, 2)) == 32).all()  # the outer walls: 4 * 8
    *_, info = env.step(make_key(0), at(states, 0), 0)
    assert info == {"fallback": True}
    monkeypatch.undo()
    _, failed = jax.jit(lambda key: draw_walls(key, "ObstaclesBlackdots", 7))(make_key(0))
    assert not failed


def test_a_level_with_one_free_cell_is_a_fallback(monkeypatch):
    env = make(ENV_ID, size=9)
    one = np.ones((7, 7), bool)
    one[3, 3] = False
    monkeypatch.setattr("shoal.envs.minigrid.wfc.draw_walls", lambda *_: (jnp.asarray(one), jnp.bool_(False)))
    state = env.init(make_key(0))
    assert state.fallback and (state.grid == WALL).sum() == 32


def test_a_pool_has_so_many_layouts():
    drawn = layouts(make(ENV_ID, size=9, pool=3), 200)
    walls = {grid.tobytes() for grid in drawn.grid == WALL}
    assert len(walls) == 3
    assert len(np.unique(drawn.x * 9 + drawn.y)) > 20  # agent and goal are elsewhere in each episode
    # They are layouts of the generator, drawn with the keys that `_pool` splits from key 0.
    env = make(ENV_ID, size=9)
    free, _ = jax.vmap(env._layout)(jax.random.split(make_key(0), (1, 3))[0])
    assert walls == {np.pad(~np.asarray(one), 1, constant_values=True).tobytes() for one in free}


def test_a_pool_names_itself():
    assert "pool=3" in repr(make(ENV_ID, pool=3)) and "pool=0" in repr(make(ENV_ID))


def test_patterns_continue_over_the_edge_only_where_the_picture_says():
    inside = np.asarray(wave_function._neighbors(jnp.int32(0), 5, False)[1])
    assert inside.tolist() == [True, False, False, True]
    around, is_inside = wave_function._neighbors(jnp.int32(0), 5, True)
    assert is_inside.all() and around.tolist() == [1, 20, 4, 5]


def test_task_and_limit_are_minigrids():
    env = make(ENV_ID)
    assert env.shape == (25, 25) and env.max_steps == 500 and make(ENV_ID, size=11).max_steps == 220
    state = first_state(make(ENV_ID, size=9))
    assert env.mission_text(state) == "traverse the maze to get to the goal"


def test_nothing_in_the_grid_can_be_changed():
    env = make(ENV_ID, size=9)
    state = first_state(env)
    after = steps(env, state, "pickup", "drop", "toggle", "done").state
    np.testing.assert_array_equal(after.grid, state.grid)
    assert after.carrying == EMPTY


def test_a_finished_grid_is_settled():
    start = wave_function._fresh(catalog("MazeSimple"), jnp.arange(9, dtype=jnp.int32))
    assert not wave_function._is_settled(start)
    assert wave_function._is_settled(start._replace(order=jnp.full(9, SETTLED)))


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"example": "MazeSimpel"}, "example='MazeSimpel' is unknown. Did you mean MazeSimple"),
        ({"example": "Cave"}, "example='Cave' is unknown. Choose one of MazeSimple, DungeonMazeScaled"),
        ({"size": 4}, "size=4 leaves too few cells between the outer walls: at least 5"),
        ({"pool": -1}, "pool=-1: write how many layouts to draw, or 0"),
    ],
)
def test_impossible_fields_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        make(ENV_ID, **fields)
