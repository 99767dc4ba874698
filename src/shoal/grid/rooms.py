"""Levels of equal rooms in columns and rows: the doors between them, and things put down room by room.

A level draws a `Plan` and adds to it in MiniGrid's order, each addition giving a new plan. Whoever asks for a room may
ask for a random one: a room is (column, row), and both may be traced. Source: MiniGrid 3.2.0, `core/roomgrid.py`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt16

from shoal.core.keys import Key
from shoal.core.struct import Struct, is_concrete, static, struct
from shoal.grid.actions import heading, with_cell
from shoal.grid.cells import CLOSED, DOOR, EMPTY, LOCKED, WALL, Cell, in_state, painted, state_of
from shoal.grid.layout import choose, empty_room, random_color, rectangle, walled

Index = Int[Array, ""] | int

# Walls of a room, numbered as directions are.
RIGHT, BELOW, LEFT, ABOVE = range(4)


class Rooms(NamedTuple):
    """How many rooms there are and how large they are, walls included; neighbors share a wall."""

    columns: int
    rows: int
    size: int

    @property
    def pitch(self) -> int:
        """Cells from one room to the next."""
        return self.size - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Width and height of the grid."""
        return self.pitch * self.columns + 1, self.pitch * self.rows + 1

    @property
    def middle(self) -> tuple[int, int]:
        """Where MiniGrid keeps the agent while a level is laid out, until it is placed."""
        return self.columns // 2 * self.pitch + self.size // 2, self.rows // 2 * self.pitch + self.size // 2

    @property
    def inner_walls(self) -> Bool[np.ndarray, "2 C R"]:
        """Which rooms have a neighbor to the right (0), and which have one below (1)."""
        has_neighbor = np.ones((2, self.columns, self.rows), bool)
        has_neighbor[0, -1, :] = has_neighbor[1, :, -1] = False
        return has_neighbor

    def plan(self, key: Key, last: int | None = None) -> "Plan":
        """Closed rooms, each wall with a random place for a door, the agent in the middle. `key` is consumed.

        A door may stand anywhere in its wall, from cell 1 to cell `last`; by default that is the whole wall.
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
        )


@struct
class Plan(Struct):
    """A level while it is laid out. The wall (0, c, r) is to the right of room (c, r), the wall (1, c, r) below it."""

    grid: UInt16[Array, "W H"]
    door_x: Int[Array, "2 C R"]  # where a wall has its door, or would have one
    door_y: Int[Array, "2 C R"]
    is_open: Bool[Array, "2 C R"]  # whether a wall has a door, locked or not, or has been taken away
    is_locked: Bool[Array, "C R"]  # whether the last door given to a room was a locked one
    x: Int[Array, ""]
    y: Int[Array, ""]
    direction: Int[Array, ""]
    rooms: Rooms = static()

    def door_at(self, room: tuple[Index, Index], side: Index) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """The position (x, y) of the door in one wall of a room."""
        wall = _wall(room, side)
        return self.door_x[wall], self.door_y[wall]

    def with_obstacle(self, room: tuple[Index, Index], side: Index, thing: Cell) -> "Plan":
        """A thing in a room right in front of one of its doors, in the place of what may lie there."""
        x, y = self.door_at(room, side)
        dx, dy = heading(jnp.asarray(side))
        return self.replace(grid=with_cell(self.grid, x - dx, y - dy, thing))

    def with_door(self, room: tuple[Index, Index], side: Index, door: Cell) -> "Plan":
        """A door in one wall of a room."""
        is_locked = jnp.where(self._is_room(*room), state_of(door) == LOCKED, self.is_locked)
        return self._opened(room, side).replace(
            grid=with_cell(self.grid, *self.door_at(room, side), door), is_locked=is_locked
        )

    def without_wall(self, room: tuple[Index, Index], side: int) -> "Plan":
        """One wall of a room taken away, but for its ends."""
        column, row = room
        along, left, top = self.rooms.size - 2, column * self.rooms.pitch, row * self.rooms.pitch
        if side in (RIGHT, LEFT):
            gap = rectangle(self.rooms.shape, left + self.rooms.pitch * (side == RIGHT), top + 1, 1, along)
        else:
            gap = rectangle(self.rooms.shape, left + 1, top + self.rooms.pitch * (side == BELOW), along, 1)
        return self._opened(room, side).replace(grid=jnp.where(gap, EMPTY, self.grid))

    def with_thing(self, key: Key, room: tuple[Index, Index], thing: Cell) -> "Plan":
        """A thing in an empty cell of a room, but neither where the agent is nor right next to it. `key` is consumed.

        Raises ValueError where no such cell exists; in compiled code the plan then comes back as it was.
        """
        left, top, cells = self._cells(room)
        along = np.arange(self.rooms.size, dtype=np.int32)
        distance = jnp.abs(left + along - self.x)[:, None] + jnp.abs(top + along - self.y)[None, :]
        fits = (cells == EMPTY) & (distance > 1)
        x, y = choose(key, fits)
        thing = jnp.where(fits[x, y], thing, cells[x, y])
        return self.replace(grid=with_cell(self.grid, left + x, top + y, thing))

    def with_agent(self, key: Key, room: tuple[Index, Index]) -> "Plan":
        """The agent in a room, facing nothing or a wall; each such pose is as likely. `key` is consumed.

        Raises ValueError where there is none; in compiled code the agent then stands in a wall.
        """
        left, top, cells = self._cells(room, around=1)
        size = self.rooms.size
        ahead = jnp.stack([cells[2:, 1:-1], cells[1:-1, 2:], cells[:-2, 1:-1], cells[1:-1, :-2]])
        fits = ((ahead == EMPTY) | (ahead == WALL)) & (cells == EMPTY)[None, 1:-1, 1:-1]
        x, y = choose(key, fits.reshape(4 * size, size))
        return self.replace(x=left + x % size, y=top + y, direction=x // size)

    def connected(self, key: Key) -> "Plan":
        """Closed doors of random colors in random walls, one after the other until all rooms hang together.

        Rooms behind a locked door get no others. A wall that is opened may turn out not to have been needed, as in
        MiniGrid. `key` is consumed. Raises ValueError where locked doors keep rooms apart; in compiled code they stay
        so.
        """
        k_walls, k_colors = jax.random.split(key)
        in_colors = closed_doors(random_color(k_colors, self.is_open.shape))
        free = ~(self.is_locked[None] | _next(self.is_locked, False)) & self.rooms.inner_walls & ~self.is_open
        # Every free wall draws a lot, the highest opens first. They open down to the lot without which some room could
        # not be reached: the narrowest wall on the widest way to the room that is hardest to reach.
        lots = jax.random.bits(k_walls, free.shape, jnp.uint32) >> 8 << 8
        lots = lots | np.arange(1, free.size + 1, dtype=np.uint32).reshape(free.shape)
        reach = jnp.min(_widest(jnp.where(self.is_open, jnp.uint32(2**32 - 1), jnp.where(free, lots, 0))))
        if is_concrete(reach) and reach == 0:
            raise ValueError("some rooms cannot be reached: every wall between them and others is a locked room's.")
        return self.with_doors(free & (lots >= reach), in_colors)

    def with_doors(
        self, where: Bool[Array, "2 C R"] | Bool[np.ndarray, "2 C R"], doors: UInt16[Array, "2 C R"]
    ) -> "Plan":
        """Unlocked doors in many walls at once."""
        columns, rows = (np.arange(size, dtype=np.int32)[None, None] for size in self.rooms.shape)
        right, below = jnp.where(where, doors, 0)[..., None]
        # What comes into the columns and the rows in which walls stand; between them there are no doors.
        right = jnp.max(jnp.where(self.door_y[0, :, :, None] == rows, right, 0), axis=1)
        below = jnp.max(jnp.where(self.door_x[1, :, :, None] == columns, below, 0), axis=0).T
        every, spaced = (0, 0, 0), (self.rooms.pitch, 0, self.rooms.pitch - 1)
        none = np.uint16(0)
        new = jax.lax.pad(right, none, (spaced, every)) | jax.lax.pad(below, none, (every, spaced))
        return self.replace(grid=jnp.where(new != 0, new, self.grid), is_open=self.is_open | where)

    def _cells(
        self, room: tuple[Index, Index], around: int = 0
    ) -> tuple[Int[Array, ""], Int[Array, ""], UInt16[Array, "S S"]]:
        # The corner of a room and its cells, walls included; drawing among these is cheaper than in the whole grid.
        left, top = (jnp.asarray(index, jnp.int32) * self.rooms.pitch for index in room)
        size = self.rooms.size + 2 * around
        grid = jnp.pad(self.grid, around, constant_values=WALL)
        return left, top, jax.lax.dynamic_slice(grid, (left, top), (size, size))

    def _opened(self, room: tuple[Index, Index], side: Index) -> "Plan":
        which, column, row = _wall(room, side)
        sides = np.arange(2, dtype=np.int32)[:, None, None] == which
        return self.replace(is_open=self.is_open | sides & self._is_room(column, row)[None])

    def _is_room(self, column: Index, row: Index) -> Bool[Array, "C R"]:
        return rectangle((self.rooms.columns, self.rooms.rows), column, row, 1, 1)


def closed_doors(colors: Int[Array, "*n"]) -> UInt16[Array, "*n"]:
    """Closed doors in colors given by number."""
    return jnp.asarray(in_state(painted(DOOR, colors), CLOSED))


def _wall(room: tuple[Index, Index], side: Index) -> tuple[Index, Index, Index]:
    # The wall to the left of a room is the one to the right of its neighbor, likewise above and below.
    column, row = room
    is_before = side // 2
    return side % 2, column - is_before * (1 - side % 2), row - is_before * (side % 2)


def _next(values: Array, edge: int | bool) -> Array:
    # The values of the rooms to the right and of those below, [2, C, R].
    right = jnp.pad(values, ((0, 1), (0, 0)), constant_values=edge)[1:]
    below = jnp.pad(values, ((0, 0), (0, 1)), constant_values=edge)[:, 1:]
    return jnp.stack([right, below])


def _widest(width: Array) -> Array:
    # How wide the widest way from the first room to each other one is, where a way is as wide as its narrowest wall.
    columns, rows = width.shape[1:]
    first = np.zeros((columns, rows), np.uint32)
    first[0, 0] = 2**32 - 1

    def further(_: Index, ways: Array) -> Array:
        forth = jnp.minimum(_next(ways, 0), width)  # to a room from its neighbors to the right and below
        back = jnp.minimum(ways[None], width)  # to these from the room
        back_right = jnp.pad(back[0], ((1, 0), (0, 0)))[:-1]
        back_below = jnp.pad(back[1], ((0, 0), (1, 0)))[:, :-1]
        return jnp.maximum(jnp.maximum(ways, jnp.max(forth, axis=0)), jnp.maximum(back_right, back_below))

    return jax.lax.fori_loop(0, columns * rows - 1, further, jnp.asarray(first))
