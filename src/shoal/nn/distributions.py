"""Small action distributions: unbatched in the action, with any leading axes. Sampling takes noise, not keys.

A rollout draws its noise for many steps at once (`noise(key, shape)`), outside the hot loop; `sample(noise)` is then
arithmetic only.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.errors import Unsuited
from shoal.core.spaces import Box, Discrete, MultiDiscrete, Space
from shoal.core.struct import Struct, static, struct

Key = jax.Array
LOG_SQRT_2_PI = 0.5 * math.log(2 * math.pi)


@struct
class Categorical(Struct):
    """One choice among A, from unnormalised log-probabilities. Sampled by the Gumbel-max trick."""

    logits: Float[Array, "... A"]

    def sample(self, noise: Float[Array, "... A"]) -> Int[Array, "..."]:
        """A draw, given Gumbel noise."""
        return jnp.argmax(self.logits + noise, axis=-1).astype(jnp.int32)

    def mode(self) -> Int[Array, "..."]:
        """The likeliest choice; the first of equals."""
        return jnp.argmax(self.logits, axis=-1).astype(jnp.int32)

    def log_prob(self, action: Int[Array, "..."]) -> Float[Array, "..."]:
        """Log-probability of a choice."""
        chosen = jax.nn.one_hot(action, self.logits.shape[-1], dtype=bool)
        return jnp.sum(jnp.where(chosen, jax.nn.log_softmax(self.logits), 0), axis=-1)

    def entropy(self) -> Float[Array, "..."]:
        """Exact, in nats; choices of probability zero add nothing."""
        log_p = jax.nn.log_softmax(self.logits)
        # 0 log 0 is 0, and so must its gradient be.
        return -jnp.sum(jnp.exp(log_p) * jnp.where(jnp.isfinite(log_p), log_p, 0), axis=-1)


@struct
class MultiCategorical(Struct):
    """Independent choices, their logits side by side; the i-th has `sizes[i]` options."""

    logits: Float[Array, "... total"]
    sizes: tuple[int, ...] = static()

    def sample(self, noise: Float[Array, "... total"]) -> Int[Array, "... n"]:
        """A draw of every choice, given Gumbel noise."""
        return jnp.stack([part.sample(n) for part, n in zip(self._parts(), self._split(noise), strict=True)], axis=-1)

    def mode(self) -> Int[Array, "... n"]:
        """The likeliest of every choice."""
        return jnp.stack([part.mode() for part in self._parts()], axis=-1)

    def log_prob(self, action: Int[Array, "... n"]) -> Float[Array, "..."]:
        """Summed log-probability of the choices."""
        return sum(part.log_prob(action[..., i]) for i, part in enumerate(self._parts()))  # type: ignore[return-value]  # at least one part

    def entropy(self) -> Float[Array, "..."]:
        """Sum of the choices' entropies."""
        return sum(part.entropy() for part in self._parts())  # type: ignore[return-value]  # at least one part

    def _split(self, values: Array) -> list[Array]:
        starts = [sum(self.sizes[:i]) for i in range(len(self.sizes))]
        return [values[..., start : start + size] for start, size in zip(starts, self.sizes, strict=True)]

    def _parts(self) -> list[Categorical]:
        return [Categorical(part) for part in self._split(self.logits)]


@struct
class DiagGaussian(Struct):
    """A normal distribution with independent components. Not squashed: the agent clips what it sends to the world."""

    mean: Float[Array, "... n"]
    log_std: Float[Array, "... n"]

    def sample(self, noise: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """A draw, given standard normal noise."""
        return self.mean + jnp.exp(self.log_std) * noise

    def mode(self) -> Float[Array, "... n"]:
        """The mean."""
        return self.mean

    def log_prob(self, action: Float[Array, "... n"]) -> Float[Array, "..."]:
        """Summed log-density."""
        z = (action - self.mean) * jnp.exp(-self.log_std)
        return jnp.sum(-0.5 * z**2 - self.log_std - LOG_SQRT_2_PI, axis=-1)

    def entropy(self) -> Float[Array, "..."]:
        """Exact, in nats."""
        return jnp.sum(jnp.broadcast_to(self.log_std, self.mean.shape) + 0.5 + LOG_SQRT_2_PI, axis=-1)


Distribution = Categorical | MultiCategorical | DiagGaussian


def masked(logits: Float[Array, "... A"], mask: Bool[Array, "... A"] | None) -> Float[Array, "... A"]:
    """Logits under which forbidden choices have probability zero."""
    return logits if mask is None else jnp.where(mask, logits, -jnp.inf)


def head_size(space: Space) -> int:
    """How many network outputs parametrise a distribution over an action space. Raises Unsuited for other spaces."""
    if isinstance(space, Discrete):
        return space.n
    if isinstance(space, MultiDiscrete):
        return sum(space.nvec)
    if isinstance(space, Box) and len(space.shape) == 1:
        return space.shape[0]
    raise Unsuited(f"actions of {space} are not supported: use Discrete, MultiDiscrete, or a Box of one axis.")


def draw_noise(space: Space, key: Key, shape: tuple[int, ...]) -> Array:
    """The noise of `shape` draws from a distribution over this space. `key` is consumed."""
    size = head_size(space)
    if isinstance(space, Box):
        return jax.random.normal(key, (*shape, size))
    return jax.random.gumbel(key, (*shape, size))


def distribution(space: Space, head: Array, log_std: Any = None) -> Distribution:
    """The distribution that network outputs stand for; `log_std` applies to boxes."""
    if isinstance(space, Discrete):
        return Categorical(head)
    if isinstance(space, MultiDiscrete):
        return MultiCategorical(head, space.nvec)
    return DiagGaussian(head, jnp.broadcast_to(log_std, head.shape))
