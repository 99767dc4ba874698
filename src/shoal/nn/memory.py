"""Memory: recurrent cells that read a torso's output step by step, and forget where an episode begins.

A cell is a value with `init(key, inputs) -> weights` and two ways to run, which agree: `step` for one observation, and
`unroll` for T steps of E environments. What all inputs contribute is one product before the loop over time; inside it
only the small product with the memory is left, all gates in one.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from shoal.core.keys import Key
from shoal.nn.dense import apply_dense
from shoal.nn.initializers import orthogonal

Weights = Any


class GRU(NamedTuple):
    """A gated recurrent unit of `size` numbers, which are its output too.

        r = sigmoid(W_r x + U_r h + b_r)
        z = sigmoid(W_z x + U_z h + b_z)
        n = tanh(W_n x + r * U_n h + b_n)
        h = (1 - z) n + z h

    Every W and U starts orthogonal, b_z at 1 and other biases at 0: a new cell remembers more than it forgets.
    Source: Cho et al. 2014, with the reset after the product, as in cuDNN.
    """

    size: int

    def init(self, key: Key, inputs: Float[Array, "*axes D"]) -> Weights:
        """Fresh weights. `key` is consumed."""
        return _init(key, inputs.shape[-1], self.size, bias=(0.0, 1.0, 0.0))

    def initial_carry(self, axes: tuple[int, ...] = ()) -> Float[Array, "*axes H"]:
        """The memory at the start of an episode."""
        return jnp.zeros((*axes, self.size), jnp.float32)

    def output(self, carry: Float[Array, "*axes H"]) -> Float[Array, "*axes H"]:
        """What the layers above read of the memory."""
        return carry

    def step(
        self, weights: Weights, inputs: Float[Array, "*axes D"], carry: Float[Array, "*axes H"]
    ) -> Float[Array, "*axes H"]:
        """The memory after one more input."""
        return self.advance(weights, apply_dense(weights["input"], inputs), carry)

    def advance(
        self, weights: Weights, driven: Float[Array, "*axes G"], carry: Float[Array, "*axes H"]
    ) -> Float[Array, "*axes H"]:
        """The memory after an input that was multiplied already."""
        reset, update, new = jnp.split(driven, 3, axis=-1)
        held_reset, held_update, held_new = jnp.split(carry @ weights["recurrent"], 3, axis=-1)
        update = jax.nn.sigmoid(update + held_update)
        new = jnp.tanh(new + jax.nn.sigmoid(reset + held_reset) * held_new)
        return new + update * (carry - new)


class LSTMCarry(NamedTuple):
    """The memory of an LSTM."""

    cell: Float[Array, "*axes H"]
    hidden: Float[Array, "*axes H"]  # what it shows of the cell


class LSTM(NamedTuple):
    """Long short-term memory of `size` numbers.

        c = sigmoid(W_f x + U_f h + b_f) c + sigmoid(W_i x + U_i h + b_i) tanh(W_g x + U_g h + b_g)
        h = sigmoid(W_o x + U_o h + b_o) tanh(c)

    Every W and U starts orthogonal, b_f at 1 and other biases at 0.
    Source: Hochreiter and Schmidhuber 1997; Gers et al. 2000 for f; Jozefowicz et al. 2015 for its bias.
    """

    size: int

    def init(self, key: Key, inputs: Float[Array, "*axes D"]) -> Weights:
        """Fresh weights. `key` is consumed."""
        return _init(key, inputs.shape[-1], self.size, bias=(0.0, 1.0, 0.0, 0.0))

    def initial_carry(self, axes: tuple[int, ...] = ()) -> LSTMCarry:
        """The memory at the start of an episode."""
        return LSTMCarry(jnp.zeros((*axes, self.size), jnp.float32), jnp.zeros((*axes, self.size), jnp.float32))

    def output(self, carry: LSTMCarry) -> Float[Array, "*axes H"]:
        """What the layers above read of the memory."""
        return carry.hidden

    def step(self, weights: Weights, inputs: Float[Array, "*axes D"], carry: LSTMCarry) -> LSTMCarry:
        """The memory after one more input."""
        return self.advance(weights, apply_dense(weights["input"], inputs), carry)

    def advance(self, weights: Weights, driven: Float[Array, "*axes G"], carry: LSTMCarry) -> LSTMCarry:
        """The memory after an input that was multiplied already."""
        write, keep, new, show = jnp.split(driven + carry.hidden @ weights["recurrent"], 4, axis=-1)
        cell = jax.nn.sigmoid(keep) * carry.cell + jax.nn.sigmoid(write) * jnp.tanh(new)
        return LSTMCarry(cell, jax.nn.sigmoid(show) * jnp.tanh(cell))


Memory = GRU | LSTM
MEMORIES: dict[str, Any] = {"gru": GRU, "lstm": LSTM}


def unroll(
    memory: Memory, weights: Weights, inputs: Float[Array, "T *axes D"], is_first: Bool[Array, "T *axes"], carry: Any
) -> tuple[Float[Array, "T *axes H"], Any]:
    """T steps: (outputs, the memory after each step). It is the initial one again before every step that `is_first`.

    `is_first` belongs to the input of the same step: where an episode ended at t - 1, the input at t is already the
    first of the next one. A `done` of step t in its place would forget one step too early.
    """

    def step(carry: Any, xs: tuple[Array, Array]) -> tuple[Any, Any]:
        driven, first = xs
        start = memory.initial_carry(first.shape)
        carry = jax.tree.map(lambda fresh, held: jnp.where(first[..., None], fresh, held), start, carry)
        carry = memory.advance(weights, driven, carry)
        return carry, carry

    _, carries = jax.lax.scan(step, carry, (apply_dense(weights["input"], inputs), is_first))
    return memory.output(carries), carries


def _init(key: Key, inputs: int, size: int, bias: tuple[float, ...]) -> Weights:
    # A matrix of its own for every gate, side by side.
    k_input, k_recurrent = jax.random.split(key)

    def gates(key: Key, rows: int) -> Float[Array, "rows G"]:
        drawn = jax.vmap(lambda k: orthogonal()(k, (rows, size)))(jax.random.split(key, len(bias)))
        return jnp.moveaxis(drawn, 0, 1).reshape(rows, len(bias) * size)

    biases = jnp.repeat(jnp.asarray(bias, jnp.float32), size)
    return {"input": {"kernel": gates(k_input, inputs), "bias": biases}, "recurrent": gates(k_recurrent, size)}
