"""Prevent a deadlock that some versions of jaxlib have in linear algebra on a CPU.

jaxlib 0.10.0 to 0.11.0 computes LAPACK's functions (`jnp.linalg.qr`, `solve`, ...) of a batch of matrices as tasks of
its thread pool. The call itself occupies a thread of that pool until its tasks are done. If there are as many such
calls at a time as threads, no thread is left for the tasks, and all calls wait forever. For a single matrix there are
no tasks. shoal has no such calls, but a network of the user may have: flax's orthogonal initializer computes `qr`, and
PPO initializes its two networks as a batch.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any

import jax
from jax.extend.core import Literal

# The first and the last version of jaxlib with the bug, and a number of threads with which it never occurred in tests.
FIRST, LAST = (0, 10, 0), (0, 11, 0)
ENOUGH_THREADS = 16
LAPACK = {"cholesky", "eig", "eigh", "geqrf", "hessenberg", "householder_product", "lu", "qr", "schur", "svd"} | {
    "triangular_solve",
    "tridiagonal",
    "tridiagonal_solve",
}


def can_deadlock(jaxlib: str, threads: str) -> bool:
    """Whether a version of jaxlib has the bug, and a pool of this many `threads` (`NPROC`) is too small to avoid it."""
    version = tuple(int(part) for part in jaxlib.split(".")[:3] if part.isdigit())
    is_large = threads.isdigit() and int(threads) >= ENOUGH_THREADS
    return FIRST <= version <= LAST and not is_large


def can_wait_forever(traced: Any) -> bool:
    """Whether a traced program calls LAPACK on batches of matrices where this version of jaxlib has the bug."""
    return _is_affected() and bool(_batched_calls(traced.jaxpr.jaxpr))


def check_never_waits(traced: Any) -> None:
    """Raise RuntimeError, with what to do about it, for a traced program that can wait forever."""
    if can_wait_forever(traced):
        raise RuntimeError(
            f"This run computes {', '.join(_batched_calls(traced.jaxpr.jaxpr))} of many matrices at once, and jaxlib "
            f"{metadata.version('jaxlib')} can wait forever in that on a CPU. Call "
            f"shoal.prepare(threads={ENOUGH_THREADS}) before JAX is imported (on the command line: --threads "
            f"{ENOUGH_THREADS}), or use a jaxlib newer than 0.11.0."
        )


def one_matrix_at_a_time(function: Callable) -> Callable:
    """The same function, in which LAPACK is called for one matrix of a batch after the other.

    Calls inside loops and conditions are left as they are.
    """

    def unbatched(*args: Any) -> Any:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
        results = _evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return unbatched


def _is_affected() -> bool:
    is_on_cpu = jax.default_backend() == "cpu"
    return is_on_cpu and can_deadlock(metadata.version("jaxlib"), os.environ.get("NPROC", ""))


def _batched_calls(jaxpr: Any) -> list[str]:
    """Names of the functions of LAPACK that a program calls on batches of matrices."""
    return sorted({equation.primitive.name for equation in _lapack_calls(jaxpr) if _is_batched(equation)})


def _evaluate(jaxpr: Any, constants: Any, args: list[Any]) -> list[Any]:
    """The results of a program, computed equation by equation, with batches of matrices taken apart."""
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *args), strict=True))

    def value_of(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else values[variable]

    for equation in jaxpr.eqns:
        inputs = [value_of(variable) for variable in equation.invars]
        outputs = _apply(equation, inputs)
        values |= zip(equation.outvars, outputs, strict=True)
    return [value_of(variable) for variable in jaxpr.outvars]


def _apply(equation: Any, inputs: list[Any]) -> list[Any]:
    primitive, inner = equation.primitive, equation.params.get("jaxpr")
    if primitive.name == "jit" and _batched_calls(inner.jaxpr):
        return _evaluate(inner.jaxpr, inner.consts, inputs)
    found = primitive.get_bind_params(equation.params)
    functions, settings = found if isinstance(found, tuple) else ((), found)  # JAX 0.10 has no functions

    def bind(parts: Sequence[Any]) -> Any:
        return primitive.bind(*functions, *parts, **settings)

    if primitive.name in LAPACK and _is_batched(equation):
        batch = inputs[0].shape[:-2]
        rows = [x.reshape(-1, *x.shape[len(batch) :]) for x in inputs]
        outputs = jax.lax.map(bind, rows)
        outputs = jax.tree.map(lambda x: x.reshape(*batch, *x.shape[1:]), outputs)
    else:
        outputs = bind(inputs)
    return list(outputs) if primitive.multiple_results else [outputs]


def _is_batched(equation: Any) -> bool:
    return any(getattr(x.aval, "ndim", 0) > 2 for x in equation.invars)


def _lapack_calls(jaxpr: Any) -> Iterator[Any]:
    """Every equation of a program, at any depth, that calls LAPACK."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in LAPACK:
            yield equation
        for value in equation.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from _lapack_calls(inner)
