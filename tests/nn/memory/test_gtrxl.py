"""The gated transformer, compared with loops in NumPy over steps, heads and what each step sees."""

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.keys import make_key
from shoal.nn.memory import GTrXL
from weights import random_weights

T, D, H, W, N = 9, 3, 8, 4, 2


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def dense(layer, x):
    return x @ layer["kernel"] + layer["bias"]


def norm(scale, x):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-6) * scale


def gate(weights, x, y):
    of_reset, of_update, of_new = np.split(dense(weights["y"], y), 3)
    reset_x, update_x = np.split(x @ weights["x"], 2)
    update = sigmoid(of_update + update_x)
    return (1 - update) * x + update * np.tanh(of_new + (sigmoid(of_reset + reset_x) * x) @ weights["new"])


def layer_in_numpy(weights, steps):
    """The output of a layer for the last of the steps that it sees."""
    x, size = steps[-1], H // N
    query = dense(weights["query"], norm(weights["norm_1"], x)).reshape(N, size)
    key, value = np.split(np.stack([dense(weights["key_and_value"], norm(weights["norm_1"], s)) for s in steps]), 2, 1)
    mixed = []
    for head in range(N):
        columns = slice(head * size, (head + 1) * size)
        # The vector of a distance d has the number W - 1 - d.
        distances = [weights["distance"][W - 1 - (len(steps) - 1 - i), head] for i in range(len(steps))]
        logits = np.array([query[head] @ (key[i, columns] + distances[i]) for i in range(len(steps))]) / size**0.5
        weight = np.exp(logits - logits.max())
        mixed.append(weight / weight.sum() @ value[:, columns])
    y = gate(weights["gate_1"], x, np.maximum(0, dense(weights["mix"], np.concatenate(mixed))))
    hidden = np.maximum(0, dense(weights["mlp_1"], norm(weights["norm_2"], y)))
    return gate(weights["gate_2"], y, np.maximum(0, dense(weights["mlp_2"], hidden)))


def test_outputs_equal_loops_in_numpy():
    memory = GTrXL(H, window=W, layers=2, heads=N)
    inputs = random_weights(jax.ShapeDtypeStruct((T, D), jnp.float32), deviation=1)
    weights = random_weights(jax.eval_shape(memory.init, make_key(0), inputs), deviation=0.5, seed=1)
    is_first = np.arange(T) == 5
    outputs, _ = jax.jit(memory.unroll)(weights, inputs, is_first, memory.initial_carry())
    weights, inputs = jax.tree.map(np.asarray, (weights, inputs))
    for start, end in ((0, 5), (5, T)):
        x = [dense(weights["in"], row) for row in inputs[start:end]]
        for layer in weights["layers"]:
            x = [layer_in_numpy(layer, x[max(0, t - W + 1) : t + 1]) for t in range(len(x))]
        np.testing.assert_allclose(outputs[start:end], x, rtol=1e-4, atol=1e-5)
