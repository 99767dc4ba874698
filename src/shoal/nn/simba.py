"""SimBa, a torso of residual blocks for vectors, which can be large without overfitting to early samples.

Source: Lee et al. 2024, "SimBa: Simplicity bias for scaling up parameters in deep reinforcement learning", section 4.
"""

from typing import ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from shoal.nn.initializers import INITIALIZERS, orthogonal
from shoal.nn.torsos import ACTIVATIONS

EXPANSION = 4  # units inside a block for each unit of its input


class Simba(nn.Module):
    """A dense layer, residual blocks, and layer normalization at the end; one block for each item of `hidden`.

    A block adds to its input two dense layers of the normalized input, the first with four times as many units. All
    items of `hidden` must be equal: the paper has (128,) for the policy and (512, 512) for the critics, where agents
    here give both the same. The paper normalizes observations with moving statistics: `normalize_observation=True`.
    It also decays weights; no agent here does.
    """

    reads: ClassVar[str] = "vector"

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "relu"

    def __post_init__(self) -> None:
        check_equal_sizes("simba", self.hidden)
        super().__post_init__()

    @nn.compact
    def __call__(self, features: Float[Array, "*axes D"]) -> Float[Array, "*axes hidden"]:
        """Map features [D] to the normalized sum of all blocks."""
        width = self.hidden[0]
        x = nn.Dense(width, kernel_init=orthogonal())(features)
        for _ in self.hidden:
            inner = nn.Dense(EXPANSION * width, kernel_init=INITIALIZERS["he_normal"])(nn.LayerNorm()(x))
            inner = ACTIVATIONS[self.activation](inner)
            x = x + nn.Dense(width, kernel_init=INITIALIZERS["he_normal"])(inner)
        return nn.LayerNorm()(x)


def check_equal_sizes(torso: str, hidden: tuple[int, ...]) -> None:
    """Raise ValueError unless all residual blocks of a torso have the same number of units."""
    if len(set(hidden)) != 1:
        equal = (max(hidden, default=128),) * max(len(hidden), 1)
        raise ValueError(
            f"hidden={hidden} does not fit torso={torso!r}, whose blocks all have the same number of units. "
            f"Try hidden={equal}."
        )
