"""Critics: K networks of one shape that compute Q-values. Weights are nested dicts."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.keys import Key
from shoal.core.spaces import Box, Discrete, Space
from shoal.nn.dense import apply_dense, init_dense
from shoal.nn.dropout import Dropout
from shoal.nn.memory import Memory
from shoal.nn.recurrent_torso import RecurrentTorso
from shoal.nn.torso_choice import form_read, hidden_units, torso_input
from shoal.nn.torsos import MLP

Weights = Any


class Critics(NamedTuple):
    """K = `count` critics Q(s, a), initialized and applied together: each layer is one batched product.

    For actions in a Box, the action, in the units of the box (`core.spaces.to_unit`), is concatenated to the features
    of the observation. If the torso reads images, or if `joins_late`, it is concatenated to the torso's output instead,
    and one more hidden layer of relu units follows. With `quantiles` a critic predicts so many numbers about the return
    of the action, such as quantiles or logits. For discrete actions, a critic reads the observation and computes the
    Q-values of all actions at once.

    With a `memory` after its torso, a critic reads hidden vectors [K, *axes, H] in the place of observations, which
    `recurrent_torso` computes with the weights of each critic. The action is then concatenated to these.

    With `dropout`, units of the layers that read the action are left out, others for each critic: those of the torso,
    which must be an MLP, or those of the hidden layer after it.
    """

    torso: Any
    observation_space: Space
    action_space: Box | Discrete
    count: int = 2
    quantiles: int = 0  # or logits, of the return of an action in a Box; 0: its mean
    memory: Memory | None = None
    joins_late: bool = False
    layer_norm: bool = False  # of the hidden layer after the torso or the memory, if there is one
    dropout: Dropout | None = None

    def init(self, key: Key, obs: Any, action: Array) -> Weights:
        """Initial weights with a leading axis [K]. `key` is consumed.

        `obs` and `action` are examples with any leading axes.
        """
        return jax.vmap(lambda k: self._init_one(k, obs, action))(jax.random.split(key, self.count))

    def __call__(self, weights: Weights, seen: Any, action: Array) -> Float[Array, "K ..."]:
        """The Q-value [K, *axes] of one action for each observation, by every critic, or quantiles [K, *axes, Z]."""
        if isinstance(self.action_space, Box):
            outputs = self._apply(weights, seen, action)
            return outputs if self.quantiles else outputs[..., 0]
        chosen = jax.nn.one_hot(action, self.action_space.n, dtype=bool)
        return jnp.sum(jnp.where(chosen[None], self.every(weights, seen), 0), axis=-1)

    def every(self, weights: Weights, seen: Any) -> Float[Array, "K *axes A"]:
        """The Q-values of all discrete actions for each observation, by every critic."""
        return self._apply(weights, seen, None)

    @property
    def recurrent_torso(self) -> RecurrentTorso:
        """The torso and the memory of one critic."""
        return RecurrentTorso(self.torso, self.observation_space, self.memory)

    def _apply(self, weights: Weights, seen: Any, action: Array | None) -> Float[Array, "K *axes outputs"]:
        of_each = None if self.memory is None else 0  # hidden vectors differ between critics, observations do not
        if self.dropout is None:
            return jax.vmap(lambda w, x: self._apply_one(w, x, action), in_axes=(0, of_each))(weights, seen)
        keys = jax.random.split(self.dropout.key, self.count)
        drop = self.dropout._replace
        return jax.vmap(lambda w, x, k: self._apply_one(w, x, action, drop(key=k)), in_axes=(0, of_each, 0))(
            weights, seen, keys
        )

    def _init_one(self, key: Key, obs: Any, action: Array) -> Weights:
        k_torso, k_joint, k_head, *k_memory = jax.random.split(key, 3 if self.memory is None else 4)
        if self.memory is None:
            features = self._features(obs, action)
            weights = {"torso": self.torso.init(k_torso, features)}
            width = hidden_units(self.torso, weights["torso"], features)
        else:
            weights, width = self.recurrent_torso.init(k_torso, obs, *k_memory)
        if self._joins_late:
            example = jnp.zeros((width + action.shape[-1],), jnp.float32)
            weights["joint"] = self._joint(width).init(k_joint, example)
        outputs = max(self.quantiles, 1) if isinstance(self.action_space, Box) else self.action_space.n
        return {**weights, "head": init_dense(k_head, width, outputs, scale=1.0)}

    def _apply_one(
        self, weights: Weights, seen: Any, action: Array | None, dropout: Dropout | None = None
    ) -> Float[Array, "*axes outputs"]:
        hidden, dropped = seen, () if dropout is None else (dropout,)
        if self.memory is None:
            of_torso = () if self._joins_late else dropped
            hidden = self.torso.apply(weights["torso"], self._features(seen, action), *of_torso)
        if self._joins_late:
            hidden = self._joint(hidden.shape[-1]).apply(weights["joint"], self._join(hidden, action), *dropped)
        return apply_dense(weights["head"], hidden)

    def _features(self, obs: Any, action: Array | None) -> Any:
        features = torso_input(self.torso, self.observation_space, obs)
        return self._join(features, action) if self._joins_early else features

    def _join(self, features: Array, action: Any) -> Array:
        return jnp.concatenate([features, action.astype(features.dtype)], axis=-1)

    @property
    def _joins_early(self) -> bool:
        reads_vectors = form_read(self.torso, self.observation_space) == "vector"
        is_early = reads_vectors and self.memory is None and not self.joins_late
        return isinstance(self.action_space, Box) and is_early

    @property
    def _joins_late(self) -> bool:
        return isinstance(self.action_space, Box) and not self._joins_early

    def _joint(self, width: int) -> Any:  # not `-> MLP`: flax declares several return types of `apply`
        return MLP((width,), "relu", self.layer_norm)
