"""The minimal gated recurrent unit (minGRU), whose gates do not see its carry."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.keys import Key
from shoal.nn.dense import apply_dense
from shoal.nn.initializers import orthogonal
from shoal.nn.memory.contract import Weights, named
from shoal.nn.memory.scan import linear_recurrence


@named("mingru")
class MinGRU(NamedTuple):
    """A minimal gated recurrent unit with `size` units. Its carry h is also its output.

        z = sigmoid(W_z x + b_z)
        h = (1 - z) h + z (W_n x + b_n)

    The gates depend on the input alone, so h is a linear recurrence, and all T steps are computed together.
    Initially W_z and W_n are orthogonal, b_n is 0, and the units forget at different rates: the logarithm of
    sigmoid(b_z) is spaced evenly from that of 1/2 to that of 1/500.
    Source: Feng et al. 2024, "Were RNNs all we needed?", section 3.1. Different: b_z; with 0 each unit would forget
    half of its carry in every step.
    """

    size: int

    def init(self, key: Key, inputs: Float[Array, "*axes D"]) -> Weights:
        """Initial weights, for inputs of this size. `key` is consumed."""
        k_update, k_new = jax.random.split(key)
        kernels = [orthogonal()(k, (inputs.shape[-1], self.size)) for k in (k_update, k_new)]
        fastest, slowest = jnp.log(jnp.float32(1 / 2)), jnp.log(jnp.float32(1 / 500))
        rate = jnp.exp(jnp.linspace(fastest, slowest, self.size, dtype=jnp.float32))
        bias = jnp.concatenate([jnp.log(rate / (1 - rate)), jnp.zeros((self.size,), jnp.float32)])
        return {"kernel": jnp.concatenate(kernels, axis=1), "bias": bias}

    def initial_carry(self, axes: tuple[int, ...] = ()) -> Float[Array, "*axes H"]:
        """The carry at the start of an episode."""
        return jnp.zeros((*axes, self.size), jnp.float32)

    def step(
        self, weights: Weights, inputs: Float[Array, "*axes D"], carry: Float[Array, "*axes H"]
    ) -> tuple[Float[Array, "*axes H"], Float[Array, "*axes H"]]:
        """(output, next carry) for one input."""
        decay, added = _decay_and_added(weights, inputs)
        carry = decay * carry + added
        return carry, carry

    def unroll(self, weights: Weights, inputs: Float[Array, "T *axes D"], is_first: Any, carry: Any) -> tuple[Any, Any]:
        """(outputs, carry after each step) for T inputs, reset before every step with `is_first`."""
        carries = linear_recurrence(*_decay_and_added(weights, inputs), is_first, carry)
        return carries, carries


def _decay_and_added(weights: Weights, inputs: Float[Array, "*axes D"]) -> tuple[Array, Array]:
    # 1 - z and z (W_n x + b_n). The sigmoid of the negative keeps its digits where z is near 1.
    update, new = jnp.split(apply_dense(weights, inputs), 2, axis=-1)
    return jax.nn.sigmoid(-update), jax.nn.sigmoid(update) * new
