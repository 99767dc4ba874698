"""Functions as flat lists of operations."""

import jax
import jax.numpy as jnp
import numpy as np

from shoal.ops.kernels.flat import evaluate, flatten, needed

X = np.array([0.5, -1.0, 2.0], np.float32)


def names(steps):
    return [step.primitive.name for step in steps]


def test_the_bodies_of_calls_are_steps():
    program, _ = flatten(lambda x: jax.nn.relu(jax.jit(jnp.sin)(x)) + 1, X)  # relu has a derivative of its own
    assert names(program.steps) == ["sin", "max", "add"]


def test_evaluating_a_program_is_calling_the_function():
    scale = jnp.float32(3)
    program, structure = flatten(lambda x: {"a": jax.nn.relu(x) * scale, "b": jax.nn.relu(x)}, X)
    values = {**dict(program.constants), **dict(zip(program.inputs, [X], strict=True))}
    results = evaluate(program.steps, values, program.outputs)
    found = jax.tree.unflatten(structure, [results[x] for x in program.outputs])
    np.testing.assert_array_equal(found["a"], [1.5, 0, 6])
    np.testing.assert_array_equal(found["b"], [0.5, 0, 2])


def test_evaluating_takes_operations_with_several_results():
    program, _ = flatten(lambda x: jax.lax.scan(lambda c, x: (c + x, c), jnp.float32(0), x), X)
    results = evaluate(program.steps, dict(zip(program.inputs, [X], strict=True)), program.outputs)
    np.testing.assert_array_equal(results[program.outputs[0]], 1.5)
    np.testing.assert_array_equal(results[program.outputs[1]], [0, 0.5, -0.5])


def test_only_needed_steps_are_kept():
    program, _ = flatten(lambda x: (jnp.sin(x), jnp.exp(jnp.cos(x))), X)
    assert names(needed(program.steps, program.outputs[:1])) == ["sin"]
    assert names(needed(program.steps, program.outputs[1:])) == ["cos", "exp"]
    cosine = next(step for step in program.steps if step.primitive.name == "cos")
    assert names(needed(program.steps, program.outputs[1:], cosine.outputs)) == ["exp"]


def test_a_function_may_close_over_traced_arrays():
    def scaled(scale):
        program, _ = flatten(lambda x: x * scale, X)
        values = {**dict(program.constants), program.inputs[0]: X}
        return evaluate(program.steps, values, program.outputs)[program.outputs[0]]

    np.testing.assert_array_equal(jax.vmap(scaled)(jnp.array([1.0, 2.0], jnp.float32)), [X, 2 * X])
