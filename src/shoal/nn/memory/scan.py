"""Functions with which memories read sequences: resets at the start of episodes, and linear recurrences."""

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from shoal.core.form import current


@runtime_checkable
class HasInitialCarry(Protocol):
    """A memory or a part of one."""

    def initial_carry(self, axes: tuple[int, ...] = ()) -> Any:
        """The carry at the start of an episode, with leading `axes`."""
        ...


def reset(memory: HasInitialCarry, is_first: Bool[Array, "*axes"], carry: Any) -> Any:
    """The carry with which a step begins: the initial one where `is_first`."""

    def chosen(initial: Array, old: Array) -> Array:
        return jnp.where(is_first.reshape(is_first.shape + (1,) * (old.ndim - is_first.ndim)), initial, old)

    return jax.tree.map(chosen, memory.initial_carry(is_first.shape), carry)


def linear_recurrence(decay: Array, added: Array, is_first: Bool[Array, "T *axes"], carry: Array) -> Array:
    """h_t = decay_t h_(t-1) + added_t for all T, where h_(t-1) is 0 at the start of an episode.

    `decay` and `added` are [T, *axes, H], real or complex, and h_(-1) is `carry` [*axes, H]. Steps are joined pairwise
    in a tree (`jax.lax.associative_scan`), or read one after another, as the form of the program says.
    Source: Blelloch 1990, section 1.4, for the tree; Lu et al. 2023, section 3.1, for resets in it.
    """
    decay = jnp.where(is_first[..., None], 0, decay)  # a factor of 0: nothing before the episode remains
    if not current().linear_recurrences_as_trees:

        def step(carry: Array, xs: tuple[Array, Array]) -> tuple[Array, Array]:
            carry = xs[0] * carry + xs[1]
            return carry, carry

        return jax.lax.scan(step, carry, (decay, added))[1]

    def join(early: tuple[Array, Array], late: tuple[Array, Array]) -> tuple[Array, Array]:
        return late[0] * early[0], late[0] * early[1] + late[1]

    added = added.at[0].add(decay[0] * carry)
    return jax.lax.associative_scan(join, (decay, added))[1]
