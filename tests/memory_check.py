"""Test the contract of a memory."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from shoal.core.keys import Key, make_key
from shoal.nn.memory.contract import Memory

TOLERANCE = 1e-4


def check_memory(memory: Memory, inputs: int = 5, steps: int = 7, key: Key | None = None) -> None:
    """Raise AssertionError with the reason unless a memory keeps its contract; `inputs` is D and `steps` is T.

    Outputs have `size` units. `unroll` gives what `step` gives, to 1e-4. A reset in a sequence equals a fresh start, to
    the bit, and nothing before it changes what follows. The last output of an episode depends on its first input.
    """
    k_weights, k_inputs, k_carry, k_other = jax.random.split(make_key(0) if key is None else key, 4)
    sequence = jax.random.normal(k_inputs, (steps, 2, inputs))
    weights = memory.init(k_weights, sequence)
    unroll = jax.jit(memory.unroll)
    never = jnp.zeros((steps, 2), bool)
    # A carry in the middle of an episode: after the steps of another sequence.
    other = jax.random.normal(k_carry, sequence.shape)
    carry = _row(unroll(weights, other, never, memory.initial_carry((2,)))[1], -1)

    outputs, carries = unroll(weights, sequence, never, carry)
    _require(outputs.shape == (steps, 2, memory.size), f"outputs have the shape {outputs.shape}, not [T, E, size]")
    held, step = carry, jax.jit(memory.step)
    for t in range(steps):
        output, held = step(weights, sequence[t], held)
        _require_equal(output, outputs[t], TOLERANCE, f"the output of step {t} differs between step and unroll")
        _require_equal(held, _row(carries, t), TOLERANCE, f"the carry after step {t} differs between step and unroll")

    middle = steps // 2
    restarted = unroll(weights, sequence, never.at[middle].set(True), carry)
    changed = sequence.at[:middle].set(jax.random.normal(k_other, sequence[:middle].shape))
    another = unroll(weights, changed, never.at[middle].set(True), memory.initial_carry((2,)))
    what = "something before a reset changes what follows it"
    _require_equal(_rows(restarted, middle), _rows(another, middle), 0, what)
    at_once = unroll(weights, sequence, never.at[0].set(True), carry)
    fresh = unroll(weights, sequence, never, memory.initial_carry((2,)))
    _require_equal(at_once, fresh, 0, "a reset differs from a fresh start")

    influence = jax.jit(jax.grad(lambda x, first: jnp.sum(memory.unroll(weights, x, first, carry)[0][-1])))
    reach = np.asarray(jnp.abs(influence(sequence, never)).max((1, 2)))
    _require(bool((reach > 0).all()), f"the last output does not depend on the inputs of all steps: {reach}")
    reach = np.asarray(jnp.abs(influence(sequence, never.at[middle].set(True))).max((1, 2)))
    _require(bool((reach[:middle] == 0).all()), "a gradient flows across the start of an episode")


def _row(tree: Any, t: int) -> Any:
    return jax.tree.map(lambda x: x[t], tree)


def _rows(tree: Any, start: int) -> Any:
    return jax.tree.map(lambda x: x[start:], tree)


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise AssertionError(reason)


def _require_equal(found: Any, expected: Any, tolerance: float, reason: str) -> None:
    leaves: Sequence[tuple[Array, Array]] = list(zip(*map(jax.tree.leaves, (found, expected)), strict=True))
    largest = max(float(jnp.max(jnp.abs(x - y))) for x, y in leaves)
    _require(largest <= tolerance, f"{reason}, by up to {largest:.2g}")
