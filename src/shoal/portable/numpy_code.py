"""The operations as expressions of NumPy."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shoal.portable.python_code import Dialect, Template, options_of

BINARY = {
    **{"add": "+", "sub": "-", "mul": "*", "pow": "**", "and": "&", "or": "|", "xor": "^", "matmul": "@"},
    **{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
}
SAME = (
    "exp",
    "log",
    "log1p",
    "expm1",
    "tanh",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "sqrt",
    "abs",
    "sign",
    "floor",
    "ceil",
)  # operations that NumPy and torch call by the same name
CALLS = {
    **{name: name for name in SAME},
    **{"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "is_finite": "isfinite"},
    **{"max": "maximum", "min": "minimum", "rem": "fmod", "where": "where"},
}
REDUCTIONS = {
    "reduce_sum": "sum",
    "reduce_prod": "prod",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "all",
    "reduce_or": "any",
}
CUMULATIONS = {"cumsum": "add", "cumprod": "multiply", "cummax": "maximum", "cummin": "minimum"}

ERF = "erf = np.vectorize(math.erf, otypes=[np.float32])"
CONVOLUTION = '''
def convolution(images, kernel, strides, padding, dilation, groups):
    """Convolve images [N, C, ...] with a kernel [features, C / groups, ...]."""
    axes = tuple(range(2, images.ndim))
    sizes = [(n - 1) * d + 1 for n, d in zip(kernel.shape[2:], dilation)]
    images = np.pad(images, ((0, 0), (0, 0), *padding))
    windows = np.lib.stride_tricks.sliding_window_view(images, sizes, axes)
    steps = [slice(None, None, n) for n in strides] + [slice(None, None, n) for n in dilation]
    windows = windows[(slice(None), slice(None), *steps)]  # [N, C, places, places in the kernel]
    summed = (1, *(axis + len(axes) for axis in axes)), (1, *axes)
    parts = zip(np.split(windows, groups, 1), np.split(kernel, groups))
    found = [np.moveaxis(np.tensordot(part, weights, summed), -1, 1) for part, weights in parts]
    return np.concatenate(found, 1)
'''
DYNAMIC_SLICE = '''
def dynamic_slice(x, sizes, *starts):
    """Return the part of an array that begins at computed indices."""
    first = [min(max(int(start), 0), n - size) for start, n, size in zip(starts, x.shape, sizes)]
    return x[tuple(slice(start, start + size) for start, size in zip(first, sizes))]
'''


def slices(options: Mapping[str, Any]) -> str:
    """The template of a slice: `x[0, 2:5, ::2]`, with the axes that are whole at the end left out."""
    texts, shape = [], options["inputs"][0].shape
    for (start, stop, stride), size in zip(options["slices"], shape, strict=True):
        stop = "" if stop >= size else stop
        texts.append(f"{start or ''}:{stop}" + f":{stride}" * (stride > 1))
    while texts and texts[-1] == ":":
        texts.pop()
    return f"{{a0}}[{', '.join(texts)}]"


def _reduction(name: str) -> Template:
    def template(options: Mapping[str, Any]) -> str:
        axes, shape = options["axes"], options["inputs"][0].shape
        axis = "" if len(axes) == len(shape) else f"axis={axes[0] if len(axes) == 1 else axes}"
        is_integer = name in ("sum", "prod") and options["dtype"] != "float32"
        dtype = ["dtype=np.{dtype}"] * is_integer
        return f"{{a0}}.{name}({', '.join([axis] * bool(axis) + dtype)})"

    return template


def _quotient(options: Mapping[str, Any]) -> str:
    if np.issubdtype(options["dtype"], np.floating):
        return "{a0} / {a1}"
    return "np.trunc({a0} / {a1}).astype(np.{dtype})"


def _cast(options: Mapping[str, Any]) -> str:
    return "{a0}.astype(np.bool_)" if options["dtype"] == "bool" else "{a0}.astype(np.{dtype})"


NUMPY = Dialect(
    "np",
    {
        **{name: f"{{a0}} {sign} {{a1}}" for name, sign in BINARY.items()},
        **{name: f"{{m}}.{call}({{all}})" for name, call in CALLS.items()},
        **{name: _reduction(call) for name, call in REDUCTIONS.items()},
        **{name: f"np.{call}.accumulate({{0}}, axis={{axis}})" for name, call in CUMULATIONS.items()},
        "neg": "-{a0}",
        "not": "~{a0}",
        "div": _quotient,
        "relu": "np.maximum({0}, 0)",
        "logistic": "1 / (1 + np.exp(-{a0}))",
        "erf": "erf({0})",
        "cast": _cast,
        "reshape": "{a0}.reshape({shape})",
        "transpose": "{a0}.transpose({axes})",
        "broadcast": "np.broadcast_to({0}, {shape})",
        "flip": "np.flip({0}, {axes})",
        "slice": slices,
        "pad": "np.pad({0}, {widths}, constant_values={value})",
        "concatenate": "np.concatenate([{all}], axis={axis})",
        "dynamic_slice": lambda options: f"dynamic_slice({{0}}, {{sizes}}, {other_inputs(options)})",
        "argmax": "{a0}.argmax(axis={axis})",
        "argmin": "{a0}.argmin(axis={axis})",
        "rows": "{a0}[{1}]",
        "elements": "{a0}[tuple(np.moveaxis({1}, -1, 0))]",
        "convolution": "convolution({0}, {1}, {strides}, {padding}, {dilation}, {groups})",
    },
    {"erf": ERF, "convolution": CONVOLUTION, "dynamic_slice": DYNAMIC_SLICE},
)


def other_inputs(options: Mapping[str, Any]) -> str:
    """All inputs but the first, in a template."""
    return ", ".join(f"{{{i}}}" for i in range(1, len(options["inputs"])))


def computed(operation: str, inputs: Sequence[Any], dtype: Any, options: Mapping[str, Any]) -> np.ndarray:
    """The result of one operation for inputs that are constants, as an array of this dtype."""
    values = {f"v{i}": value.data for i, value in enumerate(inputs)}
    texts, own = list(values), options_of(options, inputs, dtype)
    template = NUMPY.templates[operation]
    template = template(own) if callable(template) else template
    text = template.format(*texts, **{f"a{v[1:]}": v for v in texts}, **own, all=", ".join(texts), m="np")
    scope = {"np": np, "math": math, **values}
    for call, helper in NUMPY.helpers.items():
        if f"{call}(" in text:
            exec(helper, scope)  # a text of this file
    with np.errstate(all="ignore"):
        return np.asarray(eval(text, scope)).astype(dtype)  # likewise
