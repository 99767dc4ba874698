"""`ActionBonus`: an exploration bonus for actions that were seldom taken."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from shoal.core.keys import Key
from shoal.core.struct import struct
from shoal.core.wrappers.base import WrapperState
from shoal.grid.actions import cell_mask
from shoal.grid.wrappers.base import StatefulLevelWrapper, grid_state


@struct
class ActionBonusState(WrapperState):
    """The inner state, and for each action how often it led to each position and direction."""

    counts: Int[Array, "W H 4 A"]


@struct
class ActionBonus(StatefulLevelWrapper):
    """Adds 1 / sqrt(n) to the reward the n-th time that an action leads to a position and direction.

    The counts continue over episodes, because rollouts call `carry_over`; `env.reset` alone sets them to zero. Each
    environment of a rollout has its own counts. Source: MiniGrid 3.2.0, `ActionBonus`.
    """

    def init(self, key: Key) -> ActionBonusState:
        """The first state; all counts are zero."""
        inner = self.env.init(key)
        counts = jnp.zeros((*self.level.shape, 4, self.level.action_space.n), jnp.int32)
        return ActionBonusState(time=inner.time, inner=inner, counts=counts)

    def transition(self, state: ActionBonusState, action: Any, noise: Any) -> tuple[ActionBonusState, Any, Any, Any]:
        """Take one step, increase the count, and add the bonus to the reward."""
        inner, reward, terminated, info = self.inner_transition(state, action, noise)
        agent = grid_state(inner)
        directions, actions = (np.arange(n, dtype=np.int32) for n in state.counts.shape[2:])
        here = cell_mask(self.level.shape, agent.x, agent.y)[:, :, None, None]
        done = here & (directions[None, None, :, None] == agent.direction) & (actions[None, None, None, :] == action)
        counts = state.counts + done.astype(jnp.int32)
        # An action outside the action space is not counted; its bonus is that of a first time.
        times = jnp.maximum(jnp.where(done, counts, 0).sum(), 1).astype(jnp.float32)
        state = ActionBonusState(time=inner.time, inner=inner, counts=counts)
        return state, reward + 1 / jnp.sqrt(times), terminated, info

    def carry_over(self, ended: ActionBonusState, fresh: ActionBonusState) -> ActionBonusState:
        """Keep the counts, and what the inner environment keeps."""
        return fresh.replace(inner=self.env.carry_over(ended.inner, fresh.inner), counts=ended.counts)
