"""Levels made of equal rooms in columns and rows: doors between rooms, and objects placed in a given room.

A level makes a `Plan` and adds to it in MiniGrid's order; each addition returns a new plan. A room is (column, row);
both may be traced, so the room may be random. Source: MiniGrid 3.2.0, `core/roomgrid.py`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt16

from shoal.core.keys import Key
from shoal.core.struct import Struct, is_concrete, static, struct
from shoal.grid.actions import heading, with_cell
from shoal.grid.cells import CLOSED, DOOR, EMPTY, LOCKED, WALL, Cell, state_of, with_color, with_state
from shoal.grid.layout import choose, empty_room, random_color, rectangle, walled
from shoal.ops.loops import short_repeat

Index = Int[Array, ""] | int

# The walls of a room, with the numbers of the directions.
RIGHT, BELOW, LEFT, ABOVE = range(4)


class Rooms(NamedTuple):
    """The number of rooms, and the size of a room in cells, walls included. Neighboring rooms share a wall."""

    columns: int
    rows: int
    size: int

    @property
    def pitch(self) -> int:
        """The distance from one room to the next, in cells."""
        return self.size - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Width and height of the grid."""
        return self.pitch * self.columns + 1, self.pitch * self.rows + 1

    @property
    def middle(self) -> tuple[int, int]:
        """The position (x, y) where MiniGrid puts the agent until the level places it."""
        return self.columns // 2 * self.pitch + self.size // 2, self.rows // 2 * self.pitch + self.size // 2

    @property
    def inner_walls(self) -> Bool[np.ndarray, "2 C R"]:
        """Which rooms [column, row] have a neighbor to the right (index 0), and which have one below (index 1)."""
        has_neighbor = np.ones((2, self.columns, self.rows), bool)
        has_neighbor[0, -1, :] = has_neighbor[1, :, -1] = False
        return has_neighbor

    def plan(self, key: Key, last: int | None = None, *, may_fail: bool = False) -> "Plan":
        """A plan without doors, with a random position for a door in each wall. `key` is consumed.

        The position is uniform among cells 1 to `last` of the wall; by default among all cells between its ends.
        `may_fail` is for a generator that tries again: an addition for which there is no place then sets `is_possible`
        of the plan to False, and never raises an error.
        """
        grid = empty_room(*self.shape)
        for left in range(0, self.shape[0] - 1, self.pitch):
            for top in range(0, self.shape[1] - 1, self.pitch):
                grid = walled(grid, left, top, self.size, self.size)
        inner = self.inner_walls
        along = jax.random.randint(key, inner.shape, 1, last + 1 if last else self.pitch)
        side, column, row = np.indices(inner.shape, np.int32)
        return Plan(
            rooms=self,
            grid=jnp.asarray(grid),
            door_x=jnp.where(side == 0, (column + 1) * self.pitch, column * self.pitch + along),
            door_y=jnp.where(side == 0, row * self.pitch + along, (row + 1) * self.pitch),
            is_open=jnp.zeros(inner.shape, bool),
            is_locked=jnp.zeros(inner.shape[1:], bool),
            x=jnp.int32(self.middle[0]),
            y=jnp.int32(self.middle[1]),
            direction=jnp.int32(0),
            is_possible=jnp.bool_(True),
            may_fail=may_fail,
        )


