"""The loop over time of recurrent cells, GRU and LSTM, whose gates are products with the last output.

A cell computes its next carry in `advance`, from W x + b and U h of all gates. `unroll_cell` multiplies all inputs with
W in one product before the loop over time; each step of the loop is one small product of the last output with U.

Axes: D inputs, H units, G = H x the number of gates.
"""

from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from shoal.core.form import current
from shoal.core.keys import Key
from shoal.nn.dense import apply_dense
from shoal.nn.initializers import orthogonal
from shoal.nn.memory.contract import Weights
from shoal.nn.memory.scan import reset


@runtime_checkable
class Cell(Protocol):
    """The parts of a recurrent cell that its loop needs."""

    def initial_carry(self, axes: tuple[int, ...] = ()) -> Any:
        """The carry at the start of an episode."""
        ...

    def output(self, carry: Any) -> Float[Array, "*axes H"]:
        """The output of the cell, given its carry."""
        ...

    def advance(self, carry_part: Float[Array, "*axes G"], input_part: Float[Array, "*axes G"], carry: Any) -> Any:
        """The carry after one more input: U h and W x + b of all gates side by side, and the carry before it."""
        ...


def init_cell(key: Key, inputs: int, size: int, bias: tuple[float, ...]) -> Weights:
    """Initial weights of a cell with one gate for each bias. `key` is consumed.

    Each gate has its own orthogonal matrices W and U; those of all gates are concatenated.
    """
    k_input, k_recurrent = jax.random.split(key)

    def gates(key: Key, rows: int) -> Float[Array, "rows G"]:
        matrices = jax.vmap(lambda k: orthogonal()(k, (rows, size)))(jax.random.split(key, len(bias)))
        return jnp.moveaxis(matrices, 0, 1).reshape(rows, len(bias) * size)

    biases = jnp.repeat(jnp.asarray(bias, jnp.float32), size)
    return {"input": {"kernel": gates(k_input, inputs), "bias": biases}, "recurrent": gates(k_recurrent, size)}


def step_of_cell(cell: Cell, weights: Weights, inputs: Float[Array, "*axes D"], carry: Any) -> tuple[Any, Any]:
    """(output, next carry) for one input."""
    carry = cell.advance(cell.output(carry) @ weights["recurrent"], apply_dense(weights["input"], inputs), carry)
    return cell.output(carry), carry


def unroll_cell(
    cell: Cell, weights: Weights, inputs: Float[Array, "T *axes D"], is_first: Any, carry: Any
) -> tuple[Float[Array, "T *axes H"], Any]:
    """(outputs, carry after each step) for T inputs, reset before every step with `is_first`."""
    scan = _carries_and_gradient if current().late_weight_gradients else _carries
    carries: Any = scan(cell, weights["recurrent"], apply_dense(weights["input"], inputs), is_first, carry)
    return cell.output(carries), carries


def _carries(
    cell: Cell, recurrent: Float[Array, "H G"], input_part: Float[Array, "T *axes G"], is_first: Any, carry: Any
) -> Any:
    # The carries after each step [T].
    def step(carry: Any, xs: tuple[Array, Array]) -> tuple[Any, Any]:
        input_part, first = xs
        carry = reset(cell, first, carry)
        carry = cell.advance(cell.output(carry) @ recurrent, input_part, carry)
        return carry, carry

    return jax.lax.scan(step, carry, (input_part, is_first))[1]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _carries_and_gradient(cell: Cell, recurrent: Any, input_part: Any, is_first: Any, carry: Any) -> Any:
    """`_carries`, with a gradient of U that is one product after the loop over time.

    JAX's own gradient adds to that of U in every step, which reads and writes all of it each time.
    """
    return _carries(cell, recurrent, input_part, is_first, carry)


def _forward(cell: Cell, recurrent: Any, input_part: Any, is_first: Any, carry: Any) -> tuple[Any, Any]:
    carries = _carries(cell, recurrent, input_part, is_first, carry)
    return carries, (recurrent, input_part, is_first, carry, carries)


def _backward(cell: Cell, saved: Any, of_carries: Any) -> tuple[Any, Any, Any, Any]:
    recurrent, input_part, is_first, first, carries = saved
    before = jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest[:-1]]), first, carries)
    before = reset(cell, is_first, before)  # the carries from which the steps began

    hidden = cell.output(before)
    carry_part = hidden @ recurrent

    def step(of_next: Any, xs: tuple[Any, ...]) -> tuple[Any, tuple[Array, Array]]:
        of_carry, before, carry_part, input_part, is_first = xs
        _, gradient = jax.vjp(cell.advance, carry_part, input_part, before)
        of_carry_part, of_input_part, of_before = gradient(jax.tree.map(jnp.add, of_carry, of_next))
        through_product = jax.vjp(cell.output, before)[1](of_carry_part @ recurrent.T)[0]
        of_before = jax.tree.map(lambda x, y: jnp.where(is_first[..., None], 0, x + y), of_before, through_product)
        return of_before, (of_carry_part, of_input_part)

    last = jax.tree.map(lambda x: jnp.zeros_like(x[0]), carries)
    of_first, (of_carry_part, of_input_part) = jax.lax.scan(
        step, last, (of_carries, before, carry_part, input_part, is_first), reverse=True
    )
    rows = [x.reshape(-1, x.shape[-1]) for x in (hidden, of_carry_part)]
    return rows[0].T @ rows[1], of_input_part, np.zeros(is_first.shape, jax.dtypes.float0), of_first


_carries_and_gradient.defvjp(_forward, _backward)
