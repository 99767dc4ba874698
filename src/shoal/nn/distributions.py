"""Small action distributions: unbatched in the action, with any leading axes. Sampling takes noise, not keys.

A rollout draws its noise for many steps at once (`noise(key, shape)`), outside the hot loop; `sample(noise)` is then
arithmetic only.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.errors import Unsuited
from shoal.core.keys import Key
from shoal.core.spaces import Box, Discrete, MultiDiscrete, Space
from shoal.core.struct import Struct, static, struct

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


@struct
class SquashedGaussian(Struct):
    """A normal distribution pressed through tanh into the bounds of a box, component by component.

        a = center + half * tanh(u),  u ~ N(mean, std)
        log p = log N(u) - sum log(1 - tanh(u)^2)

    Source: Haarnoja et al. 2018, "Soft actor-critic", appendix C. Densities are those of tanh(u), which is the action
    on a scale from -1 to 1, so that they do not depend on the units in which a box is given.
    """

    mean: Float[Array, "... n"]
    log_std: Float[Array, "... n"]
    space: Box = static()

    def sample(self, noise: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """A draw, given standard normal noise."""
        return from_unit(self.space, jnp.tanh(self._unbounded(noise)))

    def mode(self) -> Float[Array, "... n"]:
        """The image of the mean (of the median, that is; not where the density is greatest)."""
        return from_unit(self.space, jnp.tanh(self.mean))

    def draw(self, noise: Float[Array, "... n"]) -> tuple[Float[Array, "... n"], Float[Array, "..."]]:
        """(a draw, the log-density of it on a scale from -1 to 1, summed over components).

        The density is that of the number before the squashing: tanh rounds to 1 and has no way back.

        log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)) holds where the left side would be log 0.
        """
        u = self._unbounded(noise)
        log_slope = 2 * (math.log(2) - u - jax.nn.softplus(-2 * u))
        log_prob = jnp.sum(-0.5 * noise**2 - self.log_std - LOG_SQRT_2_PI - log_slope, axis=-1)
        return from_unit(self.space, jnp.tanh(u)), log_prob

    def _unbounded(self, noise: Float[Array, "... n"]) -> Float[Array, "... n"]:
        return self.mean + jnp.exp(self.log_std) * noise


Distribution = Categorical | MultiCategorical | DiagGaussian


def masked(logits: Float[Array, "... A"], mask: Bool[Array, "... A"] | None) -> Float[Array, "... A"]:
    """Logits under which forbidden choices have probability zero."""
    return logits if mask is None else jnp.where(mask, logits, -jnp.inf)


def restricted(policy: Distribution, mask: Bool[Array, "... A"] | None) -> Distribution:
    """A policy that never chooses what a mask forbids; itself without one, as of every box."""
    if mask is None:
        return policy
    return policy.replace(logits=masked(policy.logits, mask))  # type: ignore[union-attr]  # only choices have masks


def head_size(space: Space) -> int:
    """How many network outputs parametrise a distribution over an action space. Raises Unsuited for other spaces."""
    if isinstance(space, Discrete):
        return space.n
    if isinstance(space, MultiDiscrete):
        return sum(space.nvec)
    if isinstance(space, Box) and len(space.shape) == 1:
        return space.shape[0]
    raise Unsuited(f"actions of {space} are not supported: use Discrete, MultiDiscrete, or a Box of one axis.")


def sample_noise(space: Space, key: Key, shape: tuple[int, ...]) -> Array:
    """The noise of `shape` draws from a distribution over this space. `key` is consumed."""
    size = head_size(space)
    if isinstance(space, Box):
        return jax.random.normal(key, (*shape, size), jnp.float32)
    return jax.random.gumbel(key, (*shape, size), jnp.float32)


def uniform_action(space: Box | Discrete, noise: Array, mask: Any = None) -> Array:
    """A uniform element of a bounded space, from the noise of a draw (`draw_noise`)."""
    if isinstance(space, Box):
        return from_unit(space, jax.lax.erf(noise * math.sqrt(0.5)))
    return Categorical(masked(jnp.zeros_like(noise), mask)).sample(noise)


def check_bounded(space: Space) -> None:
    """Raise Unsuited for anything but a box of one axis whose components are real numbers between finite bounds."""
    if not isinstance(space, Box):
        raise Unsuited(f"it acts by numbers, so it needs actions in a Box, not {space}.")
    head_size(space)
    low, high = space.bounds()
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise Unsuited(
            f"it presses actions into the bounds of their space, so it needs low < high and both finite, not {space}."
        )
    check_real(space)


def check_real(space: Space) -> None:
    """Raise Unsuited for a box of whole numbers."""
    if isinstance(space, Box) and not np.issubdtype(space.dtype, np.floating):
        raise Unsuited(f"it acts by real numbers, so it needs a Box of floats, not {space}.")


def from_unit(space: Box, unit: Float[Array, "*axes n"]) -> Float[Array, "*axes n"]:
    """Actions of a bounded box, given on a scale from -1 to 1."""
    low, high, center, half = (jnp.broadcast_to(x, unit.shape) for x in (*space.bounds(), _center(space), _half(space)))
    return jnp.clip(center + half * unit, low, high)  # rounding must not lead out of it


def to_unit(space: Box, action: Float[Array, "*axes n"]) -> Float[Array, "*axes n"]:
    """Actions of a bounded box on a scale from -1 to 1."""
    center, half = (jnp.broadcast_to(x, action.shape) for x in (_center(space), _half(space)))
    return (action - center) / half


def distribution(space: Space, head: Array, log_std: Any = None) -> Distribution:
    """The distribution that network outputs stand for; `log_std` applies to boxes."""
    if isinstance(space, Discrete):
        return Categorical(head)
    if isinstance(space, MultiDiscrete):
        return MultiCategorical(head, space.nvec)
    return DiagGaussian(head, jnp.broadcast_to(log_std, head.shape))


def _center(space: Box) -> np.ndarray:
    low, high = space.bounds()
    return low / 2 + high / 2


def _half(space: Box) -> np.ndarray:
    low, high = space.bounds()
    return high / 2 - low / 2
