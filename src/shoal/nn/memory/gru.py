"""The gated recurrent unit (GRU)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.keys import Key
from shoal.nn.memory.cells import init_cell, step_of_cell, unroll_cell
from shoal.nn.memory.contract import Weights, named


@named("gru")
class GRU(NamedTuple):
    """A gated recurrent unit with `size` units. Its carry h is also its output.

        r = sigmoid(W_r x + U_r h + b_r)
        z = sigmoid(W_z x + U_z h + b_z)
        n = tanh(W_n x + r * U_n h + b_n)
        h = (1 - z) n + z h

    Initially every W and U is orthogonal, b_z is 1 and the other biases are 0, so that a new cell keeps most of h.
    Source: Cho et al. 2014, with the reset gate applied after the product, as in cuDNN.
    """

    size: int

    def init(self, key: Key, inputs: Float[Array, "*axes D"]) -> Weights:
        """Initial weights, for inputs of this size. `key` is consumed."""
        return init_cell(key, inputs.shape[-1], self.size, bias=(0.0, 1.0, 0.0))

    def initial_carry(self, axes: tuple[int, ...] = ()) -> Float[Array, "*axes H"]:
        """The carry at the start of an episode."""
        return jnp.zeros((*axes, self.size), jnp.float32)

    def output(self, carry: Float[Array, "*axes H"]) -> Float[Array, "*axes H"]:
        """The output of the cell, given its carry."""
        return carry

    def step(
        self, weights: Weights, inputs: Float[Array, "*axes D"], carry: Float[Array, "*axes H"]
    ) -> tuple[Float[Array, "*axes H"], Float[Array, "*axes H"]]:
        """(output, next carry) for one input."""
        return step_of_cell(self, weights, inputs, carry)

    def unroll(self, weights: Weights, inputs: Float[Array, "T *axes D"], is_first: Any, carry: Any) -> tuple[Any, Any]:
        """(outputs, carry after each step) for T inputs, reset before every step with `is_first`."""
        return unroll_cell(self, weights, inputs, is_first, carry)

    def advance(
        self, carry_part: Float[Array, "*axes G"], input_part: Float[Array, "*axes G"], carry: Float[Array, "*axes H"]
    ) -> Float[Array, "*axes H"]:
        """The carry after one more input: U h and W x + b of all gates, r z n side by side, and h."""
        reset, update, new = jnp.split(input_part, 3, axis=-1)
        carry_reset, carry_update, carry_new = jnp.split(carry_part, 3, axis=-1)
        update = jax.nn.sigmoid(update + carry_update)
        new = jnp.tanh(new + jax.nn.sigmoid(reset + carry_reset) * carry_new)
        return new + update * (carry - new)
