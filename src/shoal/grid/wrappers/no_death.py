"""`NoDeath`: a cost instead of the end of the episode."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool

from shoal.core.env import State, Transition
from shoal.core.struct import Number, static, struct
from shoal.grid.actions import FORWARD, cell_at
from shoal.grid.cells import KINDS, WALL, Cell, Kinds, is_a
from shoal.grid.level import in_front
from shoal.grid.wrappers.base import LevelWrapper, grid_state


@struct
class NoDeath(LevelWrapper):
    """One of `objects` no longer ends the episode: `death_cost` is added to the reward, and the episode continues.

    This applies to a termination when the agent steps forward with such an object in front of it, or when it stands on
    one. Use `("lava",)`, or `("ball",)` for the obstacles of Dynamic-Obstacles. Raises ValueError for an empty tuple,
    for an unknown name, and for the goal, the agent, an empty or an unseen cell. Source: MiniGrid 3.2.0, `NoDeath`.
    """

    objects: tuple[str, ...] = static()
    death_cost: Number = -1.0

    def __post_init__(self) -> None:
        if isinstance(self.objects, str):
            raise TypeError(f"objects={self.objects!r} must be a tuple of names: ({self.objects!r},).")
        allowed = [kind.name for kind in self._kinds if kind.name not in ("unseen", "empty", "goal", "agent")]
        if not self.objects or not set(self.objects) <= set(allowed):
            raise ValueError(f"objects={self.objects} must be one or more of: {', '.join(allowed)}.")

    def transition(self, state: State, action: Any, noise: Any) -> Transition[State]:
        """The inner transition without terminations by `objects`."""
        before = grid_state(state)
        steps_into = (action == FORWARD) & self._is_listed(cell_at(before.grid, *in_front(before), WALL))
        state, reward, terminated, info = self.env.transition(state, action, noise)
        after = grid_state(state)
        prevented = terminated & (steps_into | self._is_listed(cell_at(after.grid, after.x, after.y, WALL)))
        return state, reward + jnp.where(prevented, jnp.float32(self.death_cost), 0), terminated & ~prevented, info

    def _is_listed(self, cell: Cell) -> Bool[Array, "..."]:
        is_listed = jnp.bool_(False)
        for name in self.objects:
            is_listed = is_listed | is_a(cell, next(kind for kind in self._kinds if kind.name == name))
        return is_listed

    @property
    def _kinds(self) -> Kinds:
        return (*KINDS, *self.level.kinds)
