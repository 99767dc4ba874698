"""The arrays of a state that no step changes, such as the walls of a maze, read from the reset bank during a rollout.

Without this every step selects, for each environment, its own array or that of the next episode, and writes it: for a
grid of 19 x 19 cells, most of the bytes that a step moves. Here the loop carries the row of the bank in which the
episode's arrays stand, and reads there only the cells that it needs.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from shoal.core.env import Env, State
from shoal.core.keys import make_key


class Unchanged(NamedTuple):
    """The unchanged arrays of all episodes of a rollout: of the episodes that run, then of those in the reset bank."""

    structure: Any  # of a state
    is_unchanged: tuple[bool, ...]  # of each array of a state
    rows: list[Array]  # of each unchanged array: [(1 + R) * E, ...]

    @classmethod
    def of(cls, env: Env, state: State, first_states: State, noise: Any) -> "Unchanged":
        """From the states [E] before a rollout, its reset bank [R, E] and its step noise [T, E]."""
        leaves, structure = jax.tree.flatten(state)
        is_unchanged = unchanged_leaves(env, state, noise)
        both = zip(leaves, jax.tree.leaves(first_states), is_unchanged, strict=True)
        return cls(
            structure, is_unchanged, [_flat(jnp.concatenate([x[None], bank])) for x, bank, is_it in both if is_it]
        )

    @classmethod
    def none(cls, state: State) -> "Unchanged":
        """No array is treated as unchanged."""
        structure = jax.tree.structure(state)
        return cls(structure, (False,) * structure.num_leaves, [])

    def first_row(self, num_envs: int) -> Int[Array, "E"] | None:
        """The rows of the episodes that run; None if no array is unchanged."""
        return jnp.arange(num_envs, dtype=jnp.int32) if self.rows else None

    def no_rows(self, shape: tuple[int, ...]) -> Int[Array, "*n"] | None:
        """Rows that do not exist, which `restored_or_zero` takes; None if no array is unchanged."""
        return jnp.full(shape, self.rows[0].shape[0], jnp.int32) if self.rows else None

    def changing(self, state: State) -> list[Array]:
        """The arrays of a state that steps change."""
        return [x for x, is_it in zip(jax.tree.leaves(state), self.is_unchanged, strict=True) if not is_it]

    def restored(self, changing: list[Array], row: Int[Array, "*n"] | None) -> State:
        """The states with these arrays, and the unchanged ones of their episodes."""
        return self._joined(changing, [x.at[row].get(mode="promise_in_bounds") for x in self.rows])

    def restored_or_zero(self, changing: list[Array], row: Int[Array, "*n"] | None) -> State:
        """The same, with zeros for a row that does not exist."""
        return self._joined(changing, [x.at[row].get(mode="fill", fill_value=0) for x in self.rows])

    def _joined(self, changing: list[Array], unchanged: list[Array]) -> State:
        sources = iter(unchanged), iter(changing)
        leaves = [next(sources[0] if is_it else sources[1]) for is_it in self.is_unchanged]
        return jax.tree.unflatten(self.structure, leaves)


def unchanged_leaves(env: Env, state: State, noise: Any) -> tuple[bool, ...]:
    """For each array of a state, whether every step passes it on as it is, and a new episode takes its own.

    `state` [E] and `noise` [T, E] give the shapes. The answer comes from the traced step: an array is unchanged if the
    step returns the very array that it got.
    """
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), state)
    one_noise = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype), noise)
    action = jax.eval_shape(env.action_space.sample, make_key(0))
    num_leaves = len(jax.tree.leaves(state))
    step = jax.make_jaxpr(lambda state, *rest: env.advance(state, *rest)[0])(one, action, one_noise).jaxpr
    reset = jax.make_jaxpr(lambda fresh, ended: env.carry_over(ended, fresh))(one, one).jaxpr
    return tuple(
        after is before and new is fresh
        for before, after, fresh, new in zip(
            step.invars[:num_leaves], step.outvars, reset.invars[:num_leaves], reset.outvars, strict=True
        )
    )


def _flat(rows: Array) -> Array:
    return rows.reshape(rows.shape[0] * rows.shape[1], *rows.shape[2:])
