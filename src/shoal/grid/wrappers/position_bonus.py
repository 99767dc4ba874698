"""`PositionBonus`: an exploration bonus for cells that were seldom visited."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int

from shoal.core.env import Transition
from shoal.core.keys import Key
from shoal.core.struct import Number, struct
from shoal.core.wrappers.base import WrapperState
from shoal.grid.actions import cell_mask
from shoal.grid.wrappers.base import StatefulLevelWrapper, grid_state


@struct
class PositionBonusState(WrapperState):
    """The inner state, and for each cell how many steps ended in it."""

    counts: Int[Array, "W H"]


@struct
class PositionBonus(StatefulLevelWrapper):
    """Adds scale / sqrt(n) to the reward the n-th time that a step ends in a cell.

    The counts continue over episodes, because rollouts call `carry_over`; `env.reset` alone sets them to zero. Each
    environment of a rollout has its own counts. Source: MiniGrid 3.2.0, `PositionBonus`.
    """

    scale: Number = 1.0

    def init(self, key: Key) -> PositionBonusState:
        """The first state; all counts are zero."""
        inner = self.env.init(key)
        return PositionBonusState(time=inner.time, inner=inner, counts=jnp.zeros(self.level.shape, jnp.int32))

    def transition(self, state: PositionBonusState, action: Any, noise: Any) -> Transition[PositionBonusState]:
        """Take one step, increase the count, and add the bonus to the reward."""
        inner, reward, terminated, info = self.inner_transition(state, action, noise)
        agent = grid_state(inner)
        here = cell_mask(self.level.shape, agent.x, agent.y)
        counts = state.counts + here.astype(jnp.int32)
        times = jnp.where(here, counts, 0).sum().astype(jnp.float32)
        state = PositionBonusState(time=inner.time, inner=inner, counts=counts)
        return state, reward + jnp.float32(self.scale) / jnp.sqrt(times), terminated, info

    def carry_over(self, ended: PositionBonusState, fresh: PositionBonusState) -> PositionBonusState:
        """Keep the counts, and what the inner environment keeps."""
        return fresh.replace(inner=self.env.carry_over(ended.inner, fresh.inner), counts=ended.counts)