@struct
class Plan(Struct):
    """An unfinished level. Wall (0, c, r) is the one to the right of room (c, r), wall (1, c, r) the one below it."""

    grid: UInt16[Array, "W H"]
    door_x: Int[Array, "2 C R"]  # column of the door of each wall, if it gets one
    door_y: Int[Array, "2 C R"]  # row of the door of each wall
    is_open: Bool[Array, "2 C R"]  # whether the wall has a door, locked or not, or was removed
    is_locked: Bool[Array, "C R"]  # whether the last door that was added to the room is locked
    x: Int[Array, ""]
    y: Int[Array, ""]
    direction: Int[Array, ""]
    is_possible: Bool[Array, ""]  # False if some addition found no place
    rooms: Rooms = static()
    may_fail: bool = static(False)  # whether such an addition is no error

    def door_at(self, room: tuple[Index, Index], side: Index) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """The position (x, y) of the door in one wall of a room."""
        wall = _wall(room, side)
        return self.door_x[wall], self.door_y[wall]

    def with_obstacle(self, room: tuple[Index, Index], side: Index, thing: Cell) -> "Plan":
        """Put an object into a room, in the cell in front of one of its doors. It replaces what is in that cell."""
        x, y = self.door_at(room, side)
        dx, dy = heading(jnp.asarray(side))
        return self.replace(grid=with_cell(self.grid, x - dx, y - dy, thing))

    def with_door(self, room: tuple[Index, Index], side: Index, door: Cell) -> "Plan":
        """Add a door in one wall of a room."""
        is_locked = jnp.where(self._is_room(*room), state_of(door) == LOCKED, self.is_locked)
        return self._opened(room, side).replace(
            grid=with_cell(self.grid, *self.door_at(room, side), door), is_locked=is_locked
        )

    def without_wall(self, room: tuple[Index, Index], side: int) -> "Plan":
        """Remove one wall of a room, except its ends."""
        column, row = room
        along, left, top = self.rooms.size - 2, column * self.rooms.pitch, row * self.rooms.pitch
        if side in (RIGHT, LEFT):
            gap = rectangle(self.rooms.shape, left + self.rooms.pitch * (side == RIGHT), top + 1, 1, along)
        else:
            gap = rectangle(self.rooms.shape, left + 1, top + self.rooms.pitch * (side == BELOW), along, 1)
        return self._opened(room, side).replace(grid=jnp.where(gap, EMPTY, self.grid))

    def with_thing(self, key: Key, room: tuple[Index, Index], thing: Cell) -> "Plan":
        """Put an object into a random empty cell of a room that is not next to the agent. `key` is consumed.

        Raises ValueError if there is no such cell; compiled code returns the plan unchanged.
        """
        (left, top), cells = self._corner(room), self._cells(room)
        along = np.arange(self.rooms.size, dtype=np.int32)
        distance = jnp.abs(left + along - self.x)[:, None] + jnp.abs(top + along - self.y)[None, :]
        fits = (cells == EMPTY) & (distance > 1)
        x, y = choose(key, fits, may_be_empty=self.may_fail)
        thing = jnp.where(fits[x, y], thing, cells[x, y])
        return self.replace(grid=with_cell(self.grid, left + x, top + y, thing)).provided(jnp.any(fits))

    def with_agent(self, key: Key, room: tuple[Index, Index], poses: Bool[Array, "4 S S"] | None = None) -> "Plan":
        """Put the agent into a room, so that it faces an empty cell or a wall. `key` is consumed.

        All such poses have the same probability; `poses` are those of the room, if they are known. Raises ValueError
        if there is none; in compiled code the agent then stands in a wall.
        """
        size, (left, top) = self.rooms.size, self._corner(room)
        fits = self.poses(room) if poses is None else poses
        x, y = choose(key, fits.reshape(4 * size, size), may_be_empty=self.may_fail)
        return self.replace(x=left + x % size, y=top + y, direction=x // size).provided(jnp.any(fits))

    def poses(self, room: tuple[Index, Index]) -> Bool[Array, "4 S S"]:
        """Where in a room the agent may stand and look: [direction, x, y], from the upper left corner of its walls.

        Its cell is empty, and the cell in front of it is empty or a wall.
        """
        cells = self._cells(room, around=1)
        ahead = jnp.stack([cells[2:, 1:-1], cells[1:-1, 2:], cells[:-2, 1:-1], cells[1:-1, :-2]])
        return ((ahead == EMPTY) | (ahead == WALL)) & (cells == EMPTY)[None, 1:-1, 1:-1]

    def provided(self, condition: Bool[Array, ""]) -> "Plan":
        """The same plan, which is not possible unless a condition holds."""
        return self.replace(is_possible=self.is_possible & condition)

    def connected(self, key: Key, colors: Int[Array, "2 C R"] | None = None) -> "Plan":
        """Add closed doors in random walls, one after another, until every room can be reached.

        A door has the color that `colors` gives for its wall, or a random one. A room with a locked door gets no
        further doors. As in MiniGrid, some of the added doors may not be needed. `key` is consumed. Raises ValueError
        if rooms cannot be reached because of locked doors; compiled code returns such a plan without an error.
        """
        k_walls, k_colors = jax.random.split(key)
        in_colors = closed_doors(random_color(k_colors, self.is_open.shape) if colors is None else colors)
        free = ~(self.is_locked[None] | _next(self.is_locked, False)) & self.rooms.inner_walls & ~self.is_open
        # Each free wall gets a random priority, and walls open in the order of decreasing priority until every room can
        # be reached. That needs no loop over walls. Let the width of a path be the smallest priority of its walls, and
        # let each room have the widest path to it: then all walls open whose priority is at least the smallest of these
        # widths.
        priorities = jax.random.bits(k_walls, free.shape, jnp.uint32) >> 8 << 8
        priorities = priorities | np.arange(1, free.size + 1, dtype=np.uint32).reshape(free.shape)
        threshold = jnp.min(_widest(jnp.where(self.is_open, jnp.uint32(2**32 - 1), jnp.where(free, priorities, 0))))
        if not self.may_fail and is_concrete(threshold) and threshold == 0:
            raise ValueError(
                "some rooms cannot be reached: all walls to other rooms belong to a room with a locked door."
            )
        return self.with_doors(free & (priorities >= threshold), in_colors).provided(threshold > 0)

    def with_doors(
        self, where: Bool[Array, "2 C R"] | Bool[np.ndarray, "2 C R"], doors: UInt16[Array, "2 C R"]
    ) -> "Plan":
        """Add unlocked doors in all walls of the mask `where` at once."""
        columns, rows = (np.arange(size, dtype=np.int32)[None, None] for size in self.rooms.shape)
        right, below = jnp.where(where, doors, 0)[..., None]
        # The doors in the grid's columns, and rows, of walls; other columns and rows have none.
        right = jnp.max(jnp.where(self.door_y[0, :, :, None] == rows, right, 0), axis=1)
        below = jnp.max(jnp.where(self.door_x[1, :, :, None] == columns, below, 0), axis=0).T
        every, spaced = (0, 0, 0), (self.rooms.pitch, 0, self.rooms.pitch - 1)
        none = np.uint16(0)
        new = jax.lax.pad(right, none, (spaced, every)) | jax.lax.pad(below, none, (every, spaced))
        return self.replace(grid=jnp.where(new != 0, new, self.grid), is_open=self.is_open | where)

    def _corner(self, room: tuple[Index, Index]) -> tuple[Int[Array, ""], Int[Array, ""]]:
        column, row = (jnp.asarray(index, jnp.int32) for index in room)
        return column * self.rooms.pitch, row * self.rooms.pitch

    def _cells(self, room: tuple[Index, Index], around: int = 0) -> UInt16[Array, "S S"]:
        # The cells of a room, walls included: sampling among these is cheaper than in the whole grid.
        size = self.rooms.size + 2 * around
        grid = jnp.pad(self.grid, around, constant_values=WALL)
        return jax.lax.dynamic_slice(grid, self._corner(room), (size, size))

    def _opened(self, room: tuple[Index, Index], side: Index) -> "Plan":
        which, column, row = _wall(room, side)
        sides = np.arange(2, dtype=np.int32)[:, None, None] == which
        return self.replace(is_open=self.is_open | sides & self._is_room(column, row)[None])

    def _is_room(self, column: Index, row: Index) -> Bool[Array, "C R"]:
        return rectangle((self.rooms.columns, self.rooms.rows), column, row, 1, 1)


def closed_doors(colors: Int[Array, "*n"]) -> UInt16[Array, "*n"]:
    """Closed doors of these colors, indices of `COLORS`."""
    return jnp.asarray(with_state(with_color(DOOR, colors), CLOSED))


def _wall(room: tuple[Index, Index], side: Index) -> tuple[Index, Index, Index]:
    # The wall to the left of a room is the one to the right of its neighbor, likewise above and below.
    column, row = room
    is_before = side // 2
    return side % 2, column - is_before * (1 - side % 2), row - is_before * (side % 2)


def _next(values: Array, edge: int | bool) -> Array:
    # For each room the values of the rooms to its right and below it, [2, C, R]; `edge` where there is no room.
    right = jnp.pad(values, ((0, 1), (0, 0)), constant_values=edge)[1:]
    below = jnp.pad(values, ((0, 0), (0, 1)), constant_values=edge)[:, 1:]
    return jnp.stack([right, below])


def _widest(width: Array) -> Array:
    # The width of the widest path from room (0, 0) to each room; a path is as wide as its narrowest wall.
    columns, rows = width.shape[1:]
    first = np.zeros((columns, rows), np.uint32)
    first[0, 0] = 2**32 - 1

    def extend(_: Index, widest: Array) -> Array:
        forth = jnp.minimum(_next(widest, 0), width)  # to a room, from its neighbors to the right and below
        back = jnp.minimum(widest[None], width)  # to these neighbors, from the room
        back_right = jnp.pad(back[0], ((1, 0), (0, 0)))[:-1]
        back_below = jnp.pad(back[1], ((0, 0), (1, 0)))[:, :-1]
        return jnp.maximum(jnp.maximum(widest, jnp.max(forth, axis=0)), jnp.maximum(back_right, back_below))

    return short_repeat(columns * rows - 1, extend, jnp.asarray(first))
