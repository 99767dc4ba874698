"""A cost instead of death."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from shoal.core.env import State
from shoal.core.struct import Number, static, struct
from shoal.grid.actions import FORWARD, cell_at
from shoal.grid.cells import OBJECTS, WALL, Cell, is_a
from shoal.grid.level import in_front
from shoal.grid.wrappers.base import LevelWrapper, grid_state


@struct
class NoDeath(LevelWrapper):
    """What would end an episode in or before one of `objects` costs `death_cost` instead, and the episode goes on.

    That is a step forward into such an object, or any end while the agent stands on one: `("lava",)`, or `("ball",)`
    for moving obstacles. The cost is a traced number, added to the reward. Raises ValueError for no objects, for what
    is none, and for the goal, the agent, an empty or an unseen cell. Source: MiniGrid 3.2.0, `NoDeath`.
    """

    objects: tuple[str, ...] = static()
    death_cost: Number = -1.0

    def __post_init__(self) -> None:
        if isinstance(self.objects, str):
            raise TypeError(f"objects={self.objects!r} must be a tuple of names: ({self.objects!r},).")
        mortal = [name for name in OBJECTS if name not in ("unseen", "empty", "goal", "agent")]
        if not self.objects or not set(self.objects) <= set(mortal):
            raise ValueError(
                f"objects={self.objects} cannot all be what no longer kills: choose among {', '.join(mortal)}."
            )

    def transition(
        self, state: State, action: Any, noise: Any
    ) -> tuple[State, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """The inner dynamics without this kind of end."""
        before = grid_state(state)
        faces_death = (action == FORWARD) & self._kills(cell_at(before.grid, *in_front(before), WALL))
        state, reward, terminated, info = self.env.transition(state, action, noise)
        after = grid_state(state)
        spared = terminated & (faces_death | self._kills(cell_at(after.grid, after.x, after.y, WALL)))
        return state, reward + jnp.where(spared, jnp.float32(self.death_cost), 0), terminated & ~spared, info

    def _kills(self, cell: Cell) -> Bool[Array, "..."]:
        kills = jnp.bool_(False)
        for name in self.objects:
            kills = kills | is_a(cell, name)
        return kills
