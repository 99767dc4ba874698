"""Recurrent cells, GRU and LSTM, which read the output of a torso; `unroll` resets them where an episode begins.

A cell has `init(key, inputs) -> weights` and runs in two ways with the same result: `step` for one observation, and the
function `unroll` for T steps of E environments. `unroll` multiplies all inputs with the input weights in one product
before the loop over time; each step of the loop is one small product of the carry with the weights of all gates.

Axes: D inputs, H units, G = H x the number of gates.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from shoal.core.form import current
from shoal.core.keys import Key
from shoal.nn.dense import apply_dense
from shoal.nn.initializers import orthogonal

Weights = Any


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
        return _init(key, inputs.shape[-1], self.size, bias=(0.0, 1.0, 0.0))

    def initial_carry(self, axes: tuple[int, ...] = ()) -> Float[Array, "*axes H"]:
        """The carry at the start of an episode."""
        return jnp.zeros((*axes, self.size), jnp.float32)

    def output(self, carry: Float[Array, "*axes H"]) -> Float[Array, "*axes H"]:
        """The output of the cell, given its carry."""
        return carry

    def step(
        self, weights: Weights, inputs: Float[Array, "*axes D"], carry: Float[Array, "*axes H"]
    ) -> Float[Array, "*axes H"]:
        """The carry after one more input."""
        return self.advance(carry @ weights["recurrent"], apply_dense(weights["input"], inputs), carry)

    def advance(
        self, carry_part: Float[Array, "*axes G"], input_part: Float[Array, "*axes G"], carry: Float[Array, "*axes H"]
    ) -> Float[Array, "*axes H"]:
        """The carry after one more input: U h and W x + b of all gates, r z n side by side, and h."""
        reset, update, new = jnp.split(input_part, 3, axis=-1)
        carry_reset, carry_update, carry_new = jnp.split(carry_part, 3, axis=-1)
        update = jax.nn.sigmoid(update + carry_update)
        new = jnp.tanh(new + jax.nn.sigmoid(reset + carry_reset) * carry_new)
        return new + update * (carry - new)


class LSTMCarry(NamedTuple):
    """The recurrent carry of an LSTM."""

    cell: Float[Array, "*axes H"]  # c
    hidden: Float[Array, "*axes H"]  # h, the output


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
        return _init(key, inputs.shape[-1], self.size, bias=(0.0, 1.0, 0.0, 0.0))

    def initial_carry(self, axes: tuple[int, ...] = ()) -> LSTMCarry:
        """The carry at the start of an episode."""
        return LSTMCarry(jnp.zeros((*axes, self.size), jnp.float32), jnp.zeros((*axes, self.size), jnp.float32))

    def output(self, carry: LSTMCarry) -> Float[Array, "*axes H"]:
        """The output of the cell, given its carry."""
        return carry.hidden

    def step(self, weights: Weights, inputs: Float[Array, "*axes D"], carry: LSTMCarry) -> LSTMCarry:
        """The carry after one more input."""
        return self.advance(carry.hidden @ weights["recurrent"], apply_dense(weights["input"], inputs), carry)

    def advance(
        self, carry_part: Float[Array, "*axes G"], input_part: Float[Array, "*axes G"], carry: LSTMCarry
    ) -> LSTMCarry:
        """The carry after one more input: U h and W x + b of all gates, i f g o side by side, and c and h."""
        input_gate, forget_gate, new, output_gate = jnp.split(input_part + carry_part, 4, axis=-1)
        cell = jax.nn.sigmoid(forget_gate) * carry.cell + jax.nn.sigmoid(input_gate) * jnp.tanh(new)
        return LSTMCarry(cell, jax.nn.sigmoid(output_gate) * jnp.tanh(cell))


Memory = GRU | LSTM
MEMORIES: dict[str, Any] = {"gru": GRU, "lstm": LSTM}


def unroll(
    memory: Memory, weights: Weights, inputs: Float[Array, "T *axes D"], is_first: Bool[Array, "T *axes"], carry: Any
) -> tuple[Float[Array, "T *axes H"], Any]:
    """Run a cell for T steps: (outputs, carry after each step). The carry is reset before every step with `is_first`.

    `is_first` belongs to the input of the same step: if an episode ended at t - 1, the input at t is the first of the
    next episode. Passing `done` of step t instead would reset one step too early.
    """

    scan = _carries_and_gradient if current().late_weight_gradients else _carries
    carries: Any = scan(memory, weights["recurrent"], apply_dense(weights["input"], inputs), is_first, carry)
    return memory.output(carries), carries


def _carries(
    memory: Memory, recurrent: Float[Array, "H G"], input_part: Float[Array, "T *axes G"], is_first: Any, carry: Any
) -> Any:
    # The carries after each step [T].
    def step(carry: Any, xs: tuple[Array, Array]) -> tuple[Any, Any]:
        input_part, first = xs
        carry = _reset(memory, first, carry)
        carry = memory.advance(memory.output(carry) @ recurrent, input_part, carry)
        return carry, carry

    return jax.lax.scan(step, carry, (input_part, is_first))[1]


def _reset(memory: Memory, is_first: Bool[Array, "*axes"], carry: Any) -> Any:
    start = memory.initial_carry(is_first.shape)
    return jax.tree.map(lambda initial, old: jnp.where(is_first[..., None], initial, old), start, carry)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _carries_and_gradient(memory: Memory, recurrent: Any, input_part: Any, is_first: Any, carry: Any) -> Any:
    """`_carries`, with a gradient of U that is one product after the loop over time.

    JAX's own gradient adds to that of U in every step, which reads and writes all of it each time.
    """
    return _carries(memory, recurrent, input_part, is_first, carry)


def _forward(memory: Memory, recurrent: Any, input_part: Any, is_first: Any, carry: Any) -> tuple[Any, Any]:
    carries = _carries(memory, recurrent, input_part, is_first, carry)
    return carries, (recurrent, input_part, is_first, carry, carries)


def _backward(memory: Memory, saved: Any, of_carries: Any) -> tuple[Any, Any, Any, Any]:
    recurrent, input_part, is_first, first, carries = saved
    before = jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest[:-1]]), first, carries)
    before = _reset(memory, is_first, before)  # the carries from which the steps began

    hidden = memory.output(before)
    carry_part = hidden @ recurrent

    def step(of_next: Any, xs: tuple[Any, ...]) -> tuple[Any, tuple[Array, Array]]:
        of_carry, before, carry_part, input_part, is_first = xs
        _, gradient = jax.vjp(memory.advance, carry_part, input_part, before)
        of_carry_part, of_input_part, of_before = gradient(jax.tree.map(jnp.add, of_carry, of_next))
        through_product = jax.vjp(memory.output, before)[1](of_carry_part @ recurrent.T)[0]
        of_before = jax.tree.map(lambda x, y: jnp.where(is_first[..., None], 0, x + y), of_before, through_product)
        return of_before, (of_carry_part, of_input_part)

    last = jax.tree.map(lambda x: jnp.zeros_like(x[0]), carries)
    of_first, (of_carry_part, of_input_part) = jax.lax.scan(
        step, last, (of_carries, before, carry_part, input_part, is_first), reverse=True
    )
    rows = [x.reshape(-1, x.shape[-1]) for x in (hidden, of_carry_part)]
    return rows[0].T @ rows[1], of_input_part, np.zeros(is_first.shape, jax.dtypes.float0), of_first


_carries_and_gradient.defvjp(_forward, _backward)


def _init(key: Key, inputs: int, size: int, bias: tuple[float, ...]) -> Weights:
    # Each gate has its own orthogonal matrix; the matrices of all gates are concatenated.
    k_input, k_recurrent = jax.random.split(key)

    def gates(key: Key, rows: int) -> Float[Array, "rows G"]:
        matrices = jax.vmap(lambda k: orthogonal()(k, (rows, size)))(jax.random.split(key, len(bias)))
        return jnp.moveaxis(matrices, 0, 1).reshape(rows, len(bias) * size)

    biases = jnp.repeat(jnp.asarray(bias, jnp.float32), size)
    return {"input": {"kernel": gates(k_input, inputs), "bias": biases}, "recurrent": gates(k_recurrent, size)}
