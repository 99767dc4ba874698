"""GoToObject: go to the object that the mission names, and choose the action "done" beside it.

Source: MiniGrid 3.2.0 `envs/gotoobject.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt8

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.go_to_door import GoTo, GoToState
from shoal.envs.minigrid.things import check_room, different_things
from shoal.grid.cells import EMPTY
from shoal.grid.layout import choose, empty_room, place_each
from shoal.grid.level import begin
from shoal.grid.words import fill, look_words


@env("MiniGrid-GoToObject-6x6-N2-v0", size=6, num_objects=2)
@env("MiniGrid-GoToObject-8x8-N2-v0", size=8, num_objects=2)
@struct
class GoToObject(GoTo):
    """Among different keys, balls and boxes, choose "done" beside the one that the mission names.

    Start: objects and agent are in random cells.
    Reward: success for "done" in one of the four cells next to the target's position at the start, even if the target
    was moved since.
    End: terminated by "done" and by "toggle". Time limit: 5 size^2 steps. The rest: see `Level`.
    """

    task: ClassVar[str] = "go to the {} {}"

    size: int = static(6, help="side of the grid in cells, walls included")
    num_objects: int = static(
        2, help="number of keys, balls and boxes: at most 18, and less than the number of cells between the walls"
    )

    def __post_init__(self) -> None:
        check_room(self.size, self.num_objects, alike=False)

    @property
    def time_limit(self) -> int:
        """5 size^2 steps."""
        return 5 * self.size**2

    def init(self, key: Key) -> GoToState:
        """Sample the objects, the agent and the target, in MiniGrid's order."""
        k_things, k_positions, k_agent, k_direction, k_target = jax.random.split(key, 5)
        things = different_things(k_things, self.num_objects)
        grid, thing_x, thing_y = place_each(k_positions, jnp.asarray(empty_room(*self.shape)), things)
        x, y = choose(k_agent, grid == EMPTY)
        target = jax.random.randint(k_target, (), 0, self.num_objects)
        return GoToState(
            **begin(grid, x, y, jax.random.randint(k_direction, (), 0, 4)),
            target=things[target],
            target_x=thing_x[target],
            target_y=thing_y[target],
        )

    def mission(self, state: GoToState) -> UInt8[Array, "L"]:
        """Names the target's color and kind."""
        return fill(self.task, *look_words(state.target))
