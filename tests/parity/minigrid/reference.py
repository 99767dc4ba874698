"""MiniGrid's environments as plain data: read packed cells from them, and put our layouts into them."""

import contextlib
import io
import warnings
from typing import Any, NamedTuple

import gymnasium
import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from minigrid.core.constants import OBJECT_TO_IDX
    from minigrid.core.grid import Grid
    from minigrid.core.world_object import Wall, WorldObj
    from minigrid.minigrid_env import MiniGridEnv

EMPTY, WALL = 1, 2 | 5 << 4


class ObjectAt(NamedTuple):
    """The very object that stands at a position: what a task that compares objects by identity needs."""

    x: int
    y: int


def make_reference(env_id: str, **kwargs: Any) -> MiniGridEnv:
    """MiniGrid's environment without Gymnasium's wrappers, reset once."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        env: Any = gymnasium.make(env_id, disable_env_checker=True, **kwargs).unwrapped
        env.reset(seed=0)
    return env


def pack(thing: WorldObj | None) -> int:
    """An object of MiniGrid's as one of our cells."""
    if thing is None:
        return EMPTY
    if type(thing) is Wall and thing.color == "grey":
        return WALL
    kind, color, state = thing.encode()
    packed = kind | color << 4 | state << 7
    return packed if thing.contains is None else packed | (pack(thing.contains) & 0x7F) << 9


def unpack(cell: int) -> WorldObj | None:
    """One of our cells as a new object of MiniGrid's."""
    cell = int(cell)
    thing = WorldObj.decode(cell & 15, cell >> 4 & 7, cell >> 7 & 3)
    if thing is not None and cell >> 9:
        thing.contains = WorldObj.decode(cell >> 9 & 15, cell >> 13, 0)
    return thing


def packed_grid(env: MiniGridEnv) -> np.ndarray:
    """The whole grid as our cells [x, y]."""
    cells = [EMPTY if thing is None else pack(thing) for thing in env.grid.grid]  # row by row
    return np.array(cells, np.uint16).reshape(env.height, env.width).T


def position_of(env: MiniGridEnv, thing: WorldObj) -> tuple[int, int]:
    """Where in the grid the very object is. Raises ValueError where it is not."""
    y, x = divmod(next(i for i, other in enumerate(env.grid.grid) if other is thing), env.width)
    return x, y


def find(env: MiniGridEnv, kind: str, color: str | None = None, *, locked: bool | None = None) -> tuple[int, int]:
    """Position of the first object of a kind (and color, and lock). Raises ValueError where there is none."""
    for i, thing in enumerate(env.grid.grid):
        if (
            thing is not None
            and thing.type == kind
            and color in (None, thing.color)
            and (locked is None or getattr(thing, "is_locked", False) == locked)
        ):
            return i % env.width, i // env.width
    raise ValueError(f"no {color or ''} {kind} in the grid")


def front(env: MiniGridEnv) -> WorldObj | None:
    """What is in front of the agent."""
    return env.grid.get(*env.front_pos)


def inject(
    env: MiniGridEnv,
    grid: np.ndarray,
    agent: tuple[int, int, int],
    *,
    mission: str,
    task: dict[str, Any],
    max_steps: int,
    carrying: int = EMPTY,
    time: int = 0,
) -> None:
    """Put a layout of ours into an environment that was reset before. `agent` is (x, y, direction).

    `task` are attributes to set; an `ObjectAt` in it (or in a list in it) becomes the object that stands there.
    """
    env.grid = Grid(*grid.shape)
    for (x, y), cell in np.ndenumerate(grid):
        thing = unpack(cell)
        env.grid.set(x, y, thing)
        if thing is not None:
            thing.init_pos = thing.cur_pos = (x, y)
    env.agent_pos, env.agent_dir = (int(agent[0]), int(agent[1])), int(agent[2])
    env.carrying = unpack(carrying)
    env.mission, env.max_steps, env.step_count = mission, int(max_steps), int(time)
    for name, value in task.items():
        assert hasattr(env, name), f"{type(env).__name__} has no {name}"
        setattr(env, name, _found(env, value))


def _found(env: MiniGridEnv, value: Any) -> Any:
    if isinstance(value, ObjectAt):
        return env.grid.get(*value)
    return [_found(env, each) for each in value] if isinstance(value, list) else value


assert OBJECT_TO_IDX["empty"] == EMPTY and pack(Wall()) == WALL
