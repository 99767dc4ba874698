"""Networks whose dense layers are batch-renormalized, and critics of that kind. Weights are nested dicts."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.keys import Key
from shoal.core.spaces import Space
from shoal.nn.batch_renorm import Limits, Renorm, apply_renorm, init_renorm, train_renorm
from shoal.nn.dense import apply_dense, init_dense
from shoal.nn.memory import Memory
from shoal.nn.recurrent_torso import RecurrentTorso
from shoal.nn.torso_choice import torso_input
from shoal.nn.torsos import ACTIVATIONS, MLP

Weights = Any


def is_plain(torso: Any) -> bool:
    """Whether a torso has dense layers and activations only, between which others can be put."""
    return type(torso) is MLP and torso == MLP(torso.hidden, torso.activation)


class RenormedNetwork(NamedTuple):
    """Maps observations, joined with actions if it gets some, to `outputs` numbers.

    The inputs of its dense layers are batch-renormalized, and the outputs of each after its activation. If the torso is
    an MLP, its layers are these. Any other torso stays as it is, and one such layer of as many relu units follows it.
    So does one after a `memory`: then the network reads hidden vectors, which `recurrent_torso` computes, in the place
    of observations.
    """

    torso: Any
    observation_space: Space
    outputs: int
    head_scale: float = 1.0  # of the initial weights of the last layer
    memory: Memory | None = None

    @property
    def recurrent_torso(self) -> RecurrentTorso:
        """The torso and the memory."""
        return RecurrentTorso(self.torso, self.observation_space, self.memory)

    def init(self, key: Key, obs: Any, action: Array | None = None) -> Weights:
        """Initial weights, from examples with any leading axes. `key` is consumed."""
        k_torso, k_layers, k_head, *k_memory = jax.random.split(key, 3 if self.memory is None else 4)
        if self._is_plain:
            features = torso_input(self.torso, self.observation_space, obs)
            weights, width, sizes = {}, features.shape[-1], self.torso.hidden
        else:
            weights, width = self.recurrent_torso.init(k_torso, obs, *k_memory)
            sizes = (width,)
        width += 0 if action is None else action.shape[-1]
        weights["norm_0"] = init_renorm(width)
        for i, size in enumerate(sizes):
            weights[f"layer_{i}"] = init_dense(jax.random.fold_in(k_layers, i), width, size, scale=2**0.5)
            weights[f"norm_{i + 1}"] = init_renorm(size)
            width = size
        return {**weights, "head": init_dense(k_head, width, self.outputs, self.head_scale)}

    def __call__(self, weights: Weights, seen: Any, action: Array | None = None) -> Float[Array, "*axes outputs"]:
        """The outputs for any leading axes, normalized by the moving averages."""
        return self._apply(weights, seen, action, lambda name, x: apply_renorm(weights[name], x))

    def train(
        self, weights: Weights, seen: Any, action: Array | None, sample_weight: Float[Array, "B"], limits: Limits
    ) -> tuple[Float[Array, "B outputs"], dict[str, Renorm]]:
        """(the outputs for a batch, normalized by it, the moving averages after it)."""
        averages: dict[str, Renorm] = {}

        def norm(name: str, x: Array) -> Array:
            y, averages[name] = train_renorm(weights[name], x, sample_weight, limits)
            return y

        return self._apply(weights, seen, action, norm), averages

    def _apply(self, weights: Weights, seen: Any, action: Array | None, norm: Callable[[str, Array], Array]) -> Array:
        if self._is_plain:
            x = torso_input(self.torso, self.observation_space, seen)
            activation, depth = ACTIVATIONS[self.torso.activation], len(self.torso.hidden)
        else:
            x = seen if self.memory is not None else self.recurrent_torso.hidden(weights, seen)[0]
            activation, depth = jax.nn.relu, 1
        x = norm("norm_0", x if action is None else jnp.concatenate([x, action.astype(x.dtype)], axis=-1))
        for i in range(depth):
            x = norm(f"norm_{i + 1}", activation(apply_dense(weights[f"layer_{i}"], x)))
        return apply_dense(weights["head"], x)

    @property
    def _is_plain(self) -> bool:
        return self.memory is None and is_plain(self.torso)


class RenormedCritics(NamedTuple):
    """`count` critics Q(s, a) of one shape, for actions in a Box in its units. Leaves of their weights are [K, ...]."""

    network: RenormedNetwork
    count: int

    def init(self, key: Key, obs: Any, action: Array) -> Weights:
        """Initial weights, from examples with any leading axes. `key` is consumed."""
        return jax.vmap(lambda k: self.network.init(k, obs, action))(jax.random.split(key, self.count))

    def __call__(self, weights: Weights, seen: Any, action: Array) -> Float[Array, "K *axes"]:
        """The Q-value of one action for each observation, by every critic, normalized by the moving averages."""
        return self._for_each(lambda w, x: self.network(w, x, action), weights, seen)[..., 0]

    def train(
        self, weights: Weights, seen: Any, action: Array, sample_weight: Float[Array, "B"], limits: Limits
    ) -> tuple[Float[Array, "K B"], dict[str, Renorm]]:
        """(the Q-values of a batch, normalized by it, the moving averages after it)."""
        q_values, averages = self._for_each(
            lambda w, x: self.network.train(w, x, action, sample_weight, limits), weights, seen
        )
        return q_values[..., 0], averages

    def _for_each(self, apply: Callable[[Weights, Any], Any], weights: Weights, seen: Any) -> Any:
        # With a memory, critics read hidden vectors [K, *axes, H], their own; otherwise all the same observations.
        return jax.vmap(apply, in_axes=(0, None if self.network.memory is None else 0))(weights, seen)
