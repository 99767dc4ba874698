"""The operations as expressions of torch."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.portable.numpy_code import BINARY, DYNAMIC_SLICE, SAME, other_inputs, slices
from shoal.portable.python_code import Dialect, Template, literal

CALLS = {
    **{name: name for name in (*SAME, "asin", "acos", "atan", "erf", "relu", "where")},
    **{"is_finite": "isfinite", "logistic": "sigmoid"},
}
CONVOLUTION = '''
def convolution(images, kernel, strides, padding, dilation, groups):
    """Convolve images [N, C, ...] with a kernel [features, C / groups, ...]."""
    convolve = (torch.conv1d, torch.conv2d, torch.conv3d)[len(strides) - 1]
    widths = [n for pair in reversed(padding) for n in pair]
    return convolve(torch.nn.functional.pad(images, widths), kernel, None, strides, 0, dilation, groups)
'''


def _bound(name: str, side: str) -> Template:
    """The larger or the smaller of two arrays, or of an array and a number."""

    def template(options: Mapping[str, Any]) -> str:
        numbers = [value.is_constant and not value.shape for value in options["inputs"]]
        if not any(numbers):
            return f"torch.{name}({{0}}, {{1}})"
        return f"{{a1}}.clamp({side}={{0}})" if numbers[0] else f"{{a0}}.clamp({side}={{1}})"

    return template


def _of_arrays(call: str) -> Template:
    """A function of torch that takes no numbers of Python."""

    def template(options: Mapping[str, Any]) -> str:
        texts = [
            f"torch.full((), {literal(x.data.flat[0])}, dtype=torch.{x.dtype})"
            if x.is_constant and not x.shape
            else f"{{{i}}}"
            for i, x in enumerate(options["inputs"])
        ]
        return f"torch.{call}({', '.join(texts)})"

    return template


def _rows(options: Mapping[str, Any]) -> str:
    index = options["inputs"][1]
    return "{a0}[{1}]" if index.is_constant and not index.shape else "{a0}[{a1}.long()]"


def _one_axis_after_another(name: str) -> Template:
    def template(options: Mapping[str, Any]) -> str:
        calls = "".join(f".{name}({axis})" for axis in sorted(options["axes"], reverse=True))
        return f"{{a0}}{calls}"

    return template


def _quotient(options: Mapping[str, Any]) -> str:
    if np.issubdtype(options["dtype"], np.floating):
        return "{a0} / {a1}"
    return 'torch.div({0}, {1}, rounding_mode="trunc")'


def _pad(options: Mapping[str, Any]) -> str:
    widths = [n for pair in reversed(options["widths"]) for n in pair]
    return f"torch.nn.functional.pad({{0}}, {widths}, value={{value}})"


TORCH = Dialect(
    "torch",
    {
        **{name: f"{{a0}} {sign} {{a1}}" for name, sign in BINARY.items()},
        **{name: f"torch.{call}({{all}})" for name, call in CALLS.items()},
        **{f"reduce_{name}": _one_axis_after_another(call) for name, call in (("and", "all"), ("or", "any"))},
        "reduce_prod": _one_axis_after_another("prod"),
        "reduce_sum": "{a0}.sum({axes}, dtype=torch.{dtype})",
        "reduce_max": "{a0}.amax({axes})",
        "reduce_min": "{a0}.amin({axes})",
        "cumsum": "{a0}.cumsum({axis}, dtype=torch.{dtype})",
        "cumprod": "{a0}.cumprod({axis}, dtype=torch.{dtype})",
        "cummax": "{a0}.cummax({axis}).values",
        "cummin": "{a0}.cummin({axis}).values",
        "atan2": _of_arrays("atan2"),
        "rem": _of_arrays("fmod"),
        "max": _bound("maximum", "min"),
        "min": _bound("minimum", "max"),
        "neg": "-{a0}",
        "not": "~{a0}",
        "div": _quotient,
        "cast": "{a0}.to(torch.{dtype})",
        "reshape": "{a0}.reshape({shape})",
        "transpose": "{a0}.permute({axes})",
        "broadcast": "{a0}.expand({shape})",
        "flip": "torch.flip({0}, {axes})",
        "slice": slices,
        "pad": _pad,
        "concatenate": "torch.cat([{all}], {axis})",
        "dynamic_slice": lambda options: f"dynamic_slice({{0}}, {{sizes}}, {other_inputs(options)})",
        "argmax": "{a0}.argmax({axis})",
        "argmin": "{a0}.argmin({axis})",
        "rows": _rows,
        "elements": "{a0}[tuple({a1}.long().unbind(-1))]",
        "convolution": "convolution({0}, {1}, {strides}, {padding}, {dilation}, {groups})",
    },
    {"convolution": CONVOLUTION, "dynamic_slice": DYNAMIC_SLICE},
)
