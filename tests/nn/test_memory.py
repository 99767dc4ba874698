"""Recurrent cells: equal to flax's, step by step as over time, and forgetful where an episode begins."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.nn.memory import GRU, LSTM, LSTMCarry, unroll

T, E, D, H = 7, 3, 4, 5
CELLS = [GRU(H), LSTM(H)]


def drawn(memory):
    """Weights, none of them zero, inputs [T, E, D] and a memory [E] in mid-episode."""
    k_init, k_noise, k_inputs, k_carry = jax.random.split(make_key(0), 4)
    inputs = jax.random.normal(k_inputs, (T, E, D))
    weights = memory.init(k_init, inputs)
    noise = jax.random.split(k_noise, len(jax.tree.leaves(weights)))
    noise = jax.tree.unflatten(jax.tree.structure(weights), list(noise))
    weights = jax.tree.map(lambda x, k: x + 0.3 * jax.random.normal(k, x.shape), weights, noise)
    carry = jax.tree.map(lambda x: x + jax.random.normal(k_carry, x.shape), memory.initial_carry((E,)))
    return weights, inputs, carry


def test_gru_equals_flax():
    weights, inputs, carry = drawn(GRU(H))
    kernels = np.split(np.asarray(weights["input"]["kernel"]), 3, axis=1)
    biases = np.split(np.asarray(weights["input"]["bias"]), 3)
    held = np.split(np.asarray(weights["recurrent"]), 3, axis=1)
    theirs = {f"i{g}": {"kernel": k, "bias": b} for g, k, b in zip("rzn", kernels, biases, strict=True)}
    theirs |= {f"h{g}": {"kernel": u} for g, u in zip("rzn", held, strict=True)}
    theirs["hn"]["bias"] = np.zeros(H, np.float32)
    expected, _ = nn.GRUCell(H).apply({"params": theirs}, carry, inputs[0])
    np.testing.assert_allclose(GRU(H).step(weights, inputs[0], carry), expected, atol=1e-6)


def test_lstm_equals_flax():
    weights, inputs, carry = drawn(LSTM(H))
    kernels = np.split(np.asarray(weights["input"]["kernel"]), 4, axis=1)
    biases = np.split(np.asarray(weights["input"]["bias"]), 4)
    held = np.split(np.asarray(weights["recurrent"]), 4, axis=1)
    theirs = {f"i{g}": {"kernel": k} for g, k in zip("ifgo", kernels, strict=True)}
    theirs |= {f"h{g}": {"kernel": u, "bias": b} for g, u, b in zip("ifgo", held, biases, strict=True)}
    (cell, hidden), _ = nn.LSTMCell(H).apply({"params": theirs}, (carry.cell, carry.hidden), inputs[0])
    after = LSTM(H).step(weights, inputs[0], carry)
    np.testing.assert_allclose(after.cell, cell, atol=1e-6)
    np.testing.assert_allclose(after.hidden, hidden, atol=1e-6)


@pytest.mark.parametrize("memory", CELLS, ids=["gru", "lstm"])
def test_unrolled_in_time_equals_step_by_step(memory):
    weights, inputs, carry = drawn(memory)
    is_first = np.zeros((T, E), bool)
    is_first[[0, 3, 4, 6], [2, 0, 0, 1]] = True
    outputs, carries = unroll(memory, weights, inputs, jnp.asarray(is_first), carry)
    for e in range(E):
        held = jax.tree.map(lambda x, e=e: x[e], carry)
        for t in range(T):
            held = memory.step(weights, inputs[t, e], memory.initial_carry() if is_first[t, e] else held)
            np.testing.assert_allclose(outputs[t, e], memory.output(held), atol=1e-6)
            for many, one in zip(jax.tree.leaves(carries), jax.tree.leaves(held), strict=True):
                np.testing.assert_allclose(many[t, e], one, atol=1e-6)


@pytest.mark.parametrize("memory", CELLS, ids=["gru", "lstm"])
def test_nothing_from_before_reaches_an_episode_that_begins(memory):
    weights, inputs, carry = drawn(memory)
    is_first = jnp.arange(T) == 3

    def last_output(inputs):
        outputs, _ = unroll(memory, weights, inputs, is_first, jax.tree.map(lambda x: x[0], carry))
        return jnp.sum(outputs[-1])

    influence = np.abs(jax.grad(last_output)(inputs[:, 0])).max(axis=1)
    assert (influence[:3] == 0).all() and (influence[3:] > 0).all()


@pytest.mark.parametrize("memory", CELLS, ids=["gru", "lstm"])
def test_every_gate_starts_orthogonal_and_the_memory_open(memory):
    weights = memory.init(make_key(0), jnp.zeros((2, D)))
    gates = len(weights["input"]["bias"]) // H
    for kernel in np.split(np.asarray(weights["recurrent"]), gates, axis=1):
        np.testing.assert_allclose(kernel @ kernel.T, np.eye(H), atol=1e-5)
    for kernel in np.split(np.asarray(weights["input"]["kernel"]), gates, axis=1):
        np.testing.assert_allclose(kernel @ kernel.T, np.eye(D), atol=1e-5)
    assert np.split(np.asarray(weights["input"]["bias"]), gates)[1].tolist() == [1.0] * H


def test_an_lstm_shows_its_hidden_part():
    carry = LSTMCarry(jnp.zeros(H), jnp.ones(H))
    assert LSTM(H).output(carry) is carry.hidden
