"""Which torso suits which observations, and what each reads of them."""

from typing import Any

from shoal.core.spaces import Box, Dict, Space, Tuple, only_boxes
from shoal.nn.features import flat_features, image_features, is_image
from shoal.nn.parts_net import PICTURES, PartsNet, is_picture
from shoal.nn.tiles import TileNet, has_tiles
from shoal.nn.torsos import CNN, MLP

TORSOS = ("auto", "mlp", *PICTURES)


def default_torso(
    observation_space: Space, hidden: tuple[int, ...], activation: str, *, layer_norm: bool = False
) -> Any:
    """A TileNet where there are images of categories, a CNN for other images, a PartsNet where there are such among
    other parts, an MLP for everything else. Raises ValueError for arrays of four or more axes.
    """
    if stack := _stack(observation_space):
        raise ValueError(
            f"observations hold an array of {len(stack.shape)} axes, {stack}, which could be frames of pictures: no "
            "network is chosen for it. FrameStack(env, n) without a layout puts frames on the channel axis, which "
            "every network reads; torso='mlp' reads all numbers as one vector."
        )
    if has_tiles(observation_space):
        return TileNet(observation_space, hidden, activation, layer_norm=layer_norm)
    if is_picture(observation_space):
        return CNN(hidden=hidden, activation=activation, layer_norm=layer_norm)
    if has_pictures(observation_space):
        return PartsNet(observation_space, hidden, activation, layer_norm=layer_norm)
    return MLP(hidden, activation, layer_norm)


def named_torso(name: str, observation_space: Space, hidden: tuple[int, ...], activation: str) -> Any:
    """The torso of a name among `TORSOS`. Raises ValueError for one of pictures where there are none."""
    if name == "auto":
        return default_torso(observation_space, hidden, activation)
    if name == "mlp":
        return MLP(hidden, activation)
    if has_tiles(observation_space):
        raise ValueError(f"torso={name!r} reads colors, and the images here hold categories: leave torso out.")
    if is_picture(observation_space):
        return CNN(hidden=hidden, activation=activation) if name == "cnn" else PICTURES[name]()
    if has_pictures(observation_space):
        return PartsNet(observation_space, hidden, activation, name)
    raise ValueError(f"torso={name!r} needs pictures, and there are none in {observation_space}: leave torso out.")


def check_numbers(space: Space) -> None:
    """Raise ValueError for observations that cannot be normalized: those that are not all arrays of numbers."""
    if not only_boxes(space) or has_tiles(space):
        what = "images of categories" if has_tiles(space) else str(space)
        raise ValueError(f"normalize_observation=True needs observations that are arrays of numbers, not {what}.")


def has_pictures(space: Space) -> bool:
    """Whether pictures are among the parts of an observation."""
    if isinstance(space, Dict):
        return any(has_pictures(part) for _, part in space.spaces)
    if isinstance(space, Tuple):
        return any(has_pictures(part) for part in space.spaces)
    return is_picture(space)


def _stack(space: Space) -> Box | None:
    """An array of more axes than a picture has, if one is among the parts of an observation."""
    if isinstance(space, (Dict, Tuple)):
        within = space.spaces if isinstance(space, Tuple) else (part for _, part in space.spaces)
        return next(filter(None, map(_stack, within)), None)
    return space if isinstance(space, Box) and len(space.shape) > 3 else None


def torso_input(torso: Any, space: Space, obs: Any) -> Any:
    """What a torso reads of observations: a TileNet or a PartsNet all of it, any other an image or one vector, as
    floats.
    """
    if isinstance(torso, (TileNet, PartsNet)):
        return obs
    if is_image(space) and not isinstance(torso, MLP):
        return image_features(space, obs)  # type: ignore[arg-type]  # is_image means a Box
    return flat_features(space, obs)
