"""MultiRoom: walk through a chain of rooms to the goal in the last one.

Source: MiniGrid 3.2.0 `envs/multiroom.py`, step for step.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt16

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.grid.actions import cell_mask
from shoal.grid.cells import COLORS, EMPTY, GOAL, WALL, cell, with_color
from shoal.grid.layout import choose, place, rectangle
from shoal.grid.level import GridState, Level, begin
from shoal.grid.retry import retry

SMALLEST = 4  # side of the smallest room in cells, walls included
PROPOSALS = 8  # proposals for the next room that may fail before the chain starts again
# The largest fraction of the grid that rooms of the average size may cover. Measured: at 0.73 no chain is found in
# 16,384 proposals, at 0.6 one is found mostly; MiniGrid's ids have 0.03 to 0.35.
MOST_COVERED = 2 / 3
RIGHT, DOWN, LEFT, UP = range(4)


class Room(NamedTuple):
    """A rectangle, walls included, and the door that leads into it from the room before."""

    x: Int[Array, "..."]
    y: Int[Array, "..."]
    width: Int[Array, "..."]
    height: Int[Array, "..."]
    door_x: Int[Array, "..."]
    door_y: Int[Array, "..."]
    entry: Int[Array, "..."]  # the wall of the room with that door: RIGHT, DOWN, LEFT or UP


@env("MiniGrid-MultiRoom-N2-S4-v0", min_rooms=2, max_rooms=2, max_room_size=4)
@env("MiniGrid-MultiRoom-N4-S5-v0", min_rooms=6, max_rooms=6, max_room_size=5)
@env("MiniGrid-MultiRoom-N4-S5-v1", min_rooms=4, max_rooms=4, max_room_size=5)
@env("MiniGrid-MultiRoom-N6-v0", min_rooms=6, max_rooms=6, max_room_size=10)
@struct
class MultiRoom(Level):
    """Walk through a chain of rooms to the goal in the last one, and open the doors between them.

    Start: the rooms have random sizes and positions. The doors are closed, and each has another color than the one
    before. The agent is in a random cell of the first room. Cells outside of all rooms are empty. `N4-S5-v0` has six
    rooms in spite of its name, as in MiniGrid.
    Time limit: 20 max_rooms steps. Actions, observation, reward and end: see `Level`.

    Difference from MiniGrid: MiniGrid samples until it finds a chain of rooms. Here, after 16,384 proposals without
    success, the level is a row of the smallest rooms; this happens in crowded grids only. Sizes for which a chain is
    found never or almost never are rejected when the environment is made.
    """

    reset_every: ClassVar[int] = 128
    task: ClassVar[str] = "traverse the rooms to get to the goal"

    min_rooms: int = static(6, help="smallest number of rooms of a level")
    max_rooms: int = static(6, help="largest number of rooms of a level")
    max_room_size: int = static(10, help="side of the largest room in cells, walls included: at least 4")
    width: int = static(25, help="cells from left to right")
    height: int = static(25, help="cells from top to bottom")

    def __post_init__(self) -> None:
        if not 1 <= self.min_rooms <= self.max_rooms:
            raise ValueError(f"min_rooms={self.min_rooms} must be at least 1, and at most max_rooms={self.max_rooms}.")
        if self.max_room_size < SMALLEST:
            raise ValueError(f"max_room_size={self.max_room_size} is smaller than the smallest room: at least 4.")
        # Rooms in a row share walls, and no room may reach the lowest row of the grid.
        row = self.max_rooms * (SMALLEST - 1) + 1
        fits_down = self.height > row and self.width >= SMALLEST
        if not (self._fits_across or fits_down):
            raise ValueError(
                f"max_rooms={self.max_rooms} in a row need {row} x {SMALLEST + 1} cells (or {SMALLEST} x {row + 1}), "
                f"which width={self.width} and height={self.height} do not have."
            )
        most = min(self.width, self.height - 1)
        if self.max_room_size > most:
            raise ValueError(
                f"max_room_size={self.max_room_size} does not fit into width={self.width} and height={self.height}, "
                f"whose lowest row stays free: at most {most}."
            )
        covered = self.max_rooms * ((SMALLEST + self.max_room_size) / 2 - 1) ** 2 / (self.width * self.height)
        if covered > MOST_COVERED:
            raise ValueError(
                f"max_rooms={self.max_rooms} of the average size would cover {covered:.0%} of {self.width} x "
                f"{self.height} cells; above two thirds chains are hardly ever found. Take fewer or smaller rooms."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """(width, height)."""
        return self.width, self.height

    @property
    def time_limit(self) -> int:
        """20 max_rooms steps."""
        return 20 * self.max_rooms

    def init(self, key: Key) -> GridState:
        """Sample rooms, doors, agent and goal, in MiniGrid's order."""
        k_count, k_rooms, k_color, k_agent, k_direction, k_goal = jax.random.split(key, 6)
        count = jax.random.randint(k_count, (), self.min_rooms, self.max_rooms + 1, jnp.int32)
        rooms = self._chain(k_rooms, count)
        grid = self._grid_of(k_color, rooms, count)
        x, y = choose(k_agent, (grid == EMPTY) & self._inside(rooms, 0))
        grid, _, _ = place(k_goal, grid, GOAL, self._inside(rooms, count - 1) & ~cell_mask(self.shape, x, y))
        return GridState(**begin(grid, x, y, jax.random.randint(k_direction, (), 0, 4)))

    def _chain(self, key: Key, count: Int[Array, ""]) -> Room:
        """Sample a chain of rooms [max_rooms], of which the first `count` are used.

        Each room is proposed at a random position along a random wall of the room before. If eight proposals in a row
        do not fit, or the first room does not, the chain starts again. If that takes too long, the rooms form a row.
        """

        def draw(key):
            return jax.random.uniform(key, (5,))

        def propose(noise, chain):
            count, rooms, placed, failures = chain
            room = self._proposal(noise, _last(rooms, placed), placed == 0)
            fits = self._is_inside_grid(room) & ~_overlaps(Room(*rooms), room, placed)
            is_next = np.arange(self.max_rooms, dtype=np.int32) == placed
            rooms = jnp.where((fits & is_next)[None], jnp.stack(room)[:, None], rooms)
            failures = jnp.where(fits, 0, failures + 1)
            gives_up = ~fits & ((placed == 0) | (failures == PROPOSALS))
            placed = jnp.where(gives_up, 0, placed + fits.astype(jnp.int32))
            return count, rooms, placed, jnp.where(gives_up, 0, failures)

        def is_done(chain):
            count, _, placed, _ = chain
            return placed == count

        # All fields are in one array: with one array for each, XLA would compute a room again for each of them.
        rooms = jnp.zeros((len(Room._fields), self.max_rooms), jnp.int32)
        zero = jnp.int32(0)
        in_a_row = (count, jnp.stack(self._row()), count, zero)
        _, rooms, _, _ = retry(key, draw, propose, is_done, (count, rooms, zero, zero), in_a_row)
        return Room(*rooms)

    def _row(self) -> Room:
        """The smallest rooms in a row, from the upper left corner to the right, or down if they do not fit."""
        along = jnp.arange(self.max_rooms, dtype=jnp.int32) * (SMALLEST - 1)
        size, zero, one = (jnp.full_like(along, number) for number in (SMALLEST, 0, 1))
        if self._fits_across:
            return Room(along, zero, size, size, along, one, zero + LEFT)
        return Room(zero, along, size, size, one, along, zero + UP)

    @property
    def _fits_across(self) -> bool:
        return self.width > self.max_rooms * (SMALLEST - 1) and self.height > SMALLEST

    def _proposal(self, noise: Float[Array, "5"], last: Room, is_first: Bool[Array, ""]) -> Room:
        """A room behind a new door in a random wall of the last room, except the wall of its entry.

        The first room is at a random position.
        """
        size = SMALLEST + _below(noise[:2], jnp.int32(self.max_room_size - SMALLEST + 1))
        width, height = size[0], size[1]
        wall = _below(noise[2], jnp.int32(3))
        wall = wall + (wall >= last.entry).astype(jnp.int32)
        along_x, along_y = 1 + _below(noise[3], last.width - 2), 1 + _below(noise[3], last.height - 2)
        is_side = (wall == RIGHT) | (wall == LEFT)
        door_x = last.x + jnp.where(is_side, jnp.where(wall == RIGHT, last.width - 1, 0), along_x)
        door_y = last.y + jnp.where(is_side, along_y, jnp.where(wall == DOWN, last.height - 1, 0))
        # The new room is behind the door, at a random position of the room's wall, corners excluded.
        back_x, back_y = 1 + _below(noise[4], width - 2), 1 + _below(noise[4], height - 2)
        x = door_x - jnp.where(is_side, jnp.where(wall == LEFT, width - 1, 0), back_x)
        y = door_y - jnp.where(is_side, back_y, jnp.where(wall == UP, height - 1, 0))
        # MiniGrid samples the row of the first room from the width, too.
        free_x, free_y = _below(noise[3], jnp.int32(self.width - 2)), _below(noise[4], jnp.int32(self.width - 2))
        behind = Room(x, y, width, height, door_x, door_y, (wall + 2) % 4)
        first = Room(free_x, free_y, width, height, free_x, free_y, jnp.int32(LEFT))
        return jax.tree.map(lambda a, b: jnp.where(is_first, a, b), first, behind)

    def _is_inside_grid(self, room: Room) -> Bool[Array, ""]:
        # A room may touch the right edge of the grid, but not the lower edge.
        across = (room.x >= 0) & (room.x + room.width <= self.width)
        return across & (room.y >= 0) & (room.y + room.height < self.height)

    def _grid_of(self, key: Key, rooms: Room, count: Int[Array, ""]) -> UInt16[Array, "W H"]:
        """The grid with the walls and doors of the first `count` rooms."""
        k_first, k_others = jax.random.split(key)
        first = jax.random.randint(k_first, (), 0, len(COLORS))
        others = jax.random.randint(k_others, (self.max_rooms,), 1, len(COLORS))
        doors = jnp.asarray(with_color(cell("door", state="closed"), (first + jnp.cumsum(others)) % len(COLORS)))

        def add_room(i, grid):
            room = jax.tree.map(lambda field: field[i], rooms)
            outline = rectangle(self.shape, room.x, room.y, room.width, room.height) & ~self._inside(rooms, i)
            grid = jnp.where(outline, WALL, grid)
            return jnp.where(cell_mask(self.shape, room.door_x, room.door_y) & (i > 0), doors[i], grid)

        return jax.lax.fori_loop(0, count, add_room, jnp.full(self.shape, EMPTY, jnp.uint16))

    def _inside(self, rooms: Room, number: Int[Array, ""] | int) -> Bool[Array, "W H"]:
        room = jax.tree.map(lambda field: field[number], rooms)
        return rectangle(self.shape, room.x + 1, room.y + 1, room.width - 2, room.height - 2)


def _below(uniform: Float[Array, "*n"], count: Int[Array, ""]) -> Int[Array, "*n"]:
    """An integer from 0 to `count` - 1, from a number in [0, 1)."""
    return (uniform * count.astype(jnp.float32)).astype(jnp.int32)


def _last(rooms: Int[Array, "fields N"], placed: Int[Array, ""]) -> Room:
    """The room that was placed last."""
    is_last = np.arange(rooms.shape[1], dtype=np.int32) == placed - 1
    return Room(*jnp.sum(jnp.where(is_last[None], rooms, 0), axis=1, dtype=jnp.int32))


def _overlaps(rooms: Room, new: Room, placed: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether the new room overlaps one of the placed rooms, except the last one, with which it shares a wall.

    As in MiniGrid, it may touch a room on its left or above, but not one on its right or below.
    """
    apart = (new.x + new.width < rooms.x) | (rooms.x + rooms.width <= new.x)
    apart = apart | (new.y + new.height < rooms.y) | (rooms.y + rooms.height <= new.y)
    return jnp.any(~apart & (np.arange(rooms.x.shape[0], dtype=np.int32) < placed - 1))
