"""Helpers of `check_env` and `check_agent`: trace a hook, compare trees of arrays, and make clear errors."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.errors import CheckError
from shoal.core.keys import is_key
from shoal.core.user_code import in_short, line_of, line_raised

REAL_TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}  # between two compilations of the same computation with floats


def broken(value: Any, hook: str, what: str, at: str = "") -> CheckError:
    """Return the error for a hook of an environment or an agent, with the text `Class.hook what.`.

    In front of it stands the file and line `at`, by default those of the hook, if the class is the user's own.
    """
    return CheckError(f"{type(value).__name__}.{hook} {what}.", at or line_of(type(value), hook))


def check_value(value: Any) -> None:
    """Raise CheckError for an object that is not a pytree whose leaves are numbers or arrays."""
    name = type(value).__name__
    if jax.tree_util.all_leaves([value]):
        raise CheckError(
            f"{name} is not a pytree, so JAX cannot use it: write @struct above `class {name}`.", line_of(type(value))
        )
    for path, leaf in jax.tree_util.tree_leaves_with_path(value):
        if not isinstance(leaf, (bool, int, float, np.generic, np.ndarray, jax.Array)):
            raise CheckError(
                f"{name}{jax.tree_util.keystr(path)}={leaf!r} is not a number. Declare fields that are not numbers as "
                "static, as in `name: str = static(...)`.",
                line_of(type(value), getattr(path[0], "name", "")),
            )


@contextlib.contextmanager
def tracing(value: Any, hook: str) -> Iterator[None]:
    """Turn every error of a hook into a CheckError that names the line."""
    try:
        yield
    except (CheckError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # also `sys.exit()`
        raise broken(value, hook, _explained(error), line_raised(error)) from error


def _explained(error: BaseException) -> str:
    """Return what a hook did wrong, as the end of a sentence, where it raised this error."""
    if isinstance(error, jax.errors.KeyReuseError):
        return "uses a key twice: split it first, and use each part once"
    if isinstance(error, jax.errors.UnexpectedTracerError):
        return "keeps a traced value outside the hook: return in the state all that must last until the next step"
    if isinstance(error, jax.errors.JAXTypeError):
        return (
            "needs the value of a traced number (in `if`, `while`, `int()`, `float()` or a NumPy function). Use "
            "jnp.where and jnp functions, or make the number a `static` field if it decides shapes"
        )
    if isinstance(error, dataclasses.FrozenInstanceError):
        return (
            f"changes a value that cannot change ({error}): keep what changes in the state, and return "
            "state.replace(...)"
        )
    if "not a valid JAX type" in str(error):
        return f"gives something that is neither an array nor a tree of them: {error}"
    return f"raises {in_short(error).rstrip('.')}"


def check_scalar(value: Any, hook: str, what: str, result: Any, dtype: Any, advice: str) -> None:
    """Raise CheckError if a part `what` of a hook's result is not a scalar of this dtype."""
    if getattr(result, "shape", ()) != ():
        advice = "take one number, as with x[0] or x.sum()"
    if getattr(result, "shape", None) != () or result.dtype != dtype:
        kind = f"{result.dtype}{list(result.shape)}" if hasattr(result, "shape") else type(result).__name__
        raise broken(value, hook, f"gives {what} as {kind}, not as a scalar {np.dtype(dtype)}: {advice}")


def check_same_structure(value: Any, hook: str, expected: Any, result: Any) -> None:
    """Raise CheckError if the state that a hook returns differs from that of `init` in structure, shape or dtype."""
    if jax.tree.structure(expected) != jax.tree.structure(result):
        before, after = (jax.tree.map(_Shape, tree) for tree in (expected, result))
        raise broken(value, hook, f"gives another kind of state than init: {after}, not {before}")
    leaves = jax.tree_util.tree_leaves_with_path(expected)
    for (path, before), after in zip(leaves, jax.tree.leaves(result), strict=True):
        if not same_shapes(before, after):
            raise broken(
                value,
                hook,
                f"changes state{jax.tree_util.keystr(path)} from {before.dtype}{list(before.shape)}, which init gives, "
                f"to {after.dtype}{list(after.shape)}; keep shape and dtype, which a loop over steps needs",
            )


class _Shape:
    """A leaf of which only dtype and shape are shown: `float32[3]`."""

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    def __repr__(self) -> str:
        return f"{self.leaf.dtype}{list(self.leaf.shape)}"


def same_shapes(left: Any, right: Any) -> bool:
    """Return whether the leaves of two trees have the same shapes and dtypes."""
    shapes, others = ([(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)] for tree in (left, right))
    return shapes == others


def difference(left: Any, right: Any, *, exact: bool) -> str | None:
    """Return the path of the first leaf that differs between two trees; None where none does. NaN equals NaN."""
    if jax.tree.structure(left) != jax.tree.structure(right):
        return "its structure"
    pairs = zip(jax.tree_util.tree_leaves_with_path(left), jax.tree.leaves(right), strict=True)
    for (path, a), b in pairs:
        if not _equal(numbers(a), numbers(b), exact):
            return jax.tree_util.keystr(path)
    return None


def numbers(leaf: Any) -> np.ndarray:
    """Return a leaf as a NumPy array; a random key as its data."""
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def _equal(a: np.ndarray, b: np.ndarray, exact: bool) -> bool:
    if exact or not jnp.issubdtype(a.dtype, np.floating):
        return np.array_equal(a, b, equal_nan=jnp.issubdtype(a.dtype, np.floating))
    return np.allclose(a, b, equal_nan=True, **REAL_TOLERANCE)
