"""The agent's view, against MiniGrid's `process_vis` and `gen_obs_grid`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.minigrid.reference import Grid, Wall, inject, make_reference
from shoal.grid.cells import COLORS, EMPTY, WALL, cell
from shoal.grid.view import channels, partial_view, visible

SIZES = (3, 5, 7, 9, 11)
THINGS = [EMPTY] * 8 + [WALL] * 3 + [cell("lava"), cell("goal", "green"), cell("floor", "blue")]
THINGS += [cell("door", COLORS[i], state) for i in range(3) for state in ("open", "closed", "locked")]
THINGS += [cell(name, color) for name in ("key", "ball", "box") for color in ("red", "grey")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", SIZES)
def test_visible_cells_are_those_of_minigrid(size):
    rng = np.random.default_rng(size)
    clear = rng.random((500, size, size)) < rng.uniform(0.2, 1, (500, 1, 1))
    clear[0], clear[1] = True, False
    ours = jax.jit(jax.vmap(visible))(jnp.asarray(clear))
    assert 0.1 < ours.mean() < 0.9
    for transparent, lit in zip(clear, np.asarray(ours), strict=True):
        grid = Grid(size, size)
        for x, y in np.argwhere(~transparent):
            grid.set(x, y, Wall())
        np.testing.assert_array_equal(lit, grid.process_vis(agent_pos=(size // 2, size - 1)))


@pytest.mark.parametrize("see_through_walls", [False, True])
@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", SIZES)
def test_views_of_random_grids_are_those_of_minigrid(size, see_through_walls):
    env = make_reference("MiniGrid-Empty-8x8-v0", agent_view_size=size)
    env.see_through_walls = see_through_walls
    env.width, env.height = 6, 9
    rng = np.random.default_rng(size)
    n = 200
    grids = rng.choice(np.array(THINGS, np.uint16), (n, 6, 9))
    poses = np.stack([rng.integers(0, 6, n), rng.integers(0, 9, n), rng.integers(0, 4, n)], axis=1).astype(np.int32)
    hands = rng.choice(np.array([EMPTY, EMPTY, cell("key", "red"), cell("box", "grey")], np.uint16), n)

    def look(grid, pose, hand):
        return partial_view(grid, pose[0], pose[1], pose[2], hand, size, see_through_walls)

    ours = np.asarray(jax.jit(jax.vmap(look))(grids, poses, hands))
    for grid, pose, hand, image in zip(grids, poses, hands, ours, strict=True):
        inject(env, grid, tuple(pose), mission="", task={}, max_steps=10, carrying=hand)
        np.testing.assert_array_equal(image, env.gen_obs()["image"])
    assert ours.dtype == np.uint8 and ours.shape == (n, size, size, 3)
    alone = jax.jit(look)(jnp.asarray(grids[0]), jnp.asarray(poses[0]), jnp.asarray(hands[0]))
    np.testing.assert_array_equal(alone, ours[0])


def test_an_agent_on_the_first_cell_sees_walls_outside():
    # Looking left from (0, 0): all but its own cell lies outside; the hand is empty.
    grid = jnp.full((4, 4), EMPTY, jnp.uint16)
    view = partial_view(grid, jnp.int32(0), jnp.int32(0), jnp.int32(2), jnp.asarray(EMPTY), 3, True)
    expected = np.full((3, 3, 3), (2, 5, 0), np.uint8)
    expected[1, 2] = expected[0, 2] = (1, 0, 0)  # own cell, and (0, 1), which lies to its left
    np.testing.assert_array_equal(view, expected)


def test_the_carried_object_is_observed_in_the_cell_of_the_agent():
    grid = jnp.full((5, 5), EMPTY, jnp.uint16)
    pose = jnp.int32(2), jnp.int32(4), jnp.int32(3)
    empty_handed = np.array(partial_view(grid, *pose, jnp.asarray(EMPTY), 3, False))
    view = np.array(partial_view(grid, *pose, jnp.asarray(cell("box", "grey")), 3, False))
    assert view[1, 2].tolist() == [7, 5, 0]
    view[1, 2] = empty_handed[1, 2]
    np.testing.assert_array_equal(view, empty_handed)


def test_unseen_cells_are_zeros():
    grid = np.full((7, 7), EMPTY, np.uint16)
    grid[:, 3] = WALL
    view = np.array(partial_view(jnp.asarray(grid), *map(jnp.int32, (3, 5, 3)), jnp.asarray(EMPTY), 7, False))
    assert (view[:, :4] == 0).all() and (view[:, 4] == (2, 5, 0)).all()


def test_channels_take_a_cell_apart():
    cells = jnp.asarray(np.array([cell("door", "grey", "locked"), cell("box", "blue", inside=cell("key", "grey"))]))
    np.testing.assert_array_equal(channels(cells), [[4, 5, 2], [7, 2, 0]])
