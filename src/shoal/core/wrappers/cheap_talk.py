"""A wrapper that appends a message to observations, with which an ally or an adversary influences how the agent learns.

Source: Lu, Willi, Letcher and Foerster 2023, "Adversarial Cheap Talk" (ICML), sections 3 and 4; the authors' repository
luchris429/adversarial-cheap-talk, `act/evo_utils.py` (`MfosWrapper`, the static network).
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from shoal.core.env import State
from shoal.core.keys import Key
from shoal.core.spaces import Box
from shoal.core.struct import FieldInfo, Number, Struct, hyper, is_concrete, static, struct
from shoal.core.wrappers.base import Wrapper


@struct
class MessageNetwork(Struct):
    """The network that computes a message from an observation: ReLU layers, a linear layer, tanh.

    `layers` holds the weights: a dict with `kernel` [inputs, units] and `bias` [units] for each layer.
    """

    # Stacked: the whole field is one hyperparameter, not each of its leaves.
    layers: tuple[dict[str, Any], ...] = FieldInfo(stacked=True).field()

    @classmethod
    def zeros(cls, sizes: tuple[int, ...]) -> "MessageNetwork":
        """Return a network whose weights and messages are 0. `sizes`: inputs, hidden units, numbers in a message."""
        pairs = zip(sizes[:-1], sizes[1:], strict=True)
        return cls(tuple({"kernel": np.zeros(p, np.float32), "bias": np.zeros(p[1], np.float32)} for p in pairs))

    @classmethod
    def init(cls, key: Key, sizes: tuple[int, ...]) -> "MessageNetwork":
        """Return a network with normal kernels of variance 1 / inputs and zero biases. `key` is consumed."""
        layers = cls.zeros(sizes).layers
        keys = jax.random.split(key, len(layers))
        kernels = [
            jax.random.normal(k, layer["kernel"].shape, jnp.float32) / math.sqrt(len(layer["kernel"]))
            for k, layer in zip(keys, layers, strict=True)
        ]
        return cls(tuple({**layer, "kernel": kernel} for layer, kernel in zip(layers, kernels, strict=True)))

    def __call__(self, obs: Float[Array, "inputs"]) -> Float[Array, "size"]:
        """Return the message for one observation, each number in [-1, 1]."""
        *hidden, last = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), self.layers)
        for layer in hidden:
            obs = jax.nn.relu(obs @ layer["kernel"] + layer["bias"])
        return jnp.tanh(obs @ last["kernel"] + last["bias"])


@struct
class CheapTalk(Wrapper):
    """Append to a vector observation a message of `size` numbers, which a small network computes from it.

        observation' = concatenate([observation, scale * message(observation)])

    `message` is a `MessageNetwork`, whose weights are traced: other weights compile nothing, and each member of a
    population may have its own (`env.message` is a hyperparameter that is a tree). An evolution of `env.message` that
    maximizes the return of the agent finds an ally, one that minimizes it an adversary. Rewards and dynamics are those
    of the inner environment: ally and adversary control nothing but the message.

    Without `message` all weights are 0, and so is every message; the network then has `hidden` layers of ReLU units.
    The default `scale`, 2 pi, is that of the article's experiments in which messages change what an agent learns. For
    messages to a trained agent (`Puppet`) it is pi.

        env = shoal.CheapTalk(shoal.make("CartPole-v1"))
        env = env.replace(message=shoal.MessageNetwork.init(shoal.make_key(0), env.sizes))

    Raises ValueError if observations are no vectors of numbers or the network has other sizes, and TypeError for
    another kind of message.
    """

    message: Any = None
    scale: Number = hyper(2 * math.pi, search=(0.1, 10.0, "log"), valid=(0, 1e6), help="largest number in a message")
    size: int = static(2, help="numbers in a message")
    hidden: tuple[int, ...] = static((64, 64), help="units of the hidden layers of the message network")

    def __post_init__(self) -> None:
        check_channel(type(self).__name__, self.env.observation_space, self.size)
        if min(self.hidden, default=1) < 1:
            raise ValueError(f"hidden={self.hidden} has a layer without units: each must be at least 1.")
        if self.message is None:
            object.__setattr__(self, "message", MessageNetwork.zeros(self.sizes))
        _check_message(self.message, self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the message network: inputs, units of each hidden layer, numbers in a message."""
        return (self.env.observation_space.shape[0], *self.hidden, self.size)  # type: ignore[union-attr]  # it is a Box

    @property
    def observation_space(self) -> Box:
        """The inner vector, then `size` numbers in [-scale, scale]; float32."""
        scale = float(np.max(np.asarray(self.scale))) if is_concrete(self.scale) else math.inf
        return with_message(self.env.observation_space, self.size, scale)

    def observe(self, state: State) -> Float[Array, "n"]:
        """Return the inner observation and the message, float32."""
        obs = self.env.observe(state).astype(jnp.float32)
        return jnp.concatenate([obs, jnp.asarray(self.scale, jnp.float32) * self.message(obs)])


def with_message(space: Any, size: int, scale: float) -> Box:
    """Return a space of vectors with `size` more numbers, which lie in [-scale, scale]; float32."""
    low, high = (np.append(side, [bound] * size) for side, bound in zip(space.bounds(), (-scale, scale), strict=True))
    return Box(low.astype(np.float32), high.astype(np.float32), low.shape)


def check_channel(wrapper: str, space: Any, size: int) -> None:
    """Raise ValueError if a message of `size` numbers cannot be appended to observations of this space."""
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise ValueError(
            f"{wrapper} appends a message to a vector, and the observation space is {space}: put FlattenObservation "
            f"around the environment first."
        )
    if size < 1:
        raise ValueError(f"{wrapper} needs a message of at least one number, not size={size}.")


def _check_message(message: Any, sizes: tuple[int, ...]) -> None:
    """Raise an error for a network of other sizes, apart from leading member axes of its weights."""
    if not isinstance(message, MessageNetwork):
        raise TypeError(
            f"message is a value of {type(message).__name__}: give a shoal.MessageNetwork, such as "
            f"MessageNetwork.init(key, {sizes})."
        )
    expected = jax.tree.leaves(MessageNetwork.zeros(sizes))
    found = jax.tree.leaves(message)
    fits = len(found) == len(expected) and all(
        np.shape(leaf)[-zeros.ndim :] == zeros.shape for leaf, zeros in zip(found, expected, strict=True)
    )
    if not fits:
        kernels = [np.shape(layer["kernel"]) for layer in message.layers]
        raise ValueError(
            f"message has kernels of the shapes {kernels}, and the sizes here are {sizes}: make it with "
            f"MessageNetwork.init(key, env.sizes), or set size and hidden (in a population, add a leading axis [M])."
        )
