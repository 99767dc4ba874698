"""The linear memories, LRU and minGRU, compared with a loop in NumPy, and their weights at the start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.form import CPU, using
from shoal.core.keys import make_key
from shoal.nn.memory import LRU, MinGRU
from weights import random_weights

T, E, D, H = 7, 3, 4, 6


def drawn(memory):
    """Weights, inputs [T, E, D], a carry [E] and first steps, as NumPy arrays."""
    inputs = random_weights(jax.ShapeDtypeStruct((T, E, D), jnp.float32), deviation=1)
    weights = random_weights(jax.eval_shape(memory.init, make_key(0), inputs), deviation=0.5, seed=1)
    carry = random_weights(memory.initial_carry((E,)), deviation=1, seed=2)
    is_first = np.zeros((T, E), bool)
    is_first[[0, 3, 4, 6], [2, 0, 0, 1]] = True
    return jax.tree.map(np.asarray, (weights, inputs, carry, is_first))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def mingru_in_numpy(weights, inputs, is_first, h):
    outputs = []
    for x, first in zip(inputs, is_first, strict=True):
        update, new = np.split(x @ weights["kernel"] + weights["bias"], 2, axis=-1)
        h = np.where(first[:, None], 0, h)
        h = (1 - sigmoid(update)) * h + sigmoid(update) * new
        outputs.append(h)
    return np.stack(outputs)


def lru_in_numpy(weights, inputs, is_first, carry):
    decay = np.exp(-np.exp(weights["log_decay"]) + 1j * np.exp(weights["log_phase"]))
    into, out = (np.split(weights[name], 2, axis=axis) for name, axis in (("in", 1), ("out", 0)))
    into, out = into[0] + 1j * into[1], out[0] + 1j * out[1]
    h, outputs = carry.real + 1j * carry.imaginary, []
    for x, first in zip(inputs, is_first, strict=True):
        h = decay * np.where(first[:, None], 0, h) + np.sqrt(1 - np.abs(decay) ** 2) * (x @ into)
        y = (h @ out).real + x @ weights["skip"]
        y = 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))  # the usual approximation of GELU
        outputs.append(y * sigmoid(y @ weights["gate"]["kernel"] + weights["gate"]["bias"]))
    return np.stack(outputs)


@pytest.mark.parametrize("as_trees", [False, True], ids=["loops", "trees"])
@pytest.mark.parametrize(("memory", "oracle"), [(MinGRU(H), mingru_in_numpy), (LRU(H), lru_in_numpy)])
def test_outputs_equal_a_loop_in_numpy(memory, oracle, as_trees):
    weights, inputs, carry, is_first = drawn(memory)
    with using(CPU._replace(linear_recurrences_as_trees=as_trees)):
        outputs, _ = jax.jit(memory.unroll)(weights, inputs, is_first, carry)
    np.testing.assert_allclose(outputs, oracle(weights, inputs, is_first, carry), rtol=1e-4, atol=1e-5)


def test_an_lru_of_odd_size_has_that_many_outputs():
    memory = LRU(5)
    weights = memory.init(make_key(0), jnp.zeros((1, D)))
    assert memory.step(weights, jnp.ones((2, D)), memory.initial_carry((2,)))[0].shape == (2, 5)


def test_units_of_an_lru_begin_with_decays_in_the_ring_of_the_paper():
    weights = LRU(512).init(make_key(0), jnp.zeros((1, D)))
    modulus, phase = np.exp(-np.exp(weights["log_decay"])), np.exp(weights["log_phase"])
    assert 0.4 <= modulus.min() < 0.5 and 0.99 < modulus.max() <= 0.999
    # Uniform in the square of the modulus: its mean is (0.4^2 + 0.999^2) / 2 = 0.579.
    np.testing.assert_allclose(np.mean(modulus**2), 0.579, atol=0.05)
    assert phase.min() > 0 and phase.max() <= np.pi / 10


def test_units_of_a_mingru_begin_with_rates_from_fast_to_slow():
    weights = MinGRU(H).init(make_key(0), jnp.zeros((1, D)))
    rate = sigmoid(np.asarray(weights["bias"])[:H])
    np.testing.assert_allclose(rate[[0, -1]], [1 / 2, 1 / 500], rtol=1e-4)
    np.testing.assert_allclose(np.diff(np.log(rate)), np.log(1 / 250) / (H - 1), rtol=1e-4)


def test_the_variance_of_an_lru_stays_that_of_its_inputs():
    memory = LRU(256)
    inputs = jax.random.normal(make_key(1), (4000, 1, 16))
    weights = memory.init(make_key(0), inputs)
    _, carries = memory.unroll(weights, inputs, jnp.zeros((4000, 1), bool), memory.initial_carry((1,)))
    power = np.mean(np.square(carries.real[2000:]) + np.square(carries.imaginary[2000:]))
    np.testing.assert_allclose(power, 1.0, atol=0.15)  # B x has a variance of 1 in each of its complex numbers
