"""A torso for observations of several parts, some of them pictures."""

from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.spaces import Space
from shoal.nn.features import flat_features, image_features, is_image, parts
from shoal.nn.impala import ImpalaCNN
from shoal.nn.torsos import CNN, MLP

PICTURES = {"cnn": CNN, "impala": ImpalaCNN}
SMALLEST = 3  # a picture has at least as many pixels along each side as a kernel


class PartsNet(nn.Module):
    """Convolutions for every picture among the parts, then dense layers that read them beside all other parts.

    `pictures` says which: those of a `CNN` or of an `ImpalaCNN`, which keeps its own activation. Reads observations of
    `space` as they are.
    """

    reads: ClassVar[str] = "observation"

    space: Space
    hidden: tuple[int, ...] = (64, 64)
    activation: str = "relu"
    pictures: str = "cnn"
    layer_norm: bool = False  # of dense layers and convolutions

    @nn.compact
    def __call__(self, obs: object) -> Float[Array, "*axes hidden"]:
        """Observation to the last hidden layer."""
        own = {} if self.pictures == "impala" else {"activation": self.activation}
        features = []
        for space, part in parts(self.space, obs):
            if is_picture(space):
                image = image_features(space, part)  # type: ignore[arg-type]  # a picture is a Box
                features.append(PICTURES[self.pictures](hidden=(), layer_norm=self.layer_norm, **own)(image))
            else:
                features.append(flat_features(space, part))
        return MLP(self.hidden, self.activation, self.layer_norm)(jnp.concatenate(features, axis=-1))


def is_picture(space: Space) -> bool:
    """Whether observations are images that a kernel fits into."""
    return is_image(space) and min(space.shape[:2]) >= SMALLEST  # type: ignore[union-attr]  # an image is a Box
