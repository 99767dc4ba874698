"""LockedRoom: six rooms along a hallway. One is locked, and its key is in another room, which the mission names.

Source: MiniGrid 3.2.0 `envs/lockedroom.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt8, UInt16

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.grid.actions import cell_mask
from shoal.grid.cells import CLOSED, COLORS, DOOR, EMPTY, GOAL, KEY, LOCKED, with_color, with_state
from shoal.grid.layout import choose, empty_room, place, rectangle, walled
from shoal.grid.level import GridState, SquareLevel, begin
from shoal.grid.words import color_word, fill

ROOMS = 6  # as many as there are colors


@struct
class LockedRoomState(GridState):
    """A grid, and the colors that the mission names."""

    key_color: Int[Array, ""]  # the color of the key and of the locked door
    room_color: Int[Array, ""]  # the color of the door of the room with the key


@env("MiniGrid-LockedRoom-v0")
@struct
class LockedRoom(SquareLevel):
    """Fetch the key from the room with the named door, unlock the door of the key's color, and walk to the goal.

    Start: the agent is in a random cell of the hallway; every door has another color.
    Time limit: 10 size steps. Actions, observation, reward and end: see `Level`.
    """

    reset_every: ClassVar[int] = 128
    task: ClassVar[str] = "get the {} key from the {} room, unlock the {} door and go to the goal"

    size: int = static(19, help="side of the grid in cells, walls included: 13, 19, 25, ...")

    def __post_init__(self) -> None:
        if self.size < 13 or self.size % 6 != 1:
            raise ValueError(f"size={self.size} does not divide into six equal rooms: 13, 19, 25, and so on do.")

    @property
    def time_limit(self) -> int:
        """10 size steps, which is too short to visit every room."""
        return 10 * self.size

    def mission(self, state: LockedRoomState) -> UInt8[Array, "L"]:
        """Names the color of the key, of its room, and of the door that it opens."""
        key, room = color_word(state.key_color), color_word(state.room_color)
        return fill(self.task, key, room, key)

    def init(self, key: Key) -> LockedRoomState:
        """Sample goal, doors, key and agent, in MiniGrid's order."""
        k_locked, k_goal, k_colors, k_room, k_key, k_agent, k_direction = jax.random.split(key, 7)
        locked = jax.random.randint(k_locked, (), 0, ROOMS)
        grid, _, _ = place(k_goal, jnp.asarray(self._walls()), GOAL, self._inside(locked))
        color = jax.random.permutation(k_colors, np.arange(len(COLORS), dtype=np.int32))
        grid = self._with_doors(grid, color, locked)
        with_key = (locked + jax.random.randint(k_room, (), 1, ROOMS)) % ROOMS
        grid, _, _ = place(k_key, grid, with_color(KEY, color[locked]), self._inside(with_key))
        x, y = choose(k_agent, (grid == EMPTY) & self._hallway())
        start = begin(grid, x, y, jax.random.randint(k_direction, (), 0, 4))
        return LockedRoomState(**start, key_color=color[locked], room_color=color[with_key])

    # Rooms are numbered from left to right and from top to bottom. The hallway between the columns is 3 cells wide.

    def _walls(self) -> UInt16[np.ndarray, "W H"]:
        grid = empty_room(*self.shape)
        for room in range(ROOMS):
            left, top = self._corner(room)
            grid = walled(grid, int(left), int(top), self.size // 2 - 1, self.size // 3 + 1)
        return grid

    def _with_doors(
        self, grid: UInt16[Array, "W H"], color: Int[Array, "6"], locked: Int[Array, ""]
    ) -> UInt16[Array, "W H"]:
        doors = jnp.asarray(with_state(with_color(DOOR, color), jnp.where(np.arange(ROOMS) == locked, LOCKED, CLOSED)))
        for room in range(ROOMS):
            x = self.size // 2 + (2 if room % 2 else -2)
            grid = jnp.where(cell_mask(self.shape, x, self._corner(room)[1] + 3), doors[room], grid)
        return grid

    def _inside(self, room: Int[Array, ""]) -> Array:
        left, top = self._corner(room)
        return rectangle(self.shape, left + 1, top + 1, self.size // 2 - 3, self.size // 3 - 1)

    def _hallway(self) -> Array:
        return rectangle(self.shape, self.size // 2 - 1, 0, 3, self.size)

    def _corner(self, room: Int[Array, ""] | int) -> tuple[Int[Array, ""] | int, Int[Array, ""] | int]:
        return room % 2 * (self.size // 2 + 2), room // 2 * (self.size // 3)
