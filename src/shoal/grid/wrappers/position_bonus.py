"""A bonus for where the agent seldom was."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int

from shoal.core.keys import Key
from shoal.core.struct import Number, struct
from shoal.core.wrappers.base import WrapperState
from shoal.grid.actions import at
from shoal.grid.wrappers.base import StatefulLevelWrapper, grid_state


@struct
class PositionBonusState(WrapperState):
    """The inner state, and how often steps ended in each cell."""

    counts: Int[Array, "W H"]


@struct
class PositionBonus(StatefulLevelWrapper):
    """Adds scale / sqrt(n) to the reward the n-th time that a step ends in a cell. `scale` is a traced number.

    Counts outlive episodes through `carry_over`, which rollouts call; `env.reset` by itself starts them anew. Each
    environment of a rollout has its own. Source: MiniGrid 3.2.0, `PositionBonus`.
    """

    scale: Number = 1.0

    def init(self, key: Key) -> PositionBonusState:
        """The first state; the agent has been nowhere."""
        inner = self.env.init(key)
        return PositionBonusState(time=inner.time, inner=inner, counts=jnp.zeros(self.level.shape, jnp.int32))

    def transition(
        self, state: PositionBonusState, action: Any, noise: Any
    ) -> tuple[PositionBonusState, Any, Any, Any]:
        """Step, count, and add the bonus."""
        inner, reward, terminated, info = self.inner_transition(state, action, noise)
        agent = grid_state(inner)
        here = at(self.level.shape, agent.x, agent.y)
        counts = state.counts + here.astype(jnp.int32)
        times = jnp.where(here, counts, 0).sum().astype(jnp.float32)
        state = PositionBonusState(time=inner.time, inner=inner, counts=counts)
        return state, reward + jnp.float32(self.scale) / jnp.sqrt(times), terminated, info

    def carry_over(self, ended: PositionBonusState, fresh: PositionBonusState) -> PositionBonusState:
        """What the environment inside keeps, and the counts."""
        return fresh.replace(inner=self.env.carry_over(ended.inner, fresh.inner), counts=ended.counts)
