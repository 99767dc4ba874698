"""`DirectionObs`: the direction from the agent to the goal."""

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
    """Adds `goal_direction`, the direction to the goal, as one number in grid coordinates (y grows downwards).

    | kind        | value                                                                              |
    |-------------|------------------------------------------------------------------------------------|
    | slope       | dy / dx; infinity straight below the agent, minus infinity straight above          |
    | angle       | atan(dy / dx) in radians: the same number for opposite directions                  |
    | angle_atan2 | atan2(dy, dx) in radians: a different number for every direction                   |

    It is 0 on the goal. If there are several goals, it is that of the first one, row by row. Raises ValueError for an
    unknown kind, and for a grid without a goal; compiled code cannot raise an error and returns 0.
    Source: MiniGrid 3.2.0, `DirectionObsWrapper`, whose float64 is float32 here.
    """

    name: ClassVar[str] = "goal_direction"

    kind: str = static("slope", choices=tuple(BOUNDS))

    def __post_init__(self) -> None:
        if self.kind not in BOUNDS:
            raise ValueError(f"kind={self.kind!r} is unknown. Choose one of: {', '.join(BOUNDS)}.")

    @property
    def part_space(self) -> Box:
        """One float32."""
        bound = np.float32(BOUNDS[self.kind])
        return Box(-bound, bound)

    def part(self, state: GridState, inner_obs: dict[str, Any]) -> Float[Array, ""]:
        """The direction to the goal."""
        del inner_obs
        rows = is_a(state.grid, "goal").T
        if is_concrete(rows) and not np.any(rows):
            raise ValueError(f"DirectionObs needs a goal, and the grid of {type(self.level).__name__} has none.")
        first = jnp.argmax(rows.reshape(-1)).astype(jnp.int32)
        width = rows.shape[1]
        dx, dy = (
            (goal - agent).astype(jnp.float32) for goal, agent in ((first % width, state.x), (first // width, state.y))
        )
        if self.kind == "angle_atan2":
            direction = jnp.arctan2(dy, dx)
        else:
            direction = jnp.where(dx == 0, jnp.copysign(jnp.inf, dy), dy / jnp.where(dx == 0, 1, dx))
            direction = jnp.arctan(direction) if self.kind == "angle" else direction
        return jnp.where(((dx == 0) & (dy == 0)) | ~jnp.any(rows), 0, direction)
