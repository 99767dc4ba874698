"""Recurrent cells: equal to flax's, their initial weights, and the gradient whose last product comes after the loop."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.form import CPU, in_form
from shoal.core.keys import make_key
from shoal.nn.memory import GRU, LSTM
from shoal.nn.memory.lstm import LSTMCarry
from weights import random_weights

T, E, D, H = 7, 3, 4, 5
CELLS = [GRU(H), LSTM(H)]


def drawn(memory):
    """Weights, none of them zero, inputs [T, E, D] and a memory [E] in mid-episode."""
    inputs = random_weights(jax.ShapeDtypeStruct((T, E, D), jnp.float32), deviation=1)
    weights = random_weights(jax.eval_shape(memory.init, make_key(0), inputs), deviation=0.5, seed=1)
    carry = random_weights(memory.initial_carry((E,)), deviation=1, seed=2)
    return weights, inputs, carry


def test_gru_equals_flax():
    weights, inputs, carry = drawn(GRU(H))
    kernels = np.split(np.asarray(weights["input"]["kernel"]), 3, axis=1)
    biases = np.split(np.asarray(weights["input"]["bias"]), 3)
    held = np.split(np.asarray(weights["recurrent"]), 3, axis=1)
    theirs = {f"i{g}": {"kernel": k, "bias": b} for g, k, b in zip("rzn", kernels, biases, strict=True)}
    theirs |= {f"h{g}": {"kernel": u} for g, u in zip("rzn", held, strict=True)}
    theirs["hn"]["bias"] = np.zeros(H, np.float32)

    @jax.jit
    def both(inputs):
        return GRU(H).step(weights, inputs, carry)[1], nn.GRUCell(H).apply({"params": theirs}, carry, inputs)[0]

    np.testing.assert_allclose(*both(np.asarray(inputs)[0]), atol=1e-6)


def test_lstm_equals_flax():
    weights, inputs, carry = drawn(LSTM(H))
    kernels = np.split(np.asarray(weights["input"]["kernel"]), 4, axis=1)
    biases = np.split(np.asarray(weights["input"]["bias"]), 4)
    held = np.split(np.asarray(weights["recurrent"]), 4, axis=1)
    theirs = {f"i{g}": {"kernel": k} for g, k in zip("ifgo", kernels, strict=True)}
    theirs |= {f"h{g}": {"kernel": u, "bias": b} for g, u, b in zip("ifgo", held, biases, strict=True)}

    @jax.jit
    def both(inputs):
        expected, _ = nn.LSTMCell(H).apply({"params": theirs}, (carry.cell, carry.hidden), inputs)
        return expected, LSTM(H).step(weights, inputs, carry)[1]

    (cell, hidden), after = both(np.asarray(inputs)[0])
    np.testing.assert_allclose(after.cell, cell, atol=1e-6)
    np.testing.assert_allclose(after.hidden, hidden, atol=1e-6)


@pytest.mark.parametrize("memory", CELLS, ids=["gru", "lstm"])
def test_recurrent_weights_start_orthogonal_and_the_forget_gate_open(memory):
    weights = jax.jit(memory.init)(make_key(0), jnp.zeros((2, D)))
    gates = len(weights["input"]["bias"]) // H
    for kernel in np.split(np.asarray(weights["recurrent"]), gates, axis=1):
        np.testing.assert_allclose(kernel @ kernel.T, np.eye(H), atol=1e-5)
    for kernel in np.split(np.asarray(weights["input"]["kernel"]), gates, axis=1):
        np.testing.assert_allclose(kernel @ kernel.T, np.eye(D), atol=1e-5)
    assert np.split(np.asarray(weights["input"]["bias"]), gates)[1].tolist() == [1.0] * H


def test_the_output_of_an_lstm_is_its_hidden_state():
    carry = LSTMCarry(jnp.zeros(H), jnp.ones(H))
    assert LSTM(H).output(carry) is carry.hidden


@pytest.mark.parametrize("memory", [GRU(5), LSTM(5)], ids=["gru", "lstm"])
def test_the_gradient_after_the_loop_equals_that_of_jax(memory):
    random = np.random.default_rng(0)
    inputs, is_first = random.normal(size=(7, 2, 3)), random.random((7, 2)) < 0.3
    weights = memory.init(make_key(0), jnp.zeros((1, 3)))
    carry = jax.tree.map(lambda x: x + jnp.asarray(random.normal(size=x.shape), x.dtype), memory.initial_carry((2,)))
    factor = jnp.asarray(random.normal(size=(7, 2, 5)), jnp.float32)

    def loss(weights, inputs, carry):
        output, carries = memory.unroll(weights, inputs, jnp.asarray(is_first), carry)
        return jnp.sum(factor * output) + sum(jnp.sum(x[3] ** 2) for x in jax.tree.leaves(carries))

    arguments = weights, jnp.asarray(inputs, jnp.float32), carry
    late, usual = (
        jax.jit(in_form(jax.grad(loss, (0, 1, 2)), form))(*arguments)
        for form in (CPU._replace(late_weight_gradients=True), CPU)
    )
    for x, y in zip(*map(jax.tree.leaves, (late, usual)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
