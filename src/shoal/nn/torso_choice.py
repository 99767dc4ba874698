"""Choose a torso for an observation space, and convert observations to the input of a torso."""

from typing import Any, Protocol, runtime_checkable

import jax
from flax.errors import InvalidRngError

from shoal.core.agent import refuse_ignored
from shoal.core.spaces import Box, Space, leaf_spaces
from shoal.nn.features import flat_features, image_features, is_image
from shoal.nn.film import FiLMNet
from shoal.nn.impala import ImpalaCNN
from shoal.nn.instructions import has_text
from shoal.nn.parts_net import PICTURES, PartsNet, is_picture
from shoal.nn.simba import Simba
from shoal.nn.simba_v2 import SimbaV2
from shoal.nn.tiles import TileNet, has_tiles, is_tiles
from shoal.nn.torsos import MLP, NatureCNN

RESIDUAL = {"simba": Simba, "simbav2": SimbaV2}  # of vectors; they normalize their layers in their own way
TORSOS = ("auto", "mlp", *PICTURES, "tiles", "bow", "film", *RESIDUAL)
TORSO_HELP = (
    "auto: chosen by the observation space; impala: fixed layers; bow: as auto, but reads an instruction as a bag of "
    "words; film: reads one as BabyAI does; simba: residual blocks, one for each item of hidden; simbav2: such blocks "
    "of vectors with length 1"
)
FORMS = ("vector", "image", "observation")  # see `nn/torsos.py`


def default_torso(
    observation_space: Space, hidden: tuple[int, ...], activation: str, *, layer_norm: bool = False
) -> Any:
    """The torso for an observation space.

    A TileNet if the space contains images of categories, convolutions for one other image, a PartsNet if there are
    images among other parts or instructions, an MLP otherwise. The convolutions are `NatureCNN` if all images are large
    enough for it, otherwise `CNN`. Instructions are read by a GRU (`nn/instructions.py`); beside one, a TileNet reads
    each cell by itself, because it finds sooner what the instruction names. Raises ValueError for arrays with four or
    more axes.
    """
    if stack := _stack(observation_space):
        raise ValueError(
            f"observations contain an array of {len(stack.shape)} axes, {stack}, which could be frames of images: no "
            "network is chosen for it. FrameStack(env, n) without a layout puts frames on the channel axis, which "
            "every network reads; torso='mlp' reads all numbers as one vector."
        )
    if has_tiles(observation_space):
        beside_text = {"channels": 32, "kernel": 1, "stride": 1, "cell_channels": 16}
        cells: Any = beside_text if has_text(observation_space) else {}
        return TileNet(observation_space, hidden, activation, layer_norm=layer_norm, **cells)
    if sizes := picture_sizes(observation_space):
        name = "nature" if min(sizes) >= NatureCNN.smallest else "cnn"
        return named_torso(name, observation_space, hidden, activation, layer_norm=layer_norm)
    if has_text(observation_space):
        return PartsNet(observation_space, hidden, activation, layer_norm=layer_norm)
    return MLP(hidden, activation, layer_norm)


def named_torso(
    name: str, observation_space: Space, hidden: tuple[int, ...], activation: str, *, layer_norm: bool = False
) -> Any:
    """The torso with a name from `TORSOS`. Raises ValueError if it cannot read observations of this space."""
    if name == "auto":
        return default_torso(observation_space, hidden, activation, layer_norm=layer_norm)
    if name == "mlp":
        return MLP(hidden, activation, layer_norm)
    if name in RESIDUAL:
        return RESIDUAL[name](hidden, activation)
    if name == "bow":
        if has_text(observation_space):
            return default_torso(observation_space, hidden, activation, layer_norm=layer_norm).clone(encoder="bow")
        raise ValueError(f"torso='bow' needs a text, and there is none in {observation_space}: leave out torso.")
    if name == "film":
        channels, *dense = hidden or (0,)
        return FiLMNet(observation_space, channels, tuple(dense), activation, layer_norm=layer_norm)
    if name == "tiles":
        if has_tiles(observation_space):
            return TileNet(observation_space, hidden, activation, layer_norm=layer_norm, encoder="positions")
        raise ValueError(
            f"torso='tiles' needs images of categories, and there are none in {observation_space}: leave out torso."
        )
    if has_tiles(observation_space):
        raise ValueError(f"torso={name!r} reads colors, and the images here hold categories: leave out torso.")
    sizes = picture_sizes(observation_space)
    if name == "nature" and sizes and min(sizes) < NatureCNN.smallest:
        raise ValueError(
            f"torso='nature' needs images of at least {NatureCNN.smallest} x {NatureCNN.smallest}, and they are "
            f"smaller in {observation_space}: leave out torso."
        )
    if is_picture(observation_space):
        if name == "impala":
            return ImpalaCNN(layer_norm=layer_norm)
        return PICTURES[name](hidden=hidden, activation=activation, layer_norm=layer_norm)
    if sizes:
        return PartsNet(observation_space, hidden, activation, name, layer_norm)
    raise ValueError(f"torso={name!r} needs images, and there are none in {observation_space}: leave out torso.")


