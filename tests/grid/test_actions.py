"""What each action does to the cell in front of the agent, against MiniGrid's `step`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.minigrid.reference import EMPTY, inject, make_reference, pack, unpack
from shoal.grid.actions import (
    ACTIONS,
    DROP,
    LEFT,
    PICKUP,
    RIGHT,
    TOGGLE,
    cell_at,
    cell_mask,
    heading,
    interact,
    toggled,
    turned,
    with_cell,
)
from shoal.grid.cells import COLORS, WALL, cell

HANDS = [cell("empty"), cell("key", "red"), cell("key", "blue"), cell("ball", "red"), cell("box", "green")]
HANDS += [cell("box", "green", inside=cell("key", "blue"))]
FRONTS = [cell("empty"), WALL, cell("floor", "purple"), cell("goal", "green"), cell("lava")]
FRONTS += [cell("door", color, state) for color in COLORS[:3] for state in ("open", "closed", "locked")]
FRONTS += [cell(name, color) for name in ("key", "ball", "box") for color in COLORS]
FRONTS += [cell("box", "grey", inside=cell(name, color)) for name in ("key", "ball") for color in COLORS]


@pytest.fixture(scope="module")
def reference():
    return make_reference("MiniGrid-Empty-5x5-v0")


def test_action_numbers_are_those_of_minigrid(reference):
    assert {name: i for i, name in enumerate(ACTIONS)} == {a.name: a.value for a in reference.actions}


@pytest.mark.parametrize("action", range(len(ACTIONS)))
def test_hand_and_front_change_as_in_minigrid(reference, action):
    fronts, hands = (np.array(each) for each in zip(*[(f, h) for f in FRONTS for h in HANDS], strict=True))
    ours = jax.vmap(interact, in_axes=(0, 0, None))(jnp.asarray(fronts), jnp.asarray(hands), jnp.int32(action))
    grid = np.full((5, 5), EMPTY, np.uint16)
    theirs = []
    for front, hand in zip(fronts, hands, strict=True):
        grid[2, 1] = front
        inject(reference, grid, (1, 1, 0), mission="", task={}, max_steps=10, carrying=hand)
        reference.step(action)
        theirs.append((pack(reference.grid.get(2, 1)), pack(reference.carrying)))
    np.testing.assert_array_equal(np.stack(ours, axis=1), theirs)


def test_a_key_opens_its_own_color_and_stays_in_the_hand():
    door, key = cell("door", "blue", "locked"), cell("key", "blue")
    front, hand = interact(jnp.asarray(door), jnp.asarray(key), jnp.int32(TOGGLE))
    assert (front, hand) == (cell("door", "blue", "open"), key)
    assert toggled(jnp.asarray(door), jnp.asarray(cell("key", "red"))) == door
    assert toggled(jnp.asarray(door), jnp.asarray(cell("ball", "blue"))) == door


def test_an_open_door_closes_again():
    opened = toggled(jnp.asarray(cell("door", "red", "closed")), jnp.asarray(cell("empty")))
    assert opened == cell("door", "red", "open")
    assert toggled(opened, jnp.asarray(cell("empty"))) == cell("door", "red", "closed")


def test_pickup_with_a_full_hand_and_drop_with_an_empty_hand_do_nothing():
    ball, key, nothing = (jnp.asarray(cell(name)) for name in ("ball", "key", "empty"))
    assert interact(ball, key, jnp.int32(PICKUP)) == (ball, key)
    assert interact(nothing, nothing, jnp.int32(DROP)) == (nothing, nothing)


@pytest.mark.parametrize("front", ["goal", "lava", "floor", "door"])
def test_an_object_is_dropped_on_empty_cells_only(front):
    front, key = jnp.asarray(cell(front)), jnp.asarray(cell("key"))
    assert interact(front, key, jnp.int32(DROP)) == (front, key)


@pytest.mark.parametrize("direction", range(4))
def test_turning_and_heading_are_minigrids(reference, direction):
    inject(reference, np.full((5, 5), EMPTY, np.uint16), (2, 2, direction), mission="", task={}, max_steps=10)
    assert tuple(map(int, heading(jnp.int32(direction)))) == tuple(map(int, reference.dir_vec))
    for action in (LEFT, RIGHT, TOGGLE):
        inject(reference, np.full((5, 5), EMPTY, np.uint16), (2, 2, direction), mission="", task={}, max_steps=10)
        reference.step(action)
        assert int(turned(jnp.int32(direction), jnp.int32(action))) == reference.agent_dir


def test_a_cell_outside_the_grid_reads_as_the_given_value_and_is_not_written():
    grid = jnp.arange(6, dtype=jnp.uint16).reshape(2, 3)
    for x in range(-2, 4):
        for y in range(-2, 5):
            inside = 0 <= x < 2 and 0 <= y < 3
            where = jnp.int32(x), jnp.int32(y)
            assert cell_at(grid, *where, WALL) == (3 * x + y if inside else WALL)
            after, expected = with_cell(grid, *where, np.uint16(99)), np.array(grid)
            if inside:
                expected[x, y] = 99
            np.testing.assert_array_equal(after, expected)
            assert cell_mask((2, 3), *where).sum() == int(inside)


def test_a_box_in_the_hand_keeps_what_it_holds():
    box = cell("box", "grey", inside=cell("key", "red"))
    assert unpack(box).contains.color == "red" and pack(unpack(box)) == box
    assert interact(jnp.asarray(box), jnp.asarray(cell("empty")), jnp.int32(PICKUP)) == (cell("empty"), box)
