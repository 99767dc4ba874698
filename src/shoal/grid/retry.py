"""Generators that try until something fits: loops of very different lengths, side by side."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from shoal.core.keys import Key

FEWEST_WORKERS = 64  # of a batch, unless it is smaller
SHARE = 32  # of a batch that is worked on at a time
ATTEMPTS = 8  # between two looks at who has finished
LIMIT = 2**14  # attempts before a generator gives up


def retry(
    key: Key,
    draw: Callable[[Key], Any],
    attempt: Callable[[Any, Any], Any],
    is_done: Callable[[Any], Any],
    start: Any,
    otherwise: Any,
    limit: int = LIMIT,
) -> Any:
    """The state after as many attempts as it takes: `attempt(lots, state)`, from `start`, until `is_done(state)`.

    Where `limit` attempts (rounded up to a multiple of 8) are not enough it is `otherwise`, which should be a state
    that always serves: compiled code can neither raise an error nor be stopped. Attempt i gets `draw(fold_in(key, i))`,
    so a state does not depend on its neighbors. Under `vmap` a plain loop would run for all as long as for the
    unluckiest; here a few are worked on at a time, and whoever has finished makes room for the next. The functions must
    not close over traced values. `key` is consumed.
    """
    limit = -(-limit // ATTEMPTS) * ATTEMPTS

    def lots_of(key, number):
        return draw(jax.random.fold_in(key, number))

    def unless_done(lots, state):
        after = attempt(lots, state)
        return jax.tree.map(lambda new, old: jnp.where(is_done(state), old, new), after, state)

    def alone(key, start):
        def body(loop):
            number, state = loop
            return number + 1, attempt(lots_of(key, number), state)

        def goes_on(loop):
            return ~is_done(loop[1]) & (loop[0] < limit)

        return jax.lax.while_loop(goes_on, body, (jnp.int32(0), start))[1]

    def in_turn(size, is_batched, keys, starts):
        keys, starts = _spread((keys, starts), is_batched, size)
        workers = min(size, max(FEWEST_WORKERS, size // SHARE))
        some = jnp.arange(ATTEMPTS, dtype=jnp.int32)
        # Drawn before the attempts, for XLA would draw again for everything that reads a lot.
        lots_of_some = jax.vmap(jax.vmap(lots_of), in_axes=(None, 0))

        def shift(loop):
            task, following, number, states, results = loop
            lots = lots_of_some(keys[jnp.minimum(task, size - 1)], number[None] + some[:, None])
            states, _ = jax.lax.scan(lambda s, lots: (jax.vmap(unless_done)(lots, s), None), states, lots)
            # Written down before they have finished, too: the last time counts.
            results = jax.tree.map(lambda kept, new: kept.at[task].set(new, mode="drop"), results, states)
            number = number + ATTEMPTS
            is_free = jax.vmap(is_done)(states) | (number >= limit)
            task = jnp.where(is_free, following + jnp.cumsum(is_free, dtype=jnp.int32) - 1, task)
            fresh = jax.tree.map(lambda each: each[jnp.minimum(task, size - 1)], starts)
            states = jax.tree.map(lambda new, old: _where(is_free, new, old), fresh, states)
            number = jnp.where(is_free, 0, number)
            return task, following + is_free.sum(dtype=jnp.int32), number, states, results

        task = jnp.arange(workers, dtype=jnp.int32)
        first = jax.tree.map(lambda each: each[:workers], starts)
        loop = (task, jnp.int32(workers), jnp.zeros_like(task), first, starts)
        results = jax.lax.while_loop(lambda loop: jnp.any(loop[0] < size), shift, loop)[-1]
        return results, jax.tree.map(lambda _: True, results)

    one = custom_vmap(alone)
    one.def_vmap(in_turn)
    state = one(key, start)
    return jax.tree.map(lambda found, instead: jnp.where(is_done(state), found, instead), state, otherwise)


def _spread(values: Any, is_batched: Any, size: int) -> Any:
    return jax.tree.map(lambda x, has: x if has else jnp.broadcast_to(x, (size, *x.shape)), values, tuple(is_batched))


def _where(mask: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    return jnp.where(mask.reshape(-1, *(1,) * (new.ndim - 1)), new, old)
