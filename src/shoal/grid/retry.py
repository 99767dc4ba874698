"""Generators that try at random until they succeed, batched so that one slow case does not delay all others."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from shoal.core.form import current
from shoal.core.keys import Key
from shoal.ops.loops import short_scan

WORKERS = (64, 1 / 32)  # elements in the loop at a time: at least so many, or this share of a large batch
WORKERS_AT_ONCE = (2**14, 1 / 8)  # the same on an accelerator, where a trip for fewer takes as long
ATTEMPTS = 8  # attempts between two checks of which elements are done, where an attempt is cheap
LIMIT = 2**14  # attempts after which an element is given up


def retry(
    key: Key,
    draw: Callable[[Key], Any],
    attempt: Callable[[Any, Any], Any],
    is_done: Callable[[Any], Any],
    start: Any,
    otherwise: Any,
    limit: int = LIMIT,
    attempts: int = ATTEMPTS,
) -> Any:
    """Apply `attempt(noise, state)`, beginning with `start`, until `is_done(state)`; return that state.

    If `limit` attempts (rounded up to a multiple of `attempts`) are not enough, the result is `otherwise`. This should
    be a state that is always valid, because compiled code cannot raise an error. With None the result is the state
    after the last attempt. Attempt i gets `draw(fold_in(key, i))` as its noise, so the result does not depend on the
    other elements of a batch.

    Under `vmap` a plain loop would run for all elements of a batch until the slowest one is done. Here the loop works
    on a few elements (the workers) at a time, and an element that is done is replaced by the next one of the batch.
    This is checked after every `attempts` attempts: take 1 where an attempt costs more than the check. In the form of
    an accelerator the loop works on many elements, and on the whole of a small batch, because there a trip costs more
    than its elements. The functions must not close over traced values. `key` is consumed.
    """
    limit = -(-limit // attempts) * attempts

    def noise_of(key, number):
        return draw(jax.random.fold_in(key, number))

    def attempt_unless_done(noise, state):
        after = attempt(noise, state)
        return jax.tree.map(lambda new, old: jnp.where(is_done(state), old, new), after, state)

    def single(key, start):
        def body(loop):
            number, state = loop
            return number + 1, attempt(noise_of(key, number), state)

        def is_running(loop):
            return ~is_done(loop[1]) & (loop[0] < limit)

        return jax.lax.while_loop(is_running, body, (jnp.int32(0), start))[1]

    def several_attempts(keys, numbers, states):
        # The noise is sampled before the attempts: XLA would sample it again for each value that depends on it.
        noise_of_some = jax.vmap(jax.vmap(noise_of), in_axes=(None, 0))
        noise = noise_of_some(keys, numbers)
        return short_scan(lambda s, noise: (jax.vmap(attempt_unless_done)(noise, s), None), states, noise)[0]

    def all_at_once(size, keys, starts):
        some = jnp.arange(attempts, dtype=jnp.int32)

        def shift(loop):
            number, states = loop
            return number + attempts, several_attempts(
                keys, jnp.broadcast_to(number + some[:, None], (attempts, size)), states
            )

        def is_running(loop):
            return jnp.any(~jax.vmap(is_done)(loop[1])) & (loop[0] < limit)

        return jax.lax.while_loop(is_running, shift, (jnp.int32(0), starts))[1]

    def one_after_another(size, keys, starts):
        workers = _workers(size)
        some = jnp.arange(attempts, dtype=jnp.int32)

        def shift(loop):
            element, next_element, number, states, results = loop
            states = several_attempts(keys[jnp.minimum(element, size - 1)], number[None] + some[:, None], states)
            # Unfinished states are written too; the last write, when the element is done, is the one that counts.
            results = jax.tree.map(lambda kept, new: kept.at[element].set(new, mode="drop"), results, states)
            number = number + attempts
            is_free = jax.vmap(is_done)(states) | (number >= limit)
            element = jnp.where(is_free, next_element + jnp.cumsum(is_free, dtype=jnp.int32) - 1, element)
            fresh = jax.tree.map(lambda x: x[jnp.minimum(element, size - 1)], starts)
            states = jax.tree.map(lambda new, old: _where(is_free, new, old), fresh, states)
            number = jnp.where(is_free, 0, number)
            return element, next_element + is_free.sum(dtype=jnp.int32), number, states, results

        element = jnp.arange(workers, dtype=jnp.int32)
        first = jax.tree.map(lambda x: x[:workers], starts)
        loop = (element, jnp.int32(workers), jnp.zeros_like(element), first, starts)
        return jax.lax.while_loop(lambda loop: jnp.any(loop[0] < size), shift, loop)[-1]

    def batched(size, is_batched, keys, starts):
        keys, starts = _broadcast((keys, starts), is_batched, size)
        is_whole = current().retries_at_once and _workers(size) == size
        results = (all_at_once if is_whole else one_after_another)(size, keys, starts)
        return results, jax.tree.map(lambda _: True, results)

    one = custom_vmap(single)
    one.def_vmap(batched)
    state = one(key, start)
    if otherwise is None:
        return state
    return jax.tree.map(lambda found, instead: jnp.where(is_done(state), found, instead), state, otherwise)


def _workers(size: int) -> int:
    fewest, share = WORKERS_AT_ONCE if current().retries_at_once else WORKERS
    return min(size, max(fewest, int(size * share)))


def _broadcast(values: Any, is_batched: Any, size: int) -> Any:
    return jax.tree.map(
        lambda x, has_axis: x if has_axis else jnp.broadcast_to(x, (size, *x.shape)), values, tuple(is_batched)
    )


def _where(mask: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    return jnp.where(mask.reshape(-1, *(1,) * (new.ndim - 1)), new, old)
