"""The newest experience of one member in a ring, sampled by index.

A row is one step of E environments. What was seen is stored once, in the dtypes of the world: the successor of a row
is the next one, except at a time limit, whose final observation lies in a small ring of its own. A sample is a few
gathers, whatever the capacity; the buffer itself is never permuted, never sorted and never copied.

The place of new rows follows from the runner's clock, which members share, so that under `vmap` a write stays one
contiguous slice. How many rows are this member's own follows from its age: a member that begins late sees only its own.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.agent import Buffer
from shoal.core.keys import Key
from shoal.core.struct import Number, Struct, static, struct


@struct
class Steps(Struct):
    """T steps of E environments, as a rollout tells them."""

    seen: Any  # [T, E], what the policy saw: any tree of arrays
    action: Any  # [T, E]
    reward: Float[Array, "T E"]
    terminated: Bool[Array, "T E"]
    truncated: Bool[Array, "T E"]
    finals: Any  # [F, E], what was seen last before a time limit, in order; F is 0 for a world without one
    final_slot: Int[Array, "T E"]  # which row of `finals` belongs to a step that a time limit cut


@struct
class Transitions(Struct):
    """B samples, each a step (or n of them) and what came after. The target is reward + bootstrap * value(next)."""

    seen: Any  # [B]
    action: Any  # [B]
    reward: Float[Array, "B"]  # of n steps, discounted; fewer where the episode ended
    bootstrap: Float[Array, "B"]  # discount to the number of steps; 0 where the episode terminated
    next_seen: Any  # [B], the true successor: the final observation where a time limit cut the episode


@struct
class Replay(Buffer):
    """A ring of R rows. Make one with `empty`."""

    seen: Any  # [R, E]
    action: Any  # [R, E]
    reward: Float[Array, "R E"]
    terminated: Bool[Array, "R E"]
    truncated: Bool[Array, "R E"]
    finals: Any  # [K, E], every environment's newest ends by a time limit
    final_slot: Int[Array, "R E"] | None  # which row of `finals`; None for a world without a time limit
    next_final: Int[Array, "E"]  # where the next one goes
    rows_at_once: int = static()  # T

    @classmethod
    def empty(cls, seen: Any, action: Any, *, num_envs: int, num_steps: int, size: int, final_rows: int) -> "Replay":
        """Room for `size` samples, rounded up to whole rollouts of `num_steps` rows.

        `seen` and `action` are examples of one environment; `final_rows` is K, how many time limits one environment can
        reach within R rows (`rollout.final_slots`).
        """
        rows = rows_for(size, num_envs, num_steps)

        def ring(length: int, example: Any) -> Any:
            return jax.tree.map(lambda x: jnp.zeros((length, num_envs, *jnp.shape(x)), jnp.asarray(x).dtype), example)

        flags = jnp.zeros((rows, num_envs), bool)
        return cls(
            seen=ring(rows, seen),
            action=ring(rows, action),
            reward=jnp.zeros((rows, num_envs), jnp.float32),
            terminated=flags,
            truncated=flags,
            finals=ring(final_rows, seen),
            final_slot=jnp.zeros((rows, num_envs), jnp.int32) if final_rows else None,
            next_final=jnp.zeros(num_envs, jnp.int32),
            rows_at_once=num_steps,
        )

    @property
    def rows(self) -> int:
        """R."""
        return self.reward.shape[0]

    @property
    def num_envs(self) -> int:
        """E."""
        return self.reward.shape[1]

    def add(self, steps: Steps, clock: Int[Array, ""]) -> "Replay":
        """With T new rows in the place of the oldest. `clock` counts updates and must not differ between members."""
        start = clock % (self.rows // self.rows_at_once) * self.rows_at_once

        def write(ring: Array, new: Array) -> Array:
            return jax.lax.dynamic_update_slice_in_dim(ring, new.astype(ring.dtype), start, axis=0)

        steps, finals, next_final = self._add_finals(steps)
        return self.replace(
            seen=jax.tree.map(write, self.seen, steps.seen),
            action=jax.tree.map(write, self.action, steps.action),
            reward=write(self.reward, steps.reward),
            terminated=write(self.terminated, steps.terminated),
            truncated=write(self.truncated, steps.truncated),
            finals=finals,
            final_slot=None if self.final_slot is None else write(self.final_slot, steps.final_slot),
            next_final=next_final,
        )

    def newest(self, clock: Int[Array, ""]) -> Int[Array, ""]:
        """The row that was written last, after `add` with this clock."""
        return (clock % (self.rows // self.rows_at_once) + 1) * self.rows_at_once - 1

    def stored(self, age: Int[Array, ""], limit: Number | None = None) -> Int[Array, ""]:
        """How many rows are a member's own, after the add at this age (0: its first).

        `limit` bounds the samples that count, in a ring that has room for more; it may be traced.
        """
        own = jnp.minimum(age + 1, self.rows // self.rows_at_once) * self.rows_at_once
        return own if limit is None else jnp.minimum(own, jnp.ceil(limit / self.num_envs).astype(jnp.int32))

    def usable(self, age: Int[Array, ""], n_step: int = 1, limit: Number | None = None) -> Int[Array, ""]:
        """How many rows can be sampled, at least 1: not the newest n, whose successors are still to come."""
        return jnp.maximum(self.stored(age, limit) - n_step, 1)

    def uniform(self, key: Key, count: int, newest: Array, usable: Array, n_step: int = 1) -> Int[Array, "B"]:
        """Indices of `count` samples, with replacement, from the rows that are usable. `key` is consumed."""
        drawn = jax.random.randint(key, (count,), 0, usable * self.num_envs, jnp.int32)
        return self.index(newest, n_step + drawn // self.num_envs, drawn % self.num_envs)

    def index(self, newest: Int[Array, ""], behind: Int[Array, "..."], env: Int[Array, "..."]) -> Int[Array, "..."]:
        """The index of the sample of environment `env` that is `behind` rows older than the newest; both broadcast."""
        return (newest - behind) % self.rows * self.num_envs + env

    def take(self, index: Int[Array, "B"], discount: Number, n_step: int = 1) -> Transitions:
        """The samples of these indices, as steps of length `n_step` (shorter at the end of an episode)."""
        row, env = index // self.num_envs, index % self.num_envs
        steps = [(row + k) % self.rows * self.num_envs + env for k in range(n_step)]
        reward, bootstrap = jnp.zeros(index.shape, jnp.float32), jnp.ones(index.shape, jnp.float32)
        is_open, last = jnp.ones(index.shape, bool), index  # whether the episode still runs; the last step of it
        for i, step in enumerate(steps):
            last = jnp.where(is_open, step, last)
            reward = reward + jnp.where(is_open, bootstrap * _at(self.reward, step), 0)
            bootstrap = jnp.where(is_open, bootstrap * discount, bootstrap)
            if i + 1 < n_step:
                is_open &= ~(_at(self.terminated, step) | _at(self.truncated, step))
        terminated = _at(self.terminated, last)
        return Transitions(
            seen=jax.tree.map(lambda x: _at(x, index), self.seen),
            action=jax.tree.map(lambda x: _at(x, index), self.action),
            reward=reward,
            bootstrap=jnp.where(terminated, 0, bootstrap),
            next_seen=self._successor((row + n_step) % self.rows * self.num_envs + env, last, env),
        )

    def _add_finals(self, steps: Steps) -> tuple[Steps, Any, Array]:
        """(the steps with slots of this ring, its final observations, where the next one goes)."""
        if self.final_slot is None:
            return steps, self.finals, self.next_final
        length = jax.tree.leaves(self.finals)[0].shape[0]
        count = jnp.sum(steps.truncated & ~steps.terminated, axis=0, dtype=jnp.int32)
        order = jnp.arange(jax.tree.leaves(steps.finals)[0].shape[0], dtype=jnp.int32)[:, None]
        first = self.next_final[None]
        slot = jnp.where(order < count[None], (first + order) % length, length)  # beyond the end: not written
        env = jnp.arange(self.num_envs, dtype=jnp.int32)[None]
        finals = jax.tree.map(lambda ring, new: ring.at[slot, env].set(new, mode="drop"), self.finals, steps.finals)
        steps = steps.replace(final_slot=(first + steps.final_slot) % length)
        return steps, finals, (self.next_final + count) % length

    def _successor(self, after: Int[Array, "B"], last: Int[Array, "B"], env: Int[Array, "B"]) -> Any:
        following = jax.tree.map(lambda x: _at(x, after), self.seen)
        if self.final_slot is None:
            return following
        slot = _at(self.final_slot, last) * self.num_envs + env
        final = jax.tree.map(lambda x: _at(x, slot), self.finals)
        cut = _at(self.truncated, last) & ~_at(self.terminated, last)  # of others no final observation is kept
        return jax.tree.map(
            lambda f, s: jnp.where(cut.reshape(cut.shape + (1,) * (f.ndim - 1)), f, s), final, following
        )


def rows_for(size: int, num_envs: int, num_steps: int) -> int:
    """Rows of a ring for at least `size` samples: whole rollouts of T rows, and two of them at least."""
    return max(2, math.ceil(size / (num_envs * num_steps))) * num_steps


def _at(ring: Array, index: Int[Array, "B"]) -> Array:
    flat = ring.reshape(ring.shape[0] * ring.shape[1], *ring.shape[2:])
    return flat.at[index].get(mode="promise_in_bounds")
