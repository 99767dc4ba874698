"""Worlds that are tables: what may follow each action in each state is worked out once, on the host.

A step looks one word up in that table. Which of several outcomes it is follows from one uniform number, and the
probabilities and rewards stay traced: a population may differ in them. `model` gives the whole table, for planning.
"""

import abc
import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, UInt

from shoal.core.env import Env, Key, State
from shoal.core.spaces import Discrete
from shoal.core.struct import Number, Struct, struct

Outcome = tuple[State, Float[Array, ""], Bool[Array, ""], dict[str, Array]]
# Of four directions in circular order: each with the two beside it.
SIDEWAYS = (np.arange(4)[:, None] + np.arange(-1, 2)) % 4


@dataclasses.dataclass(frozen=True, eq=False)
class Outcomes:
    """What may follow: S states, A actions, K outcomes for each. Host arrays.

    Which outcome it is depends on K probabilities that are the same everywhere, so K equal outcomes stand where there
    is only one; `certain` marks those that are one by nature.
    """

    next_state: Int[np.ndarray, "S A K"]
    reward: Int[np.ndarray, "S A K"]  # which of the world's rewards
    terminated: Bool[np.ndarray, "S A K"]
    certain: Bool[np.ndarray, "S A"]
    starts: Int[np.ndarray, "N"]  # the first states, all equally likely

    @property
    def dtype(self) -> np.dtype:
        """The smallest dtype that counts the states."""
        return np.min_scalar_type(len(self.next_state) - 1)

    @functools.cached_property
    def words(self) -> UInt[np.ndarray, "SAK"]:
        """Next state, reward and flag in one word each: what a step reads."""
        packed = (self.next_state * self._rewards + self.reward) * 2 + self.terminated
        return packed.astype(np.promote_types(np.min_scalar_type(packed.max()), np.uint16)).ravel()

    def unpack(self, word: UInt[Array, ""]) -> tuple[UInt[Array, ""], UInt[Array, ""], Bool[Array, ""]]:
        """(next state, which reward, terminated) of a word."""
        rest = word >> 1
        shift = self._rewards.bit_length() - 1
        return (rest >> shift).astype(self.dtype), rest & (self._rewards - 1), (word & 1) == 1

    @property
    def _rewards(self) -> int:
        return 1 << int(self.reward.max()).bit_length()


@struct
class Model(Struct):
    """A world's whole dynamics, [S, A, K] each: outcomes of probability 0 fill up where there are fewer than K."""

    probability: Float[Array, "S A K"]
    next_state: Int[Array, "S A K"]
    reward: Float[Array, "S A K"]
    terminated: Bool[Array, "S A K"]


@struct
class TabularState(State):
    """Which state of the table."""

    index: UInt[Array, ""]


class Tabular(Env):
    """What worlds made of a table share. A class below says which table, which rewards, and how likely outcomes are."""

    @property
    @abc.abstractmethod
    def outcomes(self) -> Outcomes:
        """The table: a function of static fields alone, so that it is made once."""

    @property
    @abc.abstractmethod
    def rewards(self) -> tuple[Number, ...]:
        """The rewards that the table refers to."""

    @property
    @abc.abstractmethod
    def probabilities(self) -> tuple[Number, ...]:
        """How likely each of the K outcomes is."""

    # Derived; never overridden.

    @property
    def observation_space(self) -> Discrete:
        """The states of the table."""
        return Discrete(len(self.outcomes.next_state), self.outcomes.dtype)

    @property
    def action_space(self) -> Discrete:
        """The actions of the table."""
        return Discrete(self.outcomes.next_state.shape[1])

    def observe(self, state: TabularState) -> UInt[Array, ""]:
        """Which state it is."""
        return state.index

    def first(self, key: Key) -> UInt[Array, ""]:
        """One of the first states. `key` is consumed."""
        starts = self.outcomes.starts.astype(self.outcomes.dtype)
        which = jax.random.randint(key, (), 0, len(starts)) if len(starts) > 1 else 0
        return jnp.asarray(starts)[which]

    def luck(self, key: Key) -> Float[Array, ""] | None:
        """The uniform number that chooses among outcomes; None where there is one only. `key` is consumed."""
        return jax.random.uniform(key) if len(self.probabilities) > 1 else None

    def follow(
        self, index: UInt[Array, ""], action: Integer[Array, ""], luck: Float[Array, ""] | None
    ) -> tuple[UInt[Array, ""], Float[Array, ""], Bool[Array, ""]]:
        """(next state, reward, terminated): the first outcome whose cumulated probability exceeds `luck`."""
        _, actions, choices = self.outcomes.next_state.shape
        place = (index.astype(jnp.int32) * actions + action.astype(jnp.int32)) * choices
        if luck is not None:
            limit: Number = 0.0
            for probability in self.probabilities[:-1]:
                limit = limit + probability
                place = place + (luck >= limit).astype(jnp.int32)
        word = jnp.asarray(self.outcomes.words).at[place].get(mode="promise_in_bounds")
        index, kind, terminated = self.outcomes.unpack(word)
        reward = jnp.float32(0)
        for i, each in enumerate(self.rewards):
            reward = jnp.where(kind == i, jnp.asarray(each, jnp.float32), reward)
        return index, reward, terminated

    def model(self) -> Model:
        """The whole dynamics, for planning: probabilities and rewards follow the fields, and may be traced.

        One sweep of value iteration:

            model = env.model()
            target = model.reward + discount * jnp.where(model.terminated, 0, value[model.next_state])
            value = (model.probability * target).sum(-1).max(-1)
        """
        table, real = self.outcomes, jax.dtypes.canonicalize_dtype(float)
        odds = jnp.stack([jnp.asarray(p, real) for p in self.probabilities])
        first = jnp.asarray(np.arange(len(odds)) == 0, real)
        rewards = jnp.stack([jnp.asarray(reward, real) for reward in self.rewards])
        return Model(
            probability=jnp.where(table.certain[..., None], first[None, None], odds[None, None]),
            next_state=jnp.asarray(table.next_state, jnp.int32),
            reward=rewards[table.reward],
            terminated=jnp.asarray(table.terminated),
        )

    def start_distribution(self) -> Float[np.ndarray, "S"]:
        """How likely each state is to be the first."""
        table = self.outcomes
        return np.bincount(table.starts, minlength=len(table.next_state)) / len(table.starts)


def neighbors(rows: int, columns: int, moves: Sequence[tuple[int, int]]) -> Int[np.ndarray, "S A"]:
    """Where each move (rows down, columns right) leads from each cell, counted row by row; borders stop it."""
    row, column = np.divmod(np.arange(rows * columns)[:, None], columns)
    down, right = np.asarray(moves).T
    return np.clip(row + down, 0, rows - 1) * columns + np.clip(column + right, 0, columns - 1)
