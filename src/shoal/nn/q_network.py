"""Networks for the Q-values of all actions: plain, dueling, distributional, noisy, implicit. Weights: nested dicts."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from shoal.core.keys import Key
from shoal.core.spaces import Space
from shoal.nn.dense import along_last_axis, apply_dense, init_dense
from shoal.nn.memory import Memory
from shoal.nn.recurrent_torso import RecurrentTorso

Weights = Any
COSINES = 64  # numbers by which an implicit network reads a quantile level (Dabney et al. 2018, section 3.1)
SIGMA = 0.5  # initial scale of the noise of weights (Fortunato et al. 2018, section 3.2)


class QNetwork(NamedTuple):
    """A torso and a head with `atoms` outputs for each of A actions: a Q-value, or a distribution of returns.

    With `dueling` the outputs are the sum of a state value and advantages whose mean is 0 (Wang et al. 2016, eq. 9; the
    two heads share one torso). With `noisy` the weights of the heads have factorised Gaussian noise (Fortunato et al.
    2018). With a `memory` after the torso, the outputs depend on the earlier observations of the episode: `step` and
    `unroll` then take its carry.

    An `implicit` network computes the quantiles of the return at any `levels` between 0 and 1: the hidden vector is
    multiplied by relu units that read cos(i pi level) for i < `COSINES` (Dabney et al. 2018, eq. 4). Without levels,
    they are the middles of `atoms` equal parts.
    """

    torso: Any
    observation_space: Space
    actions: int
    atoms: int = 1
    dueling: bool = False
    noisy: bool = False
    memory: Memory | None = None
    implicit: bool = False

    def init(self, key: Key, obs: Any) -> Weights:
        """Initial weights, from an example observation with any leading axes. `key` is consumed."""
        k_torso, *k_heads = jax.random.split(key, 1 + len(self._heads) + (self.memory is not None) + self.implicit)
        k_memory = None if self.memory is None else k_heads.pop()
        weights, width = self.recurrent_torso.init(k_torso, obs, k_memory)
        if self.implicit:
            weights["levels"] = init_dense(k_heads.pop(), COSINES, width, scale=2**0.5)
        for k_head, (name, size) in zip(k_heads, self._heads.items(), strict=True):
            weights[name] = init_dense(k_head, width, size, scale=1.0)
            if self.noisy:
                start = SIGMA / math.sqrt(width)
                weights[f"{name}_sigma"] = jax.tree.map(lambda x, s=start: jnp.full_like(x, s), weights[name])
        return weights

    def __call__(
        self, weights: Weights, obs: Any, noise: Any = None, levels: Float[Array, "*axes atoms"] | None = None
    ) -> Float[Array, "*axes A atoms"]:
        """The outputs of a network without memory. With `noise=None` a noisy one uses the means of its weights."""
        return self.outputs(weights, self.recurrent_torso.hidden(weights, obs)[0], noise, levels)

    @property
    def recurrent_torso(self) -> RecurrentTorso:
        """The torso and the memory, which compute the hidden vectors that the heads read."""
        return RecurrentTorso(self.torso, self.observation_space, self.memory)

    def initial_carry(self, axes: tuple[int, ...] = ()) -> Any:
        """The recurrent carry at the start of an episode, with leading `axes`; None without a memory."""
        return self.recurrent_torso.initial_carry(axes)

    def first_carry(self, obs: Any) -> Any:
        """The carries of observations that begin an episode, with any leading axes; None without a memory."""
        return self.recurrent_torso.first_carry(obs)

    def step(
        self, weights: Weights, obs: Any, carry: Any, noise: Any = None
    ) -> tuple[Float[Array, "*axes A atoms"], Any]:
        """(outputs for all actions, next carry) for one observation with any leading axes."""
        hidden, carry = self.recurrent_torso.hidden(weights, obs, carry)
        return self.outputs(weights, hidden, noise), carry

    def unroll(
        self, weights: Weights, obs: Any, is_first: Bool[Array, "T E"], carry: Any
    ) -> tuple[Float[Array, "T E A atoms"], Any]:
        """(outputs for all actions, carries after each step) of T observations, for a network with memory."""
        hidden, carries = self.recurrent_torso.unroll(weights, obs, is_first, carry)
        return self.outputs(weights, hidden), carries

    def outputs(
        self, weights: Weights, hidden: Float[Array, "*axes H"], noise: Any = None, levels: Any = None
    ) -> Float[Array, "*axes A atoms"]:
        """The outputs of the heads for hidden vectors."""
        if self.implicit:
            hidden = hidden[..., None, :] * self._embedded(weights, levels, hidden.ndim)
            noise = jax.tree.map(lambda x: x[..., None, :], noise)
        parts = {name: _head(weights, name, hidden, None if noise is None else noise[name]) for name in self._heads}
        if self.implicit:
            parts = {name: jnp.swapaxes(x, -1, -2) for name, x in parts.items()}
        else:
            parts = {name: x.reshape(*x.shape[:-1], x.shape[-1] // self.atoms, self.atoms) for name, x in parts.items()}
        q_values = parts["advantage"]
        return parts["value"] + q_values - jnp.mean(q_values, axis=-2, keepdims=True) if self.dueling else q_values

    def _embedded(self, weights: Weights, levels: Any, axes: int) -> Float[Array, "*axes atoms hidden"]:
        if levels is None:
            levels = along_last_axis(middle_levels(self.atoms), axes)
        angles = math.pi * jnp.arange(COSINES, dtype=jnp.float32)
        cosines = jnp.cos(levels[..., None] * along_last_axis(angles, levels.ndim + 1))
        return jax.nn.relu(apply_dense(weights["levels"], cosines))

    def sample_noise(self, key: Key, weights: Weights, shape: tuple[int, ...]) -> Any:
        """Independent noise for observations with leading axes `shape`; None if the network is not noisy.

        Each head gets two concatenated vectors, whose outer product is its noise matrix. `key` is consumed.
        """
        if not self.noisy:
            return None
        keys = jax.random.split(key, len(self._heads))
        return {
            name: _signed_root(jax.random.normal(k, (*shape, sum(weights[name]["kernel"].shape)), jnp.float32))
            for k, name in zip(keys, self._heads, strict=True)
        }

    @property
    def _heads(self) -> dict[str, int]:
        atoms = 1 if self.implicit else self.atoms
        advantage = {"advantage": self.actions * atoms}
        return {**advantage, "value": atoms} if self.dueling else advantage


def _head(weights: Weights, name: str, hidden: Array, noise: Any) -> Array:
    mean = apply_dense(weights[name], hidden)
    if noise is None:
        return mean
    sigma, width = weights[f"{name}_sigma"], hidden.shape[-1]
    noise_in, noise_out = noise[..., :width], noise[..., width:]
    bias = sigma["bias"].reshape((1,) * (mean.ndim - 1) + (-1,))
    return mean + noise_out * ((hidden * noise_in) @ sigma["kernel"] + bias)


def middle_levels(count: int) -> Float[Array, "count"]:
    """The middles of `count` equal parts of the interval from 0 to 1."""
    return (jnp.arange(count, dtype=jnp.float32) + 0.5) / count


def _signed_root(x: Array) -> Array:
    return jnp.sign(x) * jnp.sqrt(jnp.abs(x))
