"""Torsos: networks from what is observed to a hidden vector. Agents put their heads on top.

Any object with `init(key, features) -> weights` and `apply(weights, features) -> hidden`, both for any leading axes,
serves as a torso: a flax module, for one. Two attributes of its class say more; both may be left out.

`reads` is the form of an observation that it takes for `features`:

- "vector": float numbers [D]: choices one-hot, arrays flattened, parts of tuples and dicts side by side;
- "image": one picture [H, W, C] as floats; the observation must be one;
- "observation": what the environment gives, as it is;
- left out: "image" where the observation is one array of three axes, else "vector".

`is_dense = True` says that its layers are products with matrices of weights. Actor and critic of a PPO agent then learn
from one batched product for both, and on a CPU a library computes the products of large networks
(`Agent.weights_per_step`). Left out, it is False: right for every torso, but slower for a dense one.
"""

import math
from collections.abc import Callable
from typing import ClassVar

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from shoal.nn.convolution import Conv
from shoal.nn.initializers import INITIALIZERS

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jax.numpy.tanh,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
}


class MLP(nn.Module):
    """Dense layers with zero biases. `initializer` is one of `shoal.nn.initializers.INITIALIZERS`."""

    reads: ClassVar[str] = "vector"
    is_dense: ClassVar[bool] = True

    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    layer_norm: bool = False  # before every activation (Ba et al. 2016), as parallel Q-learning needs it
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, features: Float[Array, "*axes D"]) -> Float[Array, "*axes hidden"]:
        """Features to the last hidden layer."""
        for size in self.hidden:
            features = nn.Dense(size, kernel_init=INITIALIZERS[self.initializer])(features)
            features = nn.LayerNorm()(features) if self.layer_norm else features
            features = ACTIVATIONS[self.activation](features)
        return features


class CNN(nn.Module):
    """3x3 convolutions, then dense layers; for small pictures such as MinAtar's."""

    reads: ClassVar[str] = "image"

    channels: tuple[int, ...] = (16,)
    hidden: tuple[int, ...] = (128,)
    activation: str = "relu"
    layer_norm: bool = False
    initializer: str = "orthogonal"

    @nn.compact
    def __call__(self, features: Float[Array, "*axes H W C"]) -> Float[Array, "*axes hidden"]:
        """Image to the last hidden layer."""
        activation = ACTIVATIONS[self.activation]
        axes = features.shape[:-3]
        images = features.reshape(math.prod(axes), *features.shape[-3:])
        for size in self.channels:
            images = Conv(size, initializer=self.initializer)(images)
            images = activation(nn.LayerNorm()(images) if self.layer_norm else images)
        dense = MLP(self.hidden, self.activation, self.layer_norm, self.initializer)
        return dense(images.reshape(*axes, math.prod(images.shape[1:])))
