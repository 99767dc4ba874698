"""`Reseed`: a fixed sequence of episodes."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from shoal.core.keys import Key, check_seed, make_keys
from shoal.core.struct import static, struct
from shoal.core.wrappers.base import StatefulWrapper, WrapperState


@struct
class ReseedState(WrapperState):
    """The inner state, and the index of the seed of its episode."""

    index: Int[Array, ""]


@struct
class Reseed(StatefulWrapper):
    """Episode after episode is generated from the next of `seeds`, in a cycle that begins with `seeds[first]`.

    The keys passed to `reset` and `step` have no effect. Objects that move by themselves move in the same way in every
    episode of a seed. A seed gives another level than the same seed in MiniGrid. Rollouts advance to the next seed,
    because they call `carry_over`; `env.reset` alone always uses `seeds[first]`. Raises ValueError if `seeds` is empty
    or `first` is not an index of it.
    Source: MiniGrid 3.2.0, `ReseedWrapper`.
    """

    seeds: tuple[int, ...] = static((0,))
    first: int = static(0, help="index of the seed of the first episode, counted from 0")

    def __post_init__(self) -> None:
        for seed in self.seeds:
            check_seed(seed)
        if not 0 <= self.first < len(self.seeds):
            raise ValueError(
                f"first={self.first} is not an index of the {len(self.seeds)} seeds {self.seeds}: count from 0."
            )

    def init(self, key: Key) -> ReseedState:
        """The first state of the episode of `seeds[first]`."""
        del key
        inner = self.env.init(self._keys()[self.first])
        return ReseedState(time=inner.time, inner=inner, index=jnp.int32(self.first))

    def noise(self, key: Key) -> None:
        """None: the noise of each step is sampled from the episode's seed and the time."""
        del key

    def transition(self, state: ReseedState, action: Any, noise: None) -> tuple[ReseedState, Any, Any, Any]:
        """The inner transition, with the noise of this seed at this time."""
        key = jax.random.fold_in(self._keys()[state.index], state.time)
        inner, reward, terminated, info = self.inner_transition(state, action, self.env.noise(key))
        return state.replace(time=inner.time, inner=inner), reward, terminated, info

    def carry_over(self, ended: ReseedState, fresh: ReseedState) -> ReseedState:
        """The first state of the episode of the next seed."""
        index = (ended.index + 1) % len(self.seeds)
        # The first states of all seeds do not depend on the environment, so a batch computes them only once.
        starts = jax.vmap(self.env.init)(self._keys())
        inner = self.env.carry_over(ended.inner, jax.tree.map(lambda leaf: leaf[index], starts))
        return fresh.replace(inner=inner, index=index)

    def _keys(self) -> Key:
        return make_keys(self.seeds)
