"""A torso for observations of several parts, some of which are images or instructions."""

from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.spaces import Space, leaf_pairs
from shoal.nn.features import flat_features, image_features, is_image
from shoal.nn.impala import ImpalaCNN
from shoal.nn.instructions import check_encoder, encoder_of, is_text
from shoal.nn.torsos import CNN, MLP, NatureCNN

PICTURES = {"cnn": CNN, "nature": NatureCNN, "impala": ImpalaCNN}
SMALLEST = 3  # smallest height and width: that of a convolution kernel


class PartsNet(nn.Module):
    """Networks for the images and instructions in an observation; then dense layers on these and all other parts.

    `pictures` selects the convolutions: "cnn" (`CNN`), "nature" (`NatureCNN`), or "impala" (`ImpalaCNN`, with its own
    activation); `encoder` what reads instructions, see `nn/instructions.py`. The input is an observation of `space`,
    unchanged.
    """

    reads: ClassVar[str] = "observation"

    space: Space
    hidden: tuple[int, ...] = (64, 64)
    activation: str = "relu"
    pictures: str = "cnn"
    layer_norm: bool = False  # in dense layers and convolutions
    encoder: str = "gru"  # or "bow"

    def __post_init__(self) -> None:
        check_encoder(self.encoder)
        super().__post_init__()

    @nn.compact
    def __call__(self, obs: object) -> Float[Array, "*axes hidden"]:
        """Map observations to the last hidden layer."""
        options = {} if self.pictures == "impala" else {"activation": self.activation}
        features = []
        for space, part in leaf_pairs(self.space, obs):
            if is_picture(space):
                image = image_features(space, part)  # type: ignore[arg-type]  # a picture is a Box
                features.append(PICTURES[self.pictures](hidden=(), layer_norm=self.layer_norm, **options)(image))
            elif is_text(space):
                features.append(encoder_of(self.encoder, space)(part))
            else:
                features.append(flat_features(space, part))
        return MLP(self.hidden, self.activation, self.layer_norm)(jnp.concatenate(features, axis=-1))


def is_picture(space: Space) -> bool:
    """Whether the space is a Box of images that are at least as large as a convolution kernel."""
    return is_image(space) and min(space.shape[:2]) >= SMALLEST  # type: ignore[union-attr]  # an image is a Box
