"""Functions of JAX as programs of NumPy, torch and ONNX: the same results, and the name of what cannot be written."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.portable.numpy_code import NUMPY
from shoal.portable.onnx_graph import onnx_model
from shoal.portable.program import Unportable
from shoal.portable.python_code import python_code
from shoal.portable.torch_code import TORCH
from shoal.portable.tracing import program_of

KINDS = ("numpy", "torch", "onnx")
RANDOM = np.random.default_rng(0)
X, Y = (RANDOM.normal(size=(3, 4)).astype(np.float32) for _ in range(2))
N = np.asarray([[-7, 3, 0], [2, -1, 9]], np.int32)
IMAGE = RANDOM.normal(size=(2, 9, 8, 4)).astype(np.float32)
KERNEL = RANDOM.normal(size=(3, 2, 2, 6)).astype(np.float32)
AXES = ("NHWC", "HWIO", "NHWC")


def convolved(x):
    return jax.lax.conv_general_dilated(
        x, KERNEL, (2, 1), ((1, 2), (0, 1)), rhs_dilation=(1, 2), dimension_numbers=AXES, feature_group_count=2
    )


def pooled(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def scanned(x):
    def step(carry, row):
        carry = jnp.tanh(carry + row)
        return carry, 2 * carry

    carry, rows = jax.lax.scan(step, jnp.zeros(4), x, reverse=True)
    return carry + jax.lax.scan(step, carry, x)[0], rows


def rotated(x):
    z = jax.lax.complex(x, 2 * x) * jax.lax.complex(jnp.float32(0.6), jnp.float32(0.8))
    return z.real, (z + z)[1:].imag


def looked_up(n, x):
    table = jnp.asarray(X)
    out_of_bounds = (
        jnp.take(table, n, axis=0, fill_value=jnp.nan),
        table[jnp.clip(n, 0, 2), 1],
        table.at[n].get(mode="clip"),
    )
    return *out_of_bounds, jnp.take_along_axis(x, jnp.clip(n[:1], 0, 2), 0), x[n[0, 1] - 1], table[0][n[1, :2]]


FUNCTIONS = {
    "arithmetic": (lambda x, y: (x * y - x / (1 + y**2), x**3 + y**-2, jnp.maximum(x, 0) - 2 * x, 1 / y), (X, Y)),
    "elementary functions": (lambda x: (jnp.exp(x) + jnp.log1p(x**2), jnp.sinh(x) - jnp.arctan(x), jnp.sign(x)), (X,)),
    "error function": (lambda x: (jax.nn.gelu(x, approximate=False), jax.scipy.special.erfc(x)), (X,)),
    "activations": (lambda x: (jax.nn.gelu(x), jax.nn.silu(x), jax.nn.softplus(x), jax.nn.elu(x)), (X,)),
    "rounding": (lambda x: (jnp.floor(x), jnp.ceil(x), x.astype(jnp.int32), jax.lax.rsqrt(x**2 + 1)), (X,)),
    "integers": (lambda n: (n // 3, n % 3, -n, n & 3, n > 2, n.astype(bool), jnp.abs(n)), (N,)),
    "conditions": (lambda x, y: (jnp.where((x > y) | ~(x <= 1), x, -1), (x == y) ^ (x != y), jnp.isfinite(x)), (X, Y)),
    "constant cases": (
        lambda n: (jax.lax.select(n[0, 0] > 0, jnp.zeros(3), jnp.ones(3)), jnp.where(n > 0, 2.0, jnp.ones((2, 3)))),
        (N,),
    ),
    "limits": (lambda x: (jnp.clip(x, -0.5, 0.5), jnp.minimum(x, 0.1), jnp.minimum(x, x[::-1])), (X,)),
    "reductions": (lambda x: (x.sum(), x.max(0), x.min((0, 1)), x.prod(1), (x > 0).all(1), (x > 1).any()), (X,)),
    "integer sums": (lambda n: (n.sum(0), (n > 0).sum()), (N,)),
    "first of equal ones": (lambda n: (jnp.argmax(n * 0, 1), jnp.argmin(n > 0, 1), n.argmax(0)), (N,)),
    "softmax": (lambda x: (jax.nn.softmax(x), jax.nn.log_softmax(x, 0), jax.nn.logsumexp(x)), (X,)),
    "normalization": (lambda x: jax.nn.standardize(x), (X,)),
    "products": (lambda x, y: (x @ y.T, x[0] @ y[0], jnp.outer(x[0], y[1]), jnp.tensordot(x, y, 2)), (X, Y)),
    "products in batches": (
        lambda x: (jnp.einsum("nhwc,nhvc->hnwv", x, x), jnp.einsum("nhwc,nwh->nc", x, x[..., 0].mT), x @ x[0, 0].T),
        (IMAGE,),
    ),
    "parts": (
        lambda x: (x[1:, ::2], *jnp.split(x, 2, 1), *jnp.unstack(x), jnp.flip(x, 0), jnp.concatenate([x, x[:1]])),
        (X,),
    ),
    "shapes": (
        lambda x: (
            x.T.reshape(2, 6),
            x[None, :, None],
            jnp.broadcast_to(x[0], (2, 4)),
            jnp.tile(x, 2),
            jnp.stack([x, x], 1),
        ),
        (X,),
    ),
    "padding": (lambda x: (jnp.pad(x, 1), jax.lax.pad(x, jnp.float32(2), ((-1, 2, 0), (0, -1, 0)))), (X,)),
    "one-hot": (lambda n: (jax.nn.one_hot(n, 4), jnp.eye(3)[n]), (np.asarray([0, 2], np.int32),)),
    "rows of a table": (looked_up, (np.asarray([[0, 2, 5, -1], [1, 0, 9, 2]], np.int32), X)),
    "moving windows": (lambda n, x: jax.lax.dynamic_slice(x, (n[0], n[1]), (2, 2)), (np.asarray([5, -1], np.int32), X)),
    "one moving row": (
        lambda n, x: jax.lax.dynamic_slice(x, (n[0], n[1]), (1, 4), allow_negative_indices=False),
        (np.asarray([5, -1], np.int32), X),
    ),
    "convolutions": (convolved, (IMAGE,)),
    "pools": (pooled, (IMAGE,)),
    "sums so far": (lambda x: (jnp.cumsum(x, 1), jax.lax.cumsum(x, 0, reverse=True)), (X,)),
    "scans": (scanned, (X,)),
    "rows that are the carry before the step": (lambda x: jax.lax.scan(lambda c, r: (c + r, c), x[0], x), (X,)),
    "arrays and numbers": (
        lambda x: jnp.arctan2(x, 1.0) + jax.lax.rem(jnp.full_like(x, 2.5), x) + jnp.take(x, 2),
        (X,),
    ),
    "branches": (lambda n, x: jax.lax.switch(n[1, 2], [jnp.sin, jnp.cos, jnp.tanh], x), (N, X)),
    "complex numbers": (rotated, (X,)),
}


def results_of(kind, function, arrays, weights=None):
    """The results of a function in a format."""
    specs = {f"in{i}": jax.ShapeDtypeStruct(x.shape, x.dtype) for i, x in enumerate(arrays)}

    def listed(named, inputs):
        given = [inputs[name] for name in specs]
        found = function(*([named] if named else []), *given)
        return [*found] if isinstance(found, (tuple, list)) else [found]

    program = program_of(listed, weights or {}, specs, unroll=kind == "onnx")
    if kind == "onnx":
        runtime = pytest.importorskip("onnxruntime")
        model = onnx_model(program, [f"out{i}" for i in range(len(program.outputs))], "a test")
        return runtime.InferenceSession(model).run(None, dict(zip(specs, arrays, strict=True)))
    code = python_code(program, list(specs), {"numpy": NUMPY, "torch": TORCH}[kind])
    lines = [f"    {line}" for line in code.lines]
    head = ["import math", *code.helpers, f"def act(w, {', '.join(specs)}):"]
    text = "\n".join([*head, *lines, f"    return [{', '.join(code.results)}]"])
    library = np if kind == "numpy" else pytest.importorskip("torch")
    scope = {"np" if kind == "numpy" else "torch": library}
    exec(text, scope)
    given = code.constants.items(), enumerate(arrays)
    constants, inputs = ({name: library.asarray(np.array(x)) for name, x in each} for each in given)
    with np.errstate(all="ignore"):
        return scope["act"](constants, *inputs.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_results_of_jax(name, kind):
    function, arrays = FUNCTIONS[name]
    wanted = jax.tree.leaves(jax.jit(function)(*arrays))
    found = results_of(kind, function, arrays)
    for mine, known in zip(found, wanted, strict=True):
        assert tuple(mine.shape) == known.shape
        np.testing.assert_allclose(np.asarray(mine), known, rtol=1e-5, atol=1e-5)


def test_what_depends_on_weights_alone_is_computed_when_it_is_written():
    weights = {"layer/kernel": X, "layer/scale": Y}
    program = program_of(
        lambda w, inputs: [inputs["x"] @ jnp.exp(w["layer/kernel"] * w["layer/scale"])],
        weights,
        {"x": jax.ShapeDtypeStruct((3,), np.float32)},
    )
    assert [step.operation for step in program.steps] == ["matmul"]
    (constant,) = program.constants()
    assert constant.name == "layer/kernel.exp"
    np.testing.assert_allclose(constant.data, np.exp(X * Y), rtol=1e-6)


def test_a_key_that_changes_nothing_leaves_no_random_numbers():
    def greedy(w, inputs):
        explores = jax.random.uniform(jax.random.key(0), (4,)) < 0
        return [jnp.argmax(jnp.where(explores, 0, inputs["x"]))]

    program = program_of(greedy, {}, {"x": jax.ShapeDtypeStruct((4,), np.float32)})
    assert [step.operation for step in program.steps] == ["argmax"]


def test_one_line_of_code_is_one_layer():
    def network(w, inputs):
        hidden = jnp.tanh(inputs["x"] @ w["first/kernel"] + w["first/bias"])
        return [jax.nn.relu(hidden @ w["second/kernel"])]

    weights = {"first/kernel": X, "first/bias": Y[0], "second/kernel": Y.T}
    program = program_of(network, weights, {"x": jax.ShapeDtypeStruct((3,), np.float32)})
    code = python_code(program, ["obs"], NUMPY)
    assert code.lines == ['x1 = np.tanh((obs @ w["first/kernel"]) + w["first/bias"])  # [4]']
    assert code.results == ['np.maximum(x1 @ w["second/kernel"], 0)']


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (lambda x: jnp.sort(x), r"sort in .*\(test_tracing.py:\d+\)"),
        (lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x), "while in"),
        (lambda x: jnp.fft.rfft(x).real, "fft of complex numbers in"),
    ],
)
def test_a_part_that_cannot_be_written_is_named_with_its_line(function, part):
    with pytest.raises(Unportable, match=part):
        results_of("numpy", function, [X])


def test_a_format_names_the_operation_that_it_lacks():
    pytest.importorskip("onnx")
    with pytest.raises(Unportable, match="cummax"):
        results_of("onnx", lambda x: jax.lax.cummax(x, 1), [X])
