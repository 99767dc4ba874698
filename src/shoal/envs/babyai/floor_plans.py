"""The base classes of BabyAI's levels by their rooms: one room, two rooms, nine rooms, or any number of them."""

from typing import ClassVar

from shoal.core.struct import static, struct
from shoal.envs.babyai.level import BabyLevel
from shoal.grid.rooms import Rooms

# Cells that are not available in the room of an agent that was placed before: its own, and those next to it.
AROUND_CORNER, AROUND_AGENT = 3, 5


@struct
class OneRoom(BabyLevel):
    """A level in one room."""

    room_size: int = static(8, help="side of the room in cells, walls included: at least 4")

    def __post_init__(self) -> None:
        check_room_size(self.room_size)

    @property
    def rooms(self) -> Rooms:
        """The only room."""
        return Rooms(columns=1, rows=1, size=self.room_size)


@struct
class TwoRooms(BabyLevel):
    """A level in two rooms side by side."""

    reset_every: ClassVar[int] = 64

    room_size: int = static(6, help="side of a room in cells, walls included: at least 4")

    def __post_init__(self) -> None:
        check_room_size(self.room_size)

    @property
    def rooms(self) -> Rooms:
        """The left room (0, 0) and the right room (1, 0)."""
        return Rooms(columns=2, rows=1, size=self.room_size)


@struct
class NineRooms(BabyLevel):
    """A level in 3 x 3 rooms, of which the middle one has a role of its own."""

    reset_every: ClassVar[int] = 64
    middle: ClassVar[tuple[int, int]] = (1, 1)

    room_size: int = static(8, help="side of a room in cells, walls included: at least 4")

    def __post_init__(self) -> None:
        check_room_size(self.room_size)

    @property
    def rooms(self) -> Rooms:
        """Three columns and three rows."""
        return Rooms(columns=3, rows=3, size=self.room_size)


@struct
class Maze(BabyLevel):
    """A level in any number of rooms, which random doors connect."""

    room_size: int = static(8, help="side of a room in cells, walls included: at least 4")
    num_rows: int = static(3, help="number of rooms from top to bottom")
    num_cols: int = static(3, help="number of rooms from left to right")

    def __post_init__(self) -> None:
        check_room_size(self.room_size)
        for name in ("num_rows", "num_cols"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} leaves no room: at least 1.")

    @property
    def most_around_agent(self) -> int:
        """Not more things fit beside an agent that was placed before them and can go beside each one."""
        rooms = self.num_rows * self.num_cols
        return most_within_reach(self.room_size) if rooms == 1 else rooms * (self.room_size - 2) ** 2 - AROUND_CORNER

    @property
    def rooms(self) -> Rooms:
        """`num_cols` columns and `num_rows` rows."""
        return Rooms(columns=self.num_cols, rows=self.num_rows, size=self.room_size)


def check_room_size(size: int, smallest: int = 4) -> None:
    """Raise ValueError for rooms without a cell for the agent and one for something else."""
    if size < smallest:
        raise ValueError(f"room_size={size} leaves too few cells between the walls: at least {smallest}.")


def most_within_reach(room_size: int) -> int:
    """Not more things fit into a single room if an agent that was placed before them can go beside each one.

    Up to room_size 6 the number is exact; for larger rooms it is a bound, and most attempts near it are rejected: f
    connected free cells have at most 2 f + 2 neighbors, and things and free cells share the room.
    """
    exact = {4: 1, 5: 4, 6: 8}
    return exact.get(room_size, (2 * (room_size - 2) ** 2 + 2) // 3)


def check_count(name: str, count: int, fewest: int, most: int, where: str) -> None:
    """Raise ValueError for a number of things that the level cannot hold, or that its mission cannot do with."""
    if fewest > most:
        raise ValueError(f"{name}={count} is impossible {where}: the rooms are too small.")
    if not fewest <= count <= most:
        raise ValueError(f"{name}={count} is impossible {where}: from {fewest} to {most}.")


def check_several_rooms(columns: int, rows: int) -> None:
    """Raise ValueError for a single room, which has no wall for a locked door."""
    if columns * rows < 2:
        raise ValueError(
            f"num_rows={rows} with num_cols={columns} leave no wall for the locked door: at least 2 rooms."
        )
