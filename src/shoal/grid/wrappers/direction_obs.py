"""Where the goal lies, seen from the agent."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from shoal.core.spaces import Box
from shoal.core.struct import is_concrete, static, struct
from shoal.grid.cells import is_a
from shoal.grid.level import GridState
from shoal.grid.wrappers.base import PartWrapper

BOUNDS = {"slope": np.inf, "angle": np.pi / 2, "angle_atan2": np.pi}


@struct
class DirectionObs(PartWrapper):
    """Adds `goal_direction`, a number that says where the first goal (row by row) lies, in grid coordinates.

    | kind        | value                                                                              |
    |-------------|------------------------------------------------------------------------------------|
    | slope       | dy / dx, plus or minus infinity above and below                                    |
    | angle       | atan(dy / dx) in radians: the same for opposite directions                         |
    | angle_atan2 | atan2(dy, dx) in radians, all directions apart                                     |

    It is 0 on the goal. Raises ValueError for another kind, and where the grid has no goal; compiled code cannot raise,
    and shows 0. Source: MiniGrid 3.2.0, `DirectionObsWrapper`, whose float64 is float32 here.
    """

    name: ClassVar[str] = "goal_direction"

    kind: str = static("slope", choices=tuple(BOUNDS))

    def __post_init__(self) -> None:
        if self.kind not in BOUNDS:
            raise ValueError(f"kind={self.kind!r} is unknown. Choose one of: {', '.join(BOUNDS)}.")

    @property
    def part_space(self) -> Box:
        """One number."""
        bound = np.float32(BOUNDS[self.kind])
        return Box(-bound, bound)

    def part(self, state: GridState, seen: dict[str, Any]) -> Float[Array, ""]:
        """The direction."""
        del seen
        rows = is_a(state.grid, "goal").T
        if is_concrete(rows) and not np.any(rows):
            raise ValueError(f"DirectionObs needs a goal, and the grid of {type(self.level).__name__} has none.")
        first = jnp.argmax(rows.reshape(-1)).astype(jnp.int32)
        width = rows.shape[1]
        dx, dy = (
            (goal - own).astype(jnp.float32) for goal, own in ((first % width, state.x), (first // width, state.y))
        )
        if self.kind == "angle_atan2":
            direction = jnp.arctan2(dy, dx)
        else:
            direction = jnp.where(dx == 0, jnp.copysign(jnp.inf, dy), dy / jnp.where(dx == 0, 1, dx))
            direction = jnp.arctan(direction) if self.kind == "angle" else direction
        return jnp.where(((dx == 0) & (dy == 0)) | ~jnp.any(rows), 0, direction)
