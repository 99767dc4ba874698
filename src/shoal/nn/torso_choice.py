"""Which torso suits which observations, and what each reads of them."""

from typing import Any

from shoal.core.spaces import Space
from shoal.nn.features import flat_features, image_features, is_image
from shoal.nn.tiles import TileNet, has_tiles
from shoal.nn.torsos import CNN, MLP


def default_torso(
    observation_space: Space, hidden: tuple[int, ...], activation: str, *, layer_norm: bool = False
) -> Any:
    """A TileNet where there are images of categories, a CNN for other images, an MLP for everything else."""
    if has_tiles(observation_space):
        return TileNet(observation_space, hidden, activation, layer_norm=layer_norm)
    return CNN(layer_norm=layer_norm) if is_image(observation_space) else MLP(hidden, activation, layer_norm)


def torso_input(torso: Any, space: Space, obs: Any) -> Any:
    """What a torso reads of observations: a TileNet all of it, any other an image or one vector, as floats."""
    if isinstance(torso, TileNet):
        return obs
    if is_image(space) and not isinstance(torso, MLP):
        return image_features(space, obs)  # type: ignore[arg-type]  # is_image means a Box
    return flat_features(space, obs)
