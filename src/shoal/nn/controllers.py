"""Controllers: networks from what is seen, and perhaps remembered, to what is done. For searches without gradients.

A controller has a torso, an optional memory (a GRU; Cho et al. 2014) and a head, and weights that are nested dicts.
"""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.spaces import Space
from shoal.nn.dense import apply_dense, init_dense
from shoal.nn.distributions import head_size
from shoal.nn.initializers import orthogonal
from shoal.nn.torso_choice import torso_input

Key = jax.Array
Weights = Any


class Controller(NamedTuple):
    """Torso, memory of `memory_size` units (0: none) and head."""

    torso: Any
    observation_space: Space
    action_space: Space
    memory_size: int = 0

    def init(self, key: Key, obs: Any) -> Weights:
        """Fresh weights, from one observation. `key` is consumed."""
        k_torso, k_memory, k_head = jax.random.split(key, 3)
        seen = torso_input(self.torso, self.observation_space, obs)
        weights = {"torso": self.torso.init(k_torso, seen)}
        hidden = jax.eval_shape(self.torso.apply, weights["torso"], seen)
        width = self.memory_size or hidden.shape[-1]
        if self.memory_size:
            weights["memory"] = dict(self._cell.init(k_memory, self.initial_carry(), jnp.zeros(hidden.shape)))
        return {**weights, "policy": init_dense(k_head, width, head_size(self.action_space), scale=0.01)}

    def initial_carry(self) -> Any:
        """What is remembered at the start of an episode; None without memory."""
        return jnp.zeros(self.memory_size) if self.memory_size else None

    def apply(self, weights: Weights, obs: Any, carry: Any) -> tuple[Float[Array, "*axes A"], Any]:
        """(head, carry) of observations with any leading axes, which the carry shares."""
        hidden: Any = self.torso.apply(weights["torso"], torso_input(self.torso, self.observation_space, obs))
        if self.memory_size:
            carry, hidden = self._remember(weights["memory"], carry, hidden)
        return apply_dense(weights["policy"], hidden), carry

    def _remember(self, weights: Weights, carry: Any, hidden: Any) -> Any:
        return self._cell.apply(weights, carry, hidden)

    @property
    def _cell(self) -> nn.GRUCell:
        # flax's own initializer of the recurrent weights factorizes matrices, which jaxlib 0.10 may never finish.
        return nn.GRUCell(self.memory_size, recurrent_kernel_init=orthogonal())