@runtime_checkable
class TorsoFields(Protocol):
    """The fields of an agent from which its torso is chosen."""

    @property
    def network(self) -> Any:
        """The user's own torso, or None."""

    @property
    def torso(self) -> str:
        """One of `TORSOS`."""
        ...

    @property
    def hidden(self) -> tuple[int, ...]:
        """Units of each dense layer."""
        ...

    @property
    def activation(self) -> str:
        """The activation function of every layer: a name."""
        ...

    @property
    def normalize_observation(self) -> bool:
        """Whether observations are normalized before the torso reads them."""
        ...


def chosen_torso(agent: TorsoFields, observation_space: Space, *, layer_norm: bool = False) -> Any:
    """The torso of an agent for an observation space: its field `network`, or the torso that `torso` names.

    Raises TypeError for a `network` without `init` and `apply`. Raises ValueError for a torso that cannot read the
    observations, for fields that the torso would ignore, and for observations that cannot be normalized.
    """
    if agent.normalize_observation:
        _check_numbers(observation_space)
    if agent.network is None:
        if agent.torso == "impala" and is_picture(observation_space):
            refuse_ignored(agent, "in this network, whose layers are fixed", "hidden", "activation")  # type: ignore[arg-type]  # of an agent
        if agent.torso in RESIDUAL and hasattr(agent, "layer_norm"):
            refuse_ignored(agent, "in this network, which normalizes its layers in its own way", "layer_norm")  # type: ignore[arg-type]  # of an agent
        return named_torso(agent.torso, observation_space, agent.hidden, agent.activation, layer_norm=layer_norm)
    if isinstance(agent.network, type) or not all(callable(getattr(agent.network, x, None)) for x in ("init", "apply")):
        raise TypeError(
            f"network={agent.network!r} must have init(key, features) and apply(weights, features), as an instance of "
            "a flax.linen module has. docs/networks.md shows what to write for flax.nnx and equinox."
        )
    form_read(agent.network, observation_space)
    return agent.network


def picture_sizes(space: Space) -> list[int]:
    """Heights and widths of all images that a space is, or contains in a Dict or Tuple."""
    return [size for part in leaf_spaces(space) if is_picture(part) for size in part.shape[:2]]


def is_normalizable(leaf: Any) -> bool:
    """Whether a part of an observation is an array of numbers, which normalization may scale."""
    return isinstance(leaf, Box) and not is_tiles(leaf)


def _check_numbers(space: Space) -> None:
    """Raise ValueError for observations that cannot be normalized: some part must be an array of numbers."""
    if not any(map(is_normalizable, leaf_spaces(space))):
        what = "images of categories" if has_tiles(space) else str(space)
        raise ValueError(f"normalize_observation=True needs observations that are arrays of numbers, not {what}.")


def _stack(space: Space) -> Box | None:
    """The first part of an observation space with more than three axes, or None."""
    return next((part for part in leaf_spaces(space) if isinstance(part, Box) and len(part.shape) > 3), None)


def form_read(torso: Any, space: Space) -> str:
    """The form in which a torso reads observations: its attribute `reads`, or a default by the space. One of `FORMS`.

    Raises ValueError for an unknown form, and for a torso that reads images if the space is not one of images.
    """
    form = getattr(torso, "reads", None)
    if form is None:
        return "image" if is_image(space) else "vector"
    if form not in FORMS:
        raise ValueError(f"{type(torso).__name__}.reads={form!r} is unknown. Choose one of {', '.join(FORMS)}.")
    if form == "image" and not is_image(space):
        raise ValueError(f"{type(torso).__name__} reads one image [H, W, C], and observations here are {space}.")
    return form


def torso_input(torso: Any, space: Space, obs: Any) -> Any:
    """Convert an observation with any leading axes to the form that a torso reads."""
    form = form_read(torso, space)
    if form == "observation":
        return obs
    if form == "image":
        return image_features(space, obs)  # type: ignore[arg-type]  # an image is a Box
    return flat_features(space, obs)


def hidden_units(torso: Any, weights: Any, features: Any) -> int:
    """Return the number of units H of the hidden vectors [..., H] that a torso returns for features.

    Raises TypeError for a network of the user's own that returns anything else, and ValueError for one with random
    layers.
    """
    try:
        hidden = jax.eval_shape(torso.apply, weights, features)
    except InvalidRngError as error:
        layer = str(error).partition(" ")[0]
        raise ValueError(
            f"network={type(torso).__name__}: its layer {layer} needs random numbers, but networks get no random key "
            "when they are applied. Leave the layer out, or switch it off: nn.Dropout(0.1, deterministic=True)."
        ) from None
    if getattr(hidden, "shape", ()):
        return hidden.shape[-1]
    returned = "one number" if hasattr(hidden, "shape") else f"a {type(hidden).__name__}"
    raise TypeError(
        f"network={type(torso).__name__} returned {returned}. A torso returns one hidden vector [..., H] for each "
        "observation; the agent adds the heads for actions and values itself. docs/networks.md shows an example."
    )


def is_dense(torso: Any) -> bool:
    """Whether a torso declares `is_dense = True`: all its layers are matrix products (`nn/torsos.py`)."""
    return getattr(torso, "is_dense", False)
