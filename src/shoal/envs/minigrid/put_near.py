"""PutNear: pick up one object and put it near another one.

Source: MiniGrid 3.2.0 `envs/putnear.py`, step for step.
"""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt8, UInt16

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.things import MOST_THINGS, different_things
from shoal.grid.actions import DROP
from shoal.grid.cells import EMPTY
from shoal.grid.layout import choose, empty_room, place_each
from shoal.grid.level import GridState, Judgement, SquareLevel, begin, in_front
from shoal.grid.words import fill, look_words


@struct
class PutNearState(GridState):
    """A room, the object to move, and the object to put it near to."""

    moved: UInt16[Array, ""]  # the object to move, as a cell
    target: UInt16[Array, ""]  # the object to put it near to, as a cell
    target_x: Int[Array, ""]  # position of the target at the start, which does not change when the target is moved
    target_y: Int[Array, ""]


@env("MiniGrid-PutNear-6x6-N2-v0", size=6, num_objects=2)
@env("MiniGrid-PutNear-8x8-N3-v0", size=8, num_objects=3)
@struct
class PutNear(SquareLevel):
    """Among different keys, balls and boxes, pick up the one that the mission names and drop it near another one.

    Start: objects and agent are in random cells; no two objects are near each other.
    Reward: success if the object is dropped in one of the eight cells around the other object's position at the start.
    End: terminated when the agent picks up a wrong object, or drops (or tries to drop) an object. Time limit: 5 size
    steps, not 5 size^2. The rest: see `Level`.
    """

    reset_every: ClassVar[int] = 16
    task: ClassVar[str] = "put the {} {} near the {} {}"

    see_through_walls: bool = static(True, choices=(False, True), help="whether the agent sees the cells behind walls")
    size: int = static(6, help="side of the grid in cells, walls included: at least 6")
    num_objects: int = static(2, help="number of keys, balls and boxes")

    def __post_init__(self) -> None:
        # An object excludes at most one of the cells whose columns and rows are three apart, so one is left for each.
        most = min(MOST_THINGS, math.ceil((self.size - 2) / 3) ** 2)
        if most < 2:
            raise ValueError(f"size={self.size} may leave no place for two things apart from each other: at least 6.")
        if not 2 <= self.num_objects <= most:
            raise ValueError(
                f"num_objects={self.num_objects} with size={self.size}: from 2 to {most} always find places apart from "
                "each other."
            )

    @property
    def time_limit(self) -> int:
        """5 size steps."""
        return 5 * self.size

    def init(self, key: Key) -> PutNearState:
        """Sample the objects, the agent, and which two objects the mission names, in MiniGrid's order."""
        k_things, k_positions, k_agent, k_direction, k_moved, k_target = jax.random.split(key, 6)
        things = different_things(k_things, self.num_objects)
        grid, thing_x, thing_y = place_each(k_positions, jnp.asarray(empty_room(*self.shape)), things, apart=1)
        x, y = choose(k_agent, grid == EMPTY)
        moved = jax.random.randint(k_moved, (), 0, self.num_objects)
        target = (moved + jax.random.randint(k_target, (), 1, self.num_objects)) % self.num_objects
        return PutNearState(
            **begin(grid, x, y, jax.random.randint(k_direction, (), 0, 4)),
            moved=things[moved],
            target=things[target],
            target_x=thing_x[target],
            target_y=thing_y[target],
        )

    def judge(self, before: PutNearState, after: PutNearState, action: Int[Array, ""]) -> Judgement:
        """Carrying a wrong object ends the episode; so does a drop, with success if the object is near the target."""
        is_wrong = (after.carrying != EMPTY) & (after.carrying != after.moved)
        drops = (action == DROP) & (before.carrying != EMPTY)
        x, y = in_front(after)
        is_near = (jnp.abs(x - after.target_x) <= 1) & (jnp.abs(y - after.target_y) <= 1)
        succeeds = drops & (after.carrying == EMPTY) & is_near
        return jnp.where(succeeds, self.success(after), 0), is_wrong | drops

    def mission(self, state: PutNearState) -> UInt8[Array, "L"]:
        """Names the color and kind of both objects."""
        return fill(self.task, *look_words(state.moved), *look_words(state.target))
