"""Packed cells against MiniGrid's objects."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.grid.cells import (
    COLORS,
    EMPTY,
    OBJECTS,
    STATES,
    UNSEEN,
    WALL,
    cell,
    color_of,
    highest,
    inside_of,
    is_a,
    is_portable,
    is_shut,
    is_transparent,
    is_walkable,
    object_of,
    state_of,
    with_color,
    with_content,
    with_state,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from minigrid.core import constants
    from minigrid.core.world_object import WorldObj

# Every cell that MiniGrid can decode: (number of object, color, state).
CODES = [(k, c, s) for k in range(len(OBJECTS)) for c in range(len(COLORS)) for s in range(3 if k == 4 else 1)]


def packed(code):
    return np.uint16(code[0] | code[1] << 4 | code[2] << 7)


def test_numbers_and_names_are_minigrids():
    assert {name: i for i, name in enumerate(OBJECTS)} == constants.OBJECT_TO_IDX
    assert {name: i for i, name in enumerate(COLORS)} == constants.COLOR_TO_IDX
    assert {name: i for i, name in enumerate(STATES)} == constants.STATE_TO_IDX
    assert highest() == (10, 5, 2)


@pytest.mark.parametrize(
    "name, expected",
    [("unseen", (0, 0, 0)), ("empty", (1, 0, 0)), ("lava", (9, 0, 0))],
)
def test_a_cell_without_a_color_encodes_as_in_minigrid(name, expected):
    made = cell(name)
    assert (object_of(made), color_of(made), state_of(made)) == expected


def test_named_cells_are_what_minigrid_draws():
    assert (int(UNSEEN), int(EMPTY)) == (0, 1)
    assert (object_of(WALL), color_of(WALL), state_of(WALL)) == (2, 5, 0)
    locked = cell("door", "blue", "locked")
    assert (object_of(locked), color_of(locked), state_of(locked)) == (4, 2, 2)


@pytest.mark.parametrize("code", CODES)
def test_traits_are_those_of_minigrids_object(code):
    theirs, ours = WorldObj.decode(*code), jnp.asarray(packed(code))
    if theirs is None:
        assert OBJECTS[code[0]] in ("unseen", "empty", "agent")
        assert not bool(is_portable(ours))
        return
    assert bool(is_walkable(ours)) == theirs.can_overlap()
    assert bool(is_portable(ours)) == theirs.can_pickup()
    assert bool(is_transparent(ours)) == theirs.see_behind()
    assert bool(is_shut(ours)) == (theirs.type == "door" and not theirs.is_open)


def test_an_empty_cell_can_be_entered_and_seen_through_and_not_carried():
    nothing = jnp.asarray(EMPTY)
    assert is_walkable(nothing) and is_transparent(nothing) and not is_portable(nothing)


def test_fields_of_many_cells_are_read_at_once():
    codes = np.array(CODES)
    cells = jnp.asarray(codes[:, 0] | codes[:, 1] << 4 | codes[:, 2] << 7).astype(jnp.uint16)
    read = jax.jit(lambda c: (object_of(c), color_of(c), state_of(c)))(cells)
    np.testing.assert_array_equal(np.stack(read, axis=1), codes)
    np.testing.assert_array_equal(is_a(cells, "key"), codes[:, 0] == 5)


def test_a_box_keeps_object_and_color_of_what_it_holds():
    box = cell("box", "grey", inside=cell("key", "red"))
    assert inside_of(box) == cell("key", "red")
    assert inside_of(cell("box", "grey")) == EMPTY
    assert with_content(cell("box", "grey"), cell("ball", "purple")) == cell(
        "box", "grey", inside=cell("ball", "purple")
    )
    assert (object_of(box), color_of(box), state_of(box)) == (7, 5, 0)


def test_color_and_state_of_a_new_cell_are_those_given():
    for number, color in enumerate(COLORS):
        assert with_color(cell("ball"), np.int32(number)) == cell("ball", color)
    for number, state in enumerate(STATES):
        assert with_state(cell("door", "green"), np.int32(number)) == cell("door", "green", state)


@pytest.mark.parametrize("names", [("dragon",), ("key", "pink"), ("door", "red", "ajar")])
def test_an_unknown_name_is_a_value_error(names):
    with pytest.raises(ValueError, match="not in"):
        cell(*names)
