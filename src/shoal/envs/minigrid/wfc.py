"""WFC: find the goal between walls that imitate an example picture (wave function collapse).

Source: MiniGrid 3.2.0 `envs/wfc/wfcenv.py`, step for step.
"""

import functools
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from shoal.core.errors import did_you_mean
from shoal.core.keys import Key, make_key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.wave_function import WRAPS, draw_walls, largest_component
from shoal.grid.actions import cell_mask
from shoal.grid.cells import EMPTY, GOAL, WALL
from shoal.grid.layout import choose
from shoal.grid.level import GridState, SquareLevel, begin

SMALLEST = 5  # smaller grids have cells that are each other's neighbors in two directions
POOL_BATCH = 256  # layouts of a pool that are drawn at a time


@struct
class WFCState(GridState):
    """A grid, the agent in it, and whether no walls could be drawn for it."""

    fallback: Bool[Array, ""]


@env("MiniGrid-WFC-MazeSimple-v0")
@env("MiniGrid-WFC-DungeonMazeScaled-v0", example="DungeonMazeScaled")
@env("MiniGrid-WFC-RoomsFabric-v0", example="RoomsFabric")
@env("MiniGrid-WFC-ObstaclesBlackdots-v0", example="ObstaclesBlackdots")
@env("MiniGrid-WFC-ObstaclesAngular-v0", example="ObstaclesAngular")
@env("MiniGrid-WFC-ObstaclesHogs3-v0", example="ObstaclesHogs3")
@struct
class WFC(SquareLevel):
    """Reach the goal between walls that imitate an example picture.

    Start: wave function collapse draws the walls. With `ensure_connected`, only the largest set of cells that hang
    together stays free. Goal and agent are in two random free cells; the agent's direction is random.
    Time limit: 20 size steps. Actions, observation, reward and end: see `Level`.
    Info: `fallback`, whether this level is an empty room because no walls could be drawn.

    To draw walls takes much longer than the steps of an episode: 3 to 15 ms of a CPU for each level. `pool=1000` draws
    1,000 layouts once, at the first use, with the same generator and the same key in every run. Each episode takes one
    of them at random, with new places for agent and goal. This is as fast as a level without a generator, but walls
    other than those of the pool never occur, so it is not MiniGrid's distribution. The default, 0, draws new walls for
    each episode.

    Differences from MiniGrid: it raises an error if 1,000 attempts fail, or if no two free cells hang together. Here
    the level is then an empty room. In the registered levels neither is ever to be expected: an attempt fails with
    a probability of about 0.001 (RoomsFabric) or less, and 15 attempts are made.
    """

    reset_every: ClassVar[int] = 256
    grid_changes: ClassVar[bool] = False
    task: ClassVar[str] = "traverse the maze to get to the goal"

    example: str = static(
        "MazeSimple",
        choices=tuple(WRAPS),
        help="the picture that the walls imitate, under MiniGrid's name (`wfc_config`)",
    )
    size: int = static(25, help="side of the grid in cells, walls included: at least 5")
    ensure_connected: bool = static(
        True, choices=(False, True), help="whether all free cells that do not belong to the largest set become walls"
    )
    pool: int = static(
        0, help="0: new walls in each episode, as in MiniGrid; else the walls of one of so many layouts, drawn once"
    )

    def __post_init__(self) -> None:
        if self.example not in WRAPS:
            raise ValueError(
                f"example={self.example!r} is unknown.{did_you_mean(self.example, WRAPS)} Choose one of "
                f"{', '.join(WRAPS)}."
            )
        if self.size < SMALLEST:
            raise ValueError(f"size={self.size} leaves too few cells between the outer walls: at least {SMALLEST}.")
        if self.pool < 0:
            raise ValueError(f"pool={self.pool}: write how many layouts to draw, or 0 to draw each level anew.")

    @property
    def time_limit(self) -> int:
        """20 size steps."""
        return 20 * self.size

    def init(self, key: Key) -> WFCState:
        """Draw the walls, or take those of a layout of the pool; then place agent and goal."""
        k_layout, k_agent, k_goal, k_direction = jax.random.split(key, 4)
        if self.pool:
            free, fallback = self._from_pool(k_layout)
        else:
            free, fallback = self._layout(k_layout)
        free = jnp.pad(free, 1)
        x, y = choose(k_agent, free)
        goal = choose(k_goal, free & ~cell_mask(self.shape, x, y))
        grid = jnp.where(free, EMPTY, WALL)
        grid = jnp.where(cell_mask(self.shape, *goal), GOAL, grid)
        start = begin(grid, x, y, jax.random.randint(k_direction, (), 0, 4))
        return WFCState(**start, fallback=fallback)

    def advance_task(self, before: Any, after: WFCState, action: Int[Array, ""]) -> tuple:
        """The goal decides alone; info says whether the level is a fallback."""
        return *super().advance_task(before, after, action)[:3], {"fallback": after.fallback}

    def _layout(self, key: Key) -> tuple[Bool[Array, "S S"], Bool[Array, ""]]:
        """(The free cells inside the outer walls, whether there are no other walls because none could be drawn.)"""
        walls, failed = draw_walls(key, self.example, self.size - 2)
        free = largest_component(~walls) if self.ensure_connected else ~walls
        failed |= jnp.sum(free) < 2
        return free | failed, failed

    def _from_pool(self, key: Key) -> tuple[Bool[Array, "S S"], Bool[Array, ""]]:
        layouts = _pool(self.example, self.size, self.ensure_connected, self.pool)
        number = jax.random.randint(key, (), 0, self.pool)
        column = np.arange(self.size - 2, dtype=np.int32)
        free = jnp.asarray(layouts.free)[number][:, column // 8] >> (column % 8).astype(np.uint8)[None] & 1
        return free != 0, jnp.asarray(layouts.failed)[number]


class _Layouts(NamedTuple):
    """N layouts without agent and goal, on the host."""

    free: UInt8[np.ndarray, "N S B"]  # one bit for each cell inside the outer walls
    failed: Bool[np.ndarray, "N"]


@functools.cache
def _pool(example: str, size: int, ensure_connected: bool, count: int) -> _Layouts:
    """The pool of `count` layouts, drawn at the first call. This runs while programs are traced, too."""
    level = WFC(example=example, size=size, ensure_connected=ensure_connected)
    batches = -(-count // POOL_BATCH)
    with jax.ensure_compile_time_eval():
        keys = jax.random.split(make_key(0), (batches, min(count, POOL_BATCH)))
        draw = jax.jit(jax.vmap(level._layout))
        drawn = [draw(some) for some in keys]
    free, failed = (np.concatenate(parts)[:count] for parts in zip(*drawn, strict=True))
    return _Layouts(np.packbits(free, axis=-1, bitorder="little"), failed)
