"""Long short-term memory (LSTM)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.keys import Key
from shoal.nn.memory.cells import init_cell, step_of_cell, unroll_cell
from shoal.nn.memory.contract import Weights, named


class LSTMCarry(NamedTuple):
    """The recurrent carry of an LSTM."""

    cell: Float[Array, "*axes H"]  # c
    hidden: Float[Array, "*axes H"]  # h, the output


@named("lstm")
class LSTM(NamedTuple):
    """Long short-term memory with `size` units.

        c = sigmoid(W_f x + U_f h + b_f) c + sigmoid(W_i x + U_i h + b_i) tanh(W_g x + U_g h + b_g)
        h = sigmoid(W_o x + U_o h + b_o) tanh(c)

    Initially every W and U is orthogonal, b_f is 1 and the other biases are 0.
    Source: Hochreiter and Schmidhuber 1997; Gers et al. 2000 for f; Jozefowicz et al. 2015 for its bias.
    """

    size: int

    def init(self, key: Key, inputs: Float[Array, "*axes D"]) -> Weights:
        """Initial weights, for inputs of this size. `key` is consumed."""
        return init_cell(key, inputs.shape[-1], self.size, bias=(0.0, 1.0, 0.0, 0.0))

    def initial_carry(self, axes: tuple[int, ...] = ()) -> LSTMCarry:
        """The carry at the start of an episode."""
        return LSTMCarry(jnp.zeros((*axes, self.size), jnp.float32), jnp.zeros((*axes, self.size), jnp.float32))

    def output(self, carry: LSTMCarry) -> Float[Array, "*axes H"]:
        """The output of the cell, given its carry."""
        return carry.hidden

    def step(
        self, weights: Weights, inputs: Float[Array, "*axes D"], carry: LSTMCarry
    ) -> tuple[Float[Array, "*axes H"], LSTMCarry]:
        """(output, next carry) for one input."""
        return step_of_cell(self, weights, inputs, carry)

    def unroll(self, weights: Weights, inputs: Float[Array, "T *axes D"], is_first: Any, carry: Any) -> tuple[Any, Any]:
        """(outputs, carry after each step) for T inputs, reset before every step with `is_first`."""
        return unroll_cell(self, weights, inputs, is_first, carry)

    def advance(
        self, carry_part: Float[Array, "*axes G"], input_part: Float[Array, "*axes G"], carry: LSTMCarry
    ) -> LSTMCarry:
        """The carry after one more input: U h and W x + b of all gates, i f g o side by side, and c and h."""
        input_gate, forget_gate, new, output_gate = jnp.split(input_part + carry_part, 4, axis=-1)
        cell = jax.nn.sigmoid(forget_gate) * carry.cell + jax.nn.sigmoid(input_gate) * jnp.tanh(new)
        return LSTMCarry(cell, jax.nn.sigmoid(output_gate) * jnp.tanh(cell))
