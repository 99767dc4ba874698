"""Read and write arrays inside a kernel, with padding. The arrays in a device's memory have none.

Pallas is imported inside of functions, because its import takes half a second.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from shoal.ops.kernels.flat import CannotLower, Value
from shoal.ops.kernels.padded import Padded, inside, padded_shape


class Empty(NamedTuple):
    """The place of an array without elements, such as that of final states where no time limit truncates."""

    dtype: Any


def launch(
    kernel: Callable, inputs: Sequence[Array], outputs: Sequence[Value], name: str, *, warps: int, interpret: bool
) -> list[Array]:
    """Run `kernel(*input refs, *output refs)` in one block of 32 x `warps` threads. Profiles show its `name`.

    Under `vmap` over M members it is launched once, with M blocks; each sees the arrays of its member.
    """
    pl, triton = _pallas()
    arrays = [*inputs, *outputs]

    def on_all(*refs: Any) -> None:  # arrays without elements are not passed to a kernel
        present = iter(refs)
        kernel(*(Empty(x.dtype) if 0 in x.shape else next(present) for x in arrays))

    on_all.__name__ = f"shoal_{name}"
    results = pl.pallas_call(
        on_all,
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in outputs if 0 not in x.shape],
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=1),
        interpret=interpret,
    )(*(x for x in inputs if 0 not in x.shape))
    written = iter(results)
    return [jnp.zeros(x.shape, x.dtype) if 0 in x.shape else next(written) for x in outputs]


def load(ref: Any, shape: tuple[int, ...], *, row: Any = None, first_row: Any = None) -> Padded:
    """An array of this shape, with zeros as padding.

    It is all of `ref`; with `row`, its element at this position of the first axis, or, if `row` is an array [n], its
    elements at these positions; with `first_row`, its elements from there on.
    """
    if isinstance(ref, Empty):
        return Padded(jnp.zeros(padded_shape(shape), ref.dtype), shape)
    if not shape:
        return Padded(ref[...] if row is None else ref[row], ())
    mask = inside(shape)
    other = None if mask is None else jnp.zeros((), ref.dtype)
    array = _pallas()[1].load(ref.at[_index(shape, row, first_row)], mask=mask, other=other)
    return Padded(array, shape, True)


def store(ref: Any, shape: tuple[int, ...], array: Array, *, row: Any = None) -> None:
    """Write a padded array to all of `ref`, or to its element `row`."""
    if isinstance(ref, Empty):
        return
    if not shape:
        ref[... if row is None else row] = array
    else:
        _pallas()[1].store(ref.at[_index(shape, row)], array, mask=inside(shape))


def _index(shape: tuple[int, ...], row: Any = None, first_row: Any = None) -> tuple[Any, ...]:
    # The positions of all elements of the padded array in a ref, axis by axis.
    size = padded_shape(shape)
    axes = [lax.broadcasted_iota(jnp.int32, size, axis) for axis in range(len(shape))]
    if first_row is not None:
        axes[0] = axes[0] + first_row
    if row is None:
        return tuple(axes)
    if jnp.ndim(row) == 0:
        return (jnp.full(size, row, jnp.int32), *axes)
    return (lax.broadcast_in_dim(row, size, (0,)), *axes[1:])


def _pallas() -> tuple[Any, Any]:
    try:
        from jax.experimental import pallas
        from jax.experimental.pallas import triton
    except ImportError as error:  # JAX deprecates this part of Pallas
        raise CannotLower(f"this version of JAX has no Pallas for Triton ({error})") from error
    return pallas, triton
