"""SimBa V2, a torso whose features and weight vectors all have length 1, so that neither grows in a long training.

Source: Lee et al. 2025, "Hyperspherical normalization for scalable deep reinforcement learning", section 4, and its
code (github.com/DAVIAN-Robotics/SimbaV2).
"""

import math
from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from shoal.nn.dense import along_last_axis
from shoal.nn.initializers import orthogonal
from shoal.nn.simba import EXPANSION, check_equal_sizes
from shoal.nn.torsos import ACTIVATIONS

SHIFT = 3.0  # the number beside the features: without it, features that differ in length only would be the same
SHORTEST = 1e-8  # a vector that is shorter is not made longer


class SimbaV2(nn.Module):
    """An embedding of the features as a vector of length 1, and blocks that turn it; one for each item of `hidden`.

    A block computes another vector of length 1 by two layers, the first with four times as many units, and moves its
    input towards it, by a share that is learned for each unit. The layers have no biases. All items of `hidden` must be
    equal: the paper has (128,) for the policy and (512, 512) for the critics, where agents here give both the same.

    Differences from the paper: weight vectors are divided by their length where they are used, not after every gradient
    step, so that every agent can train them. Gradients are then at right angles to them, and each step makes them a
    little longer, which works like a falling learning rate. Heads are those of the agent, without a second layer. The
    critics predict what they predict in each agent, not a categorical distribution. The paper normalizes observations
    with moving statistics: `normalize_observation=True`. It also normalizes rewards, as `normalize_reward=True` does
    where an agent has it.
    """

    reads: ClassVar[str] = "vector"

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "relu"

    def __post_init__(self) -> None:
        check_equal_sizes("simbav2", self.hidden)
        super().__post_init__()

    @nn.compact
    def __call__(self, features: Float[Array, "*axes D"]) -> Float[Array, "*axes hidden"]:
        """Map features [D] to a vector of length 1."""
        width, scale = self.hidden[0], math.sqrt(2 / self.hidden[0])
        shift = jnp.full((*features.shape[:-1], 1), SHIFT, features.dtype)
        x = _unit(jnp.concatenate([features, shift], axis=-1))
        x = _unit(Scale(scale, scale)(UnitDense(width)(x)))
        for _ in self.hidden:
            inner = Scale(scale / math.sqrt(EXPANSION), scale / math.sqrt(EXPANSION))(UnitDense(EXPANSION * width)(x))
            inner = ACTIVATIONS[self.activation](inner) + SHORTEST  # not all zero, which has no direction
            towards = _unit(UnitDense(width)(inner))
            share = Scale(1 / (len(self.hidden) + 1), 1 / math.sqrt(width))
            x = _unit(x + share(towards - x))
        return x


class UnitDense(nn.Module):
    """A layer without biases whose weight vectors, the columns of its kernel, are used with length 1."""

    units: int

    @nn.compact
    def __call__(self, x: Float[Array, "*axes n"]) -> Float[Array, "*axes units"]:
        """The products of `x` with each weight vector."""
        kernel = self.param("kernel", orthogonal(), (x.shape[-1], self.units))
        return x @ _unit(kernel, axis=0)


class Scale(nn.Module):
    """A factor for each unit, which is `first` at the start. It is stored as a weight that begins as `stored`.

    Adam's steps do not depend on the size of a weight, so `stored` says how fast the factor can change.
    """

    first: float
    stored: float

    @nn.compact
    def __call__(self, x: Float[Array, "*axes n"]) -> Float[Array, "*axes n"]:
        """`x` times the factors."""
        weight = self.param("scale", nn.initializers.constant(self.stored), (x.shape[-1],))
        return x * along_last_axis(weight * (self.first / self.stored), x.ndim)


def _unit(x: Float[Array, "*axes"], axis: int = -1) -> Float[Array, "*axes"]:
    # The vectors along an axis with length 1. Where a vector is zero, so are result and gradient.
    return x * lax.rsqrt(jnp.maximum(jnp.sum(x * x, axis=axis, keepdims=True), SHORTEST**2))
