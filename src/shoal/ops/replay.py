"""A replay buffer: a ring with the newest steps of one member, sampled by index.

A row is one step of E environments. Each observation is stored once, in the dtype that the environment gives: the
successor of a row is the next row, except at a truncation, whose final observation is in a second, small ring. Sampling
is a few gathers, whatever the capacity; the buffer itself is never permuted, sorted or copied.

For an agent with a memory, samples are sequences of rows instead of single ones. A sequence begins where a rollout
began, so that the buffer stores recurrent carries for one row of every rollout only.

The row at which new steps are written follows from the clock (the index of the update in the run). All members have the
same clock, so under `vmap` a write is one contiguous slice. How many rows hold steps of this member follows from its
age, so that a member that begins late samples only its own steps.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.agent import Buffer
from shoal.core.form import current
from shoal.core.keys import Key
from shoal.core.struct import Number, Struct, static, struct


@struct
class Steps(Struct):
    """T steps of E environments, as a rollout records them."""

    observed: Any  # [T, E], all that the policy observed before each step: any pytree of arrays
    action: Any  # [T, E]
    reward: Float[Array, "T E"]
    terminated: Bool[Array, "T E"]
    truncated: Bool[Array, "T E"]
    final_observed: Any  # [F, E], the final observations of truncated episodes, in order; F is 0 without a time limit
    final_slot: Int[Array, "T E"]  # for a truncated step: its row in `final_observed`
    carry: Any = None  # [E], of the acting network before the first step; None without a memory
    time: Any = None  # [T, E], the steps of the episode, this one included; None where no sample needs later steps


@struct
class History(Struct):
    """The rows that a memory reads of B sequences: W, from the first burn-in row to the last that a sample joins."""

    observed: Any  # [W, B]
    is_first: Bool[Array, "W B"]  # whether an episode begins in a row; the first row needs no reset: see `carry`
    carry: Any  # [B], that of the acting network before the first row, reset if an episode begins there
    last: Int[Array, "N"]  # [L * B], the row of the last step of each sample, after which its successor is observed


@struct
class Transitions(Struct):
    """B samples, each of one step (or n steps) and its successor. The target is reward + bootstrap * value(next).

    B sequences of L steps are L * B samples, the first steps of all sequences first, and a `history`.
    """

    observed: Any  # [B]
    action: Any  # [B]
    reward: Float[Array, "B"]  # discounted sum over n steps, or up to the end of the episode
    bootstrap: Float[Array, "B"]  # discount to the power of the number of steps; 0 where the episode terminated
    next_observed: Any  # [B], the true successor: the final observation where the episode was truncated
    history: History | None = None  # None for samples of single steps


@struct
class Replay(Buffer):
    """A ring of R rows of E environments. Make one with `empty`."""

    observed: Any  # [R, E]
    action: Any  # [R, E]
    reward: Float[Array, "R E"]
    terminated: Bool[Array, "R E"]
    truncated: Bool[Array, "R E"]
    final_observed: Any  # [K, E], a ring of each environment's newest final observations
    final_slot: Int[Array, "R E"] | None  # for a truncated step: its row in `final_observed`; None without a time limit
    next_final: Int[Array, "E"]  # the row of `final_observed` that is written next
    carry: Any  # [R / T, E], of the acting network before every rollout; None without a memory
    time: Int[Array, "R E"] | None  # as in `Steps`; what `later` needs
    rows_at_once: int = static()  # T, the rows of one rollout

    @classmethod
    def empty(
        cls,
        observed: Any,
        action: Any,
        *,
        num_envs: int,
        num_steps: int,
        size: int,
        final_rows: int,
        carry: Any = None,
        has_time: bool = False,
    ) -> "Replay":
        """A buffer for `size` steps, rounded up to whole rollouts of `num_steps` rows.

        `observed`, `action` and `carry` of one environment give shapes and dtypes. `final_rows` is K, the largest
        number of truncations of one environment within R rows (`rollout.final_slots`). With `has_time` the buffer
        stores the time of every step in its episode.
        """
        rows = rows_for(size, num_envs, num_steps)

        def ring(length: int, example: Any) -> Any:
            return jax.tree.map(lambda x: jnp.zeros((length, num_envs, *jnp.shape(x)), jnp.asarray(x).dtype), example)

        flags = jnp.zeros((rows, num_envs), bool)
        return cls(
            observed=ring(rows, observed),
            action=ring(rows, action),
            reward=jnp.zeros((rows, num_envs), jnp.float32),
            terminated=flags,
            truncated=flags,
            final_observed=ring(final_rows, observed),
            final_slot=jnp.zeros((rows, num_envs), jnp.int32) if final_rows else None,
            next_final=jnp.zeros(num_envs, jnp.int32),
            carry=ring(rows // num_steps, carry),
            time=jnp.zeros((rows, num_envs), jnp.int32) if has_time else None,
            rows_at_once=num_steps,
        )

    @property
    def rows(self) -> int:
        """R, the capacity in rows."""
        return self.reward.shape[0]

    @property
    def num_envs(self) -> int:
        """E, the number of environments."""
        return self.reward.shape[1]

    @property
    def stride(self) -> int:
        """The number of rows from one row at which a sample may begin to the next: 1, or T for sequences."""
        return 1 if self.carry is None else self.rows_at_once

    @property
    def starts(self) -> int:
        """The number of rows at which a sample may begin. Sample i begins in start i // E of environment i % E."""
        return self.rows // self.stride

    def add(self, steps: Steps, clock: Int[Array, ""]) -> "Replay":
        """The buffer with T new rows instead of the T oldest. `clock` counts updates; all members must share it."""
        rollout = clock % (self.rows // self.rows_at_once)
        start = rollout * self.rows_at_once

        def write(ring: Array, new: Array, start: Array = start) -> Array:
            new = new.astype(ring.dtype)
            if not current().replay_as_rows:
                return jax.lax.dynamic_update_slice_in_dim(ring, new, start, axis=0)
            return jax.lax.dynamic_update_slice_in_dim(_rows(ring), _rows(new), start, axis=0).reshape(ring.shape)

        steps, final_observed, next_final = self._add_final(steps)
        return self.replace(
            observed=jax.tree.map(write, self.observed, steps.observed),
            action=jax.tree.map(write, self.action, steps.action),
            reward=write(self.reward, steps.reward),
            terminated=write(self.terminated, steps.terminated),
            truncated=write(self.truncated, steps.truncated),
            final_observed=final_observed,
            final_slot=None if self.final_slot is None else write(self.final_slot, steps.final_slot),
            next_final=next_final,
            carry=jax.tree.map(lambda ring, new: write(ring, new[None], rollout), self.carry, steps.carry),
            time=None if self.time is None else write(self.time, steps.time),
        )

    def newest(self, clock: Int[Array, ""]) -> Int[Array, ""]:
        """The index of the newest row, after `add` with this clock."""
        return (clock % (self.rows // self.rows_at_once) + 1) * self.rows_at_once - 1

    def stored(self, age: Int[Array, ""], limit: Number | None = None) -> Int[Array, ""]:
        """The number of rows that hold steps of this member, after `add` in the update at this age (0: the first one).

        `limit` is the number of samples that count, if the ring is larger; it may be traced.
        """
        own = jnp.minimum(age + 1, self.rows // self.rows_at_once) * self.rows_at_once
        return own if limit is None else jnp.minimum(own, jnp.ceil(limit / self.num_envs).astype(jnp.int32))

    def usable(self, age: Int[Array, ""], incomplete: int = 1, limit: Number | None = None) -> Int[Array, ""]:
        """The number of starts whose samples can be taken, at least 1: all but the newest `incomplete` of them.

        The samples of these lack rows that are not stored yet, such as the successor.
        """
        return jnp.maximum(self.stored(age, limit) // self.stride - incomplete, 1)

    def uniform(self, key: Key, count: int, newest: Array, usable: Array, incomplete: int = 1) -> Int[Array, "B"]:
        """Indices of `count` samples, uniform with replacement, from the `usable` starts. `key` is consumed."""
        position = jax.random.randint(key, (count,), 0, usable * self.num_envs, jnp.int32)
        return self.index(newest, incomplete + position // self.num_envs, position % self.num_envs)

    def index(self, newest: Int[Array, ""], behind: Int[Array, "..."], env: Int[Array, "..."]) -> Int[Array, "..."]:
        """The index of the sample of environment `env` at the start that is `behind` starts before the newest.

        `behind` and `env` broadcast. Where samples are single rows, it is their index in the flattened ring.
        """
        return (newest // self.stride - behind) % self.starts * self.num_envs + env

    def take(self, index: Int[Array, "B"], discount: Number, n_step: int = 1) -> Transitions:
        """The single rows at these indices, over `n_step` steps each (fewer at the end of an episode)."""
        return self._join_steps(index, discount, n_step)[0]

    def take_sequences(
        self, index: Int[Array, "B"], discount: Number, n_step: int, burn_in: int, length: int
    ) -> Transitions:
        """The sequences at these indices: `burn_in` rows for the memory only, then `length` rows with a sample each."""
        first, env = index // self.num_envs * self.stride, index % self.num_envs
        row = jnp.arange(burn_in + length + n_step - 1, dtype=jnp.int32)[:, None]
        window = (first[None] + row) % self.rows * self.num_envs + env[None]  # [W, B]
        samples, last = self._join_steps(window[burn_in : burn_in + length].ravel(), discount, n_step)
        done = _at(self.terminated, window) | _at(self.truncated, window)
        history = History(
            observed=jax.tree.map(lambda x: _at(x, window), self.observed),
            is_first=jnp.concatenate([jnp.zeros_like(done[:1]), done[:-1]]),
            carry=jax.tree.map(lambda x: _at(x, index), self.carry),
            last=(last // self.num_envs - jnp.tile(first, length)) % self.rows,
        )
        return samples.replace(history=history)

    def later(self, key: Key, index: Int[Array, "B"], newest: Int[Array, ""]) -> tuple[Any, Bool[Array, "B"]]:
        """What was observed after a random step of the same episode, uniform from the step at each index on.

        Returns (what was observed [B], whether there is such a step [B]). Steps that are not stored yet do not count,
        nor does the final observation of an episode that terminated, which no rollout keeps. `key` is consumed.
        """
        row, env = index // self.num_envs, index % self.num_envs
        last = self._last_of_episode(row, env, newest)
        ends_known = _at(self.truncated, self._moved(row, last, env)) & ~_at(
            self.terminated, self._moved(row, last, env)
        )
        count = last + ends_known.astype(jnp.int32)
        ahead = jax.random.randint(key, index.shape, 0, jnp.maximum(count, 1), jnp.int32)
        chosen = self._moved(row, ahead, env)
        return self._successor(self._moved(row, ahead + 1, env), chosen, env), count > 0

    def _last_of_episode(self, row: Int[Array, "B"], env: Int[Array, "B"], newest: Int[Array, ""]) -> Int[Array, "B"]:
        # How many rows after each row the last stored step of its episode is: a binary search. Until then the time
        # increases with every row, and from the next episode on it is smaller than that.
        assert self.time is not None
        stored, start = (newest - row) % self.rows, _at(self.time, row * self.num_envs + env)
        ahead = jnp.zeros_like(row)
        for step in reversed([2**i for i in range(self.rows.bit_length())]):
            further = ahead + step
            is_within = (further <= stored) & (_at(self.time, self._moved(row, further, env)) == start + further)
            ahead = jnp.where(is_within, further, ahead)
        return ahead

    def _moved(self, row: Int[Array, "B"], ahead: Int[Array, "B"], env: Int[Array, "B"]) -> Int[Array, "B"]:
        # The indices of the rows that are so many rows ahead.
        return (row + ahead) % self.rows * self.num_envs + env

    def _join_steps(self, index: Int[Array, "B"], discount: Number, n_step: int) -> tuple[Transitions, Int[Array, "B"]]:
        # (the samples of the rows at these indices, the index of the last step that each of them joins)
        row, env = index // self.num_envs, index % self.num_envs
        steps = [(row + k) % self.rows * self.num_envs + env for k in range(n_step)]
        reward, bootstrap = jnp.zeros(index.shape, jnp.float32), jnp.ones(index.shape, jnp.float32)
        is_running = jnp.ones(index.shape, bool)  # whether the episode goes on
        last = index  # the index of the sample's last step
        for i, step in enumerate(steps):
            last = jnp.where(is_running, step, last)
            reward = reward + jnp.where(is_running, bootstrap * _at(self.reward, step), 0)
            bootstrap = jnp.where(is_running, bootstrap * discount, bootstrap)
            if i + 1 < n_step:
                is_running &= ~(_at(self.terminated, step) | _at(self.truncated, step))
        terminated = _at(self.terminated, last)
        samples = Transitions(
            observed=jax.tree.map(lambda x: _at(x, index), self.observed),
            action=jax.tree.map(lambda x: _at(x, index), self.action),
            reward=reward,
            bootstrap=jnp.where(terminated, 0, bootstrap),
            next_observed=self._successor((row + n_step) % self.rows * self.num_envs + env, last, env),
        )
        return samples, last

    def _add_final(self, steps: Steps) -> tuple[Steps, Any, Array]:
        """Write final observations: (the steps with `final_slot` in this ring, `final_observed`, `next_final`)."""
        if self.final_slot is None:
            return steps, self.final_observed, self.next_final
        length = jax.tree.leaves(self.final_observed)[0].shape[0]
        count = jnp.sum(steps.truncated & ~steps.terminated, axis=0, dtype=jnp.int32)
        order = jnp.arange(jax.tree.leaves(steps.final_observed)[0].shape[0], dtype=jnp.int32)[:, None]
        first = self.next_final[None]
        slot = jnp.where(order < count[None], (first + order) % length, length)  # index `length` is dropped
        env = jnp.arange(self.num_envs, dtype=jnp.int32)[None]
        final_observed = jax.tree.map(
            lambda ring, new: ring.at[slot, env].set(new, mode="drop"), self.final_observed, steps.final_observed
        )
        steps = steps.replace(final_slot=(first + steps.final_slot) % length)
        return steps, final_observed, (self.next_final + count) % length

    def _successor(self, next_index: Int[Array, "B"], last: Int[Array, "B"], env: Int[Array, "B"]) -> Any:
        """The observation at `next_index`, or the final observation where the step at `last` was truncated."""
        next_row = jax.tree.map(lambda x: _at(x, next_index), self.observed)
        if self.final_slot is None:
            return next_row
        slot = _at(self.final_slot, last) * self.num_envs + env
        final = jax.tree.map(lambda x: _at(x, slot), self.final_observed)
        # Steps that both terminated and were truncated have no final observation here.
        only_truncated = _at(self.truncated, last) & ~_at(self.terminated, last)
        return jax.tree.map(
            lambda f, n: jnp.where(only_truncated.reshape(only_truncated.shape + (1,) * (f.ndim - 1)), f, n),
            final,
            next_row,
        )


def rows_for(size: int, num_envs: int, num_steps: int) -> int:
    """The rows of a ring for at least `size` samples: whole rollouts of `num_steps` rows, at least two."""
    return max(2, math.ceil(size / (num_envs * num_steps))) * num_steps


def _rows(ring: Array) -> Array:
    return ring.reshape(ring.shape[0], -1)


def _at(ring: Array, index: Int[Array, "..."]) -> Array:
    flat = ring.reshape(ring.shape[0] * ring.shape[1], *ring.shape[2:])
    return flat.at[index].get(mode="promise_in_bounds")
