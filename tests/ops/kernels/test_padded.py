"""Operations on padded arrays, with NaN as padding: it must not reach any result."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.ops.kernels.flat import CannotLower, flatten
from shoal.ops.kernels.padded import Padded, padded_shape, padded_size, run

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(5, 3)).astype(np.float32)
SQUARE = RANDOM.normal(size=(3, 20)).astype(np.float32)
VECTOR = RANDOM.normal(size=5).astype(np.float32)
COLUMN = RANDOM.normal(size=(3, 1)).astype(np.float32)
NUMBERS = np.array([4, 0, 2, 1, 1], np.int32)


def padded(array, padding=np.nan):
    size = padded_shape(array.shape)
    full = np.full(size, padding if array.dtype == np.float32 else 99).astype(array.dtype)
    full[tuple(slice(n) for n in array.shape)] = array
    return Padded(jnp.asarray(full), array.shape)


def in_kernel(function, *arrays):
    """The results of a function on padded arrays, without their padding."""
    program, structure = flatten(function, *arrays)
    values = {x: padded(np.asarray(a)) for x, a in program.constants}
    values.update((x, padded(array)) for x, array in zip(program.inputs, arrays, strict=True))
    run(program.steps, values)
    results = [values[x] for x in program.outputs]
    assert [x.shape for x in program.outputs] == [x.shape for x in results]
    assert [padded_shape(x.shape) for x in results] == [x.array.shape for x in results]
    cut = [np.asarray(x.array)[tuple(slice(n) for n in x.shape)] for x in results]
    return jax.tree.unflatten(structure, cut)


def test_axes_are_padded_to_powers_of_two():
    assert [padded_size(n) for n in (1, 2, 16, 17, 64, 100)] == [1, 16, 16, 32, 64, 128]


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (lambda x: jnp.sum(x, axis=1), [ROWS]),
        (lambda x: jnp.sum(x), [ROWS]),
        (lambda x: jnp.max(x - 10, axis=1), [ROWS]),  # all negative: padding of 0 would be the largest
        (lambda x: jnp.min(x + 10, axis=0), [ROWS]),
        (lambda x: jnp.argmax(x - 10, axis=1), [ROWS]),
        (lambda x: jnp.argmin(x + 10, axis=1), [ROWS]),
        (lambda x: jnp.sum(x), [NUMBERS]),
        (lambda x: jnp.any(x > 1, axis=1), [ROWS]),
        (lambda x: jnp.all(x > -1, axis=0), [ROWS]),
        (jax.nn.log_softmax, [ROWS]),
        (lambda x, y: x @ y, [ROWS, SQUARE]),
        (lambda x, y: jnp.log(jnp.abs(x)) @ jnp.exp(y), [ROWS, SQUARE]),
        (lambda x, y: x @ y, [ROWS, COLUMN]),  # one column
        (lambda x, y: x @ y.T, [COLUMN, VECTOR[:, None]]),  # a sum over one element
        (lambda x, y: x.T @ y, [COLUMN, SQUARE]),  # one row
        (lambda x, y: jax.grad(lambda x: jnp.sum((x @ y) ** 2))(x), [ROWS, SQUARE]),
        (lambda x, y: jax.grad(lambda y: jnp.sum((x @ y) ** 2))(y), [ROWS, SQUARE]),
        (lambda x, v: v @ x, [ROWS, VECTOR]),
        (lambda x, v: x @ v, [ROWS, VECTOR[:3]]),
        (lambda x: x.T, [ROWS]),
        (lambda v: v[:, None] * jnp.arange(7, dtype=jnp.float32)[None], [VECTOR]),
        (lambda x: x.reshape(5, 1, 3), [ROWS]),
        (lambda x: x[..., 0], [COLUMN]),
        (lambda x: x[:, 1], [ROWS]),
        (lambda x: x[1:3, 1:], [ROWS]),
        (lambda x: (x > 0)[:, 1], [ROWS]),
        (lambda x, v: jnp.stack([v, v + 1], axis=-1), [ROWS, VECTOR]),
        (lambda x, v: jnp.concatenate([x, v[:, None], x], axis=1), [ROWS, VECTOR]),
        (lambda v: jnp.round(4 * v), [VECTOR]),
        (jnp.round, [np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, -2.6, 1e9], np.float32)]),
        (lambda v: jnp.isfinite(v / 0), [VECTOR]),
        (lambda x: jax.nn.one_hot(x, 3, dtype=jnp.float32), [NUMBERS]),
        (lambda x: jnp.clip(x, -0.5, 0.5) + jax.nn.gelu(x) + jax.nn.silu(x), [ROWS]),
        (lambda x: x * (jnp.float32(1) / 3 - 2), [ROWS]),  # numbers alone
    ],
)
def test_equals_the_function_on_arrays_without_padding(function, arrays):
    want, got = function(*map(jnp.asarray, arrays)), in_kernel(function, *arrays)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", [jnp.maximum, jnp.minimum, lambda x, y: jax.nn.relu(x) + 0 * y])
def test_nan_is_kept_where_triton_ignores_it(function, monkeypatch):
    """Triton's max and min return the other number, as `fmax` and `fmin` do."""
    program, _ = flatten(function, VECTOR, VECTOR)
    ignoring = {"max": jnp.fmax, "min": jnp.fmin}
    for number, step in enumerate(program.steps):
        if step.primitive.name in ignoring:
            stand_in = type("Primitive", (), {"name": step.primitive.name, "bind": ignoring[step.primitive.name]})
            program.steps[number] = step._replace(primitive=stand_in)
    with_nan = np.array([np.nan, 1, 2, 3, 4], np.float32)
    values = {x: padded(a) for x, a in zip(program.inputs, (with_nan, VECTOR), strict=True)}
    run(program.steps, values)
    assert np.isnan(np.asarray(values[program.outputs[0]].array)[:5]).tolist() == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: jnp.sort(x), "the operation sort has no rule"),
        (lambda x: x.reshape(15), "would move elements between padded axes"),
        (lambda x: jnp.concatenate([x] * 6, axis=1), "at most 16 positions"),
        (lambda x: jnp.zeros((200, 100)) + x[0, 0], "more than 8,192"),
        (lambda x: x[jnp.array([1, 2])], "rows of an array that no step changes"),
        (lambda x: jnp.einsum("ij,kj->ijk", x, x).sum(), "is not one of two matrices"),
        (lambda x: jnp.cumsum(x, axis=0), "the operation cumsum has no rule"),
    ],
)
def test_a_refusal_names_the_operation(function, reason):
    with pytest.raises(CannotLower, match=reason):
        in_kernel(function, ROWS)
