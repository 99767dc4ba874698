"""The same episodes over and over."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from shoal.core.keys import Key, check_seed, make_key
from shoal.core.struct import static, struct
from shoal.core.wrappers.base import StatefulWrapper, WrapperState


@struct
class ReseedState(WrapperState):
    """The inner state, and which of the seeds its episode was made from."""

    index: Int[Array, ""]


@struct
class Reseed(StatefulWrapper):
    """Episodes made from `seeds` in turn, one after another and then again; the keys that are given do not matter.

    The first one is that of `seeds[first]`. What moves by itself moves the same way in every episode of a seed. A seed
    gives another level than in MiniGrid. The next seed's turn comes with `carry_over`, which rollouts call; `env.reset`
    by itself knows of no episode before, and always gives that of `seeds[first]`. Raises ValueError for no seeds or a
    `first` that is none of them.
    Source: MiniGrid 3.2.0, `ReseedWrapper`.
    """

    seeds: tuple[int, ...] = static((0,))
    first: int = static(0, help="which of the seeds comes first, counted from 0")

    def __post_init__(self) -> None:
        for seed in self.seeds:
            check_seed(seed)
        if not 0 <= self.first < len(self.seeds):
            raise ValueError(f"first={self.first} is none of the {len(self.seeds)} seeds {self.seeds}: count from 0.")

    def init(self, key: Key) -> ReseedState:
        """The episode of the first seed."""
        del key
        inner = self.env.init(self._keys()[self.first])
        return ReseedState(time=inner.time, inner=inner, index=jnp.int32(self.first))

    def noise(self, key: Key) -> None:
        """None: each step draws from its seed and the time."""
        del key

    def transition(self, state: ReseedState, action: Any, noise: None) -> tuple[ReseedState, Any, Any, Any]:
        """The inner dynamics, under the noise of this seed at this time."""
        key = jax.random.fold_in(self._keys()[state.index], state.time)
        inner, reward, terminated, info = self.inner_transition(state, action, self.env.noise(key))
        return state.replace(time=inner.time, inner=inner), reward, terminated, info

    def carry_over(self, ended: ReseedState, fresh: ReseedState) -> ReseedState:
        """The episode of the next seed."""
        index = (ended.index + 1) % len(self.seeds)
        # All of them, not the one that is needed: they depend on no environment, so a batch shares them.
        starts = jax.vmap(self.env.init)(self._keys())
        inner = self.env.carry_over(ended.inner, jax.tree.map(lambda leaf: leaf[index], starts))
        return fresh.replace(inner=inner, index=index)

    def _keys(self) -> Key:
        return jnp.stack([make_key(seed) for seed in self.seeds])
