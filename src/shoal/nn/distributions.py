"""Action distributions with any leading axes. `sample` takes noise instead of a key.

In a Box all of them are in its units, from -1 to 1 between its bounds (`core.spaces.from_unit`): means, standard
deviations, log-densities, entropies and divergences. What is learned therefore does not depend on the units in which
an environment measures its actions. `as_action` makes of a sample the action that the environment takes.

A rollout samples the noise of all its steps at once with `sample_noise`, before the loop; `sample(noise)` inside the
loop is then only arithmetic.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.errors import Unsuited
from shoal.core.keys import Key
from shoal.core.spaces import Box, Discrete, MultiDiscrete, Space, from_unit, units_of
from shoal.core.struct import Struct, static, struct

LOG_SQRT_2_PI = 0.5 * math.log(2 * math.pi)


@struct
class Categorical(Struct):
    """One of A actions, with unnormalised log-probabilities `logits`. Sampled by the Gumbel-max trick."""

    logits: Float[Array, "... A"]

    def sample(self, noise: Float[Array, "... A"]) -> Int[Array, "..."]:
        """A sample, given Gumbel noise."""
        return jnp.argmax(self.logits + noise, axis=-1).astype(jnp.int32)

    def mode(self) -> Int[Array, "..."]:
        """The most probable action; the first of equals."""
        return jnp.argmax(self.logits, axis=-1).astype(jnp.int32)

    def log_prob(self, action: Int[Array, "..."]) -> Float[Array, "..."]:
        """The log-probability of an action."""
        chosen = jax.nn.one_hot(action, self.logits.shape[-1], dtype=bool)
        return jnp.sum(jnp.where(chosen, jax.nn.log_softmax(self.logits), 0), axis=-1)

    def entropy(self) -> Float[Array, "..."]:
        """The exact entropy in nats; actions of probability 0 add 0."""
        log_p = jax.nn.log_softmax(self.logits)
        # 0 log 0 is 0, and its gradient must be 0 too.
        return -jnp.sum(jnp.exp(log_p) * jnp.where(jnp.isfinite(log_p), log_p, 0), axis=-1)


@struct
class MultiCategorical(Struct):
    """n independent categorical components. Their logits are concatenated; the i-th has `sizes[i]` options."""

    logits: Float[Array, "... total"]
    sizes: tuple[int, ...] = static()

    def sample(self, noise: Float[Array, "... total"]) -> Int[Array, "... n"]:
        """A sample of all components, given Gumbel noise."""
        return jnp.stack([part.sample(n) for part, n in zip(self._parts(), self._split(noise), strict=True)], axis=-1)

    def mode(self) -> Int[Array, "... n"]:
        """The most probable option of each component."""
        return jnp.stack([part.mode() for part in self._parts()], axis=-1)

    def log_prob(self, action: Int[Array, "... n"]) -> Float[Array, "..."]:
        """The log-probability of an action: the sum over components."""
        return sum(part.log_prob(action[..., i]) for i, part in enumerate(self._parts()))  # type: ignore[return-value]  # at least one part

    def entropy(self) -> Float[Array, "..."]:
        """The exact entropy in nats: the sum over components."""
        return sum(part.entropy() for part in self._parts())  # type: ignore[return-value]  # at least one part

    def _split(self, values: Array) -> list[Array]:
        starts = [sum(self.sizes[:i]) for i in range(len(self.sizes))]
        return [values[..., start : start + size] for start, size in zip(starts, self.sizes, strict=True)]

    def _parts(self) -> list[Categorical]:
        return [Categorical(part) for part in self._split(self.logits)]


@struct
class DiagGaussian(Struct):
    """A normal distribution with independent components, in the units of a box. `as_action` clips to its bounds."""

    mean: Float[Array, "... n"]
    log_std: Float[Array, "... n"]

    def sample(self, noise: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """A sample, given standard normal noise."""
        return self.mean + jnp.exp(self.log_std) * noise

    def mode(self) -> Float[Array, "... n"]:
        """The mean."""
        return self.mean

    def log_prob(self, action: Float[Array, "... n"]) -> Float[Array, "..."]:
        """The log-density of an action: the sum over components."""
        z = (action - self.mean) * jnp.exp(-self.log_std)
        return jnp.sum(-0.5 * z**2 - self.log_std - LOG_SQRT_2_PI, axis=-1)

    def entropy(self) -> Float[Array, "..."]:
        """The exact entropy in nats."""
        return jnp.sum(jnp.broadcast_to(self.log_std, self.mean.shape) + 0.5 + LOG_SQRT_2_PI, axis=-1)


@struct
class SquashedGaussian(Struct):
    """A normal distribution squashed by tanh into the bounds of a box, which are -1 and 1 in its units.

        a = tanh(u),  u ~ N(mean, std)
        log p = log N(u) - sum log(1 - tanh(u)^2)

    Source: Haarnoja et al. 2018, "Soft actor-critic", appendix C.
    """

    mean: Float[Array, "... n"]
    log_std: Float[Array, "... n"]

    def sample(self, noise: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """A sample, given standard normal noise."""
        return jnp.tanh(self._unbounded(noise))

    def mode(self) -> Float[Array, "... n"]:
        """The squashed mean. It is the median of each component, not the maximum of the density."""
        return jnp.tanh(self.mean)

    def sample_with_log_prob(self, noise: Float[Array, "... n"]) -> tuple[Float[Array, "... n"], Float[Array, "..."]]:
        """(a sample, its log-density, summed over components).

        The density is computed from u, because tanh(u) rounds to 1 for large u and cannot be inverted. The code uses
        log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)), whose right side stays finite where the left is log 0.
        """
        u = self._unbounded(noise)
        log_slope = 2 * (math.log(2) - u - jax.nn.softplus(-2 * u))
        log_prob = jnp.sum(-0.5 * noise**2 - self.log_std - LOG_SQRT_2_PI - log_slope, axis=-1)
        return jnp.tanh(u), log_prob

    def _unbounded(self, noise: Float[Array, "... n"]) -> Float[Array, "... n"]:
        return self.mean + jnp.exp(self.log_std) * noise


Distribution = Categorical | MultiCategorical | DiagGaussian


def masked(logits: Float[Array, "... A"], mask: Bool[Array, "... A"] | None) -> Float[Array, "... A"]:
    """The logits, with minus infinity (probability 0) for forbidden actions. `mask=None` allows all."""
    return logits if mask is None else jnp.where(mask, logits, -jnp.inf)


def restricted(policy: Distribution, mask: Bool[Array, "... A"] | None) -> Distribution:
    """The policy restricted to the actions that a mask allows; unchanged if `mask` is None, as always for a Box."""
    if mask is None:
        return policy
    return policy.replace(logits=masked(policy.logits, mask))  # type: ignore[union-attr]  # only discrete actions


def head_size(space: Space) -> int:
    """The number of network outputs for a distribution over an action space.

    Raises Unsuited for a space that is not Discrete, MultiDiscrete, or a Box with one axis.
    """
    if isinstance(space, Discrete):
        return space.n
    if isinstance(space, MultiDiscrete):
        return sum(space.nvec)
    if isinstance(space, Box) and len(space.shape) == 1:
        return space.shape[0]
    raise Unsuited(f"actions of {space} are not supported: use Discrete, MultiDiscrete, or a Box of one axis.")


def sample_noise(space: Space, key: Key, shape: tuple[int, ...]) -> Array:
    """The noise for samples, with leading axes `shape`, of a distribution over this space. `key` is consumed.

    Standard normal for a Box, Gumbel otherwise.
    """
    size = head_size(space)
    if isinstance(space, Box):
        return jax.random.normal(key, (*shape, size), jnp.float32)
    return jax.random.gumbel(key, (*shape, size), jnp.float32)


def uniform_action(space: Box | Discrete, noise: Array, mask: Any = None) -> Array:
    """A uniformly random action of a bounded space (in its units), computed from noise of `sample_noise`."""
    if isinstance(space, Box):
        return jax.lax.erf(noise * math.sqrt(0.5))
    return Categorical(masked(jnp.zeros_like(noise), mask)).sample(noise)


def check_bounded(space: Space) -> None:
    """Raise Unsuited unless the space is a Box of floats with one axis and finite bounds."""
    if not isinstance(space, Box):
        raise Unsuited(f"its actions are continuous, so it needs actions in a Box, not {space}.")
    head_size(space)
    low, high = space.bounds()
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise Unsuited(
            f"it squashes actions into the bounds of their space, so it needs low < high and both finite, not {space}."
        )
    check_real(space)


def check_real(space: Space) -> None:
    """Raise Unsuited for a Box of integers."""
    if isinstance(space, Box) and not np.issubdtype(space.dtype, np.floating):
        raise Unsuited(f"its actions are real numbers, so it needs a Box of floats, not {space}.")


def as_action(space: Space, sample: Array) -> Array:
    """The action that an environment takes, for a sample or the mode of a distribution over its actions."""
    return from_unit(space, sample) if isinstance(space, Box) else sample.astype(space.dtype)  # type: ignore[union-attr]  # `head_size` refuses others


def revision_of_units(space: Space) -> int:
    """The revision of an agent whose policy head is in the units of a box: 2. In revision 1 it had raw units."""
    return 2 if isinstance(space, Box) else 1


def in_units(space: Box, weights: dict[str, Any]) -> dict[str, Any]:
    """Weights [M, ...] with a policy head (and `log_std`) of revision 1, as weights of revision 2 that act the same."""
    _, _, center, half = units_of(space)
    half = np.where(half == 0, np.float32(1), half)
    head = weights["policy"]
    head = {**head, "kernel": head["kernel"] / half, "bias": (head["bias"] - center) / half}
    spread = {"log_std": weights["log_std"] - np.log(half)} if "log_std" in weights else {}
    return {**weights, "policy": head, **spread}


def distribution(space: Space, head: Array, log_std: Any = None) -> Distribution:
    """The distribution over an action space whose parameters are network outputs. `log_std` is for a Box only."""
    if isinstance(space, Discrete):
        return Categorical(head)
    if isinstance(space, MultiDiscrete):
        return MultiCategorical(head, space.nvec)
    return DiagGaussian(head, jnp.broadcast_to(log_std, head.shape))
