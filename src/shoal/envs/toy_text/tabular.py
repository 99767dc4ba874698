"""Environments with a table of outcomes for each state and action, which is computed once, on the host.

A step reads one word of the table. If there are several outcomes, one uniform number chooses one of them. Probabilities
and rewards are not in the table: they are traced, so members of a population may differ in them. `model` returns the
whole dynamics, for planning.
"""

import abc
import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, UInt

from shoal.core.env import Env, Key, State, Transition
from shoal.core.spaces import Discrete
from shoal.core.struct import Number, Struct, struct

Outcome = Transition[State]
# For four directions in circular order: each direction with the two next to it, [4, 3].
SIDEWAYS = (np.arange(4)[:, None] + np.arange(-1, 2)) % 4


@dataclasses.dataclass(frozen=True, eq=False)
class Outcomes:
    """The table: K outcomes for each of S states and A actions. Host arrays.

    The K probabilities are the same for all states and actions. A pair with one outcome only has it K times; `certain`
    marks these pairs.
    """

    next_state: Int[np.ndarray, "S A K"]
    reward: Int[np.ndarray, "S A K"]  # index into `Tabular.rewards`
    terminated: Bool[np.ndarray, "S A K"]
    certain: Bool[np.ndarray, "S A"]
    starts: Int[np.ndarray, "N"]  # possible first states, all equally likely

    @property
    def dtype(self) -> np.dtype:
        """The smallest dtype for an index of a state."""
        return np.min_scalar_type(len(self.next_state) - 1)

    @functools.cached_property
    def words(self) -> UInt[np.ndarray, "SAK"]:
        """Next state, index of the reward, and terminated, packed into one integer for each outcome."""
        packed = (self.next_state * self._rewards + self.reward) * 2 + self.terminated
        return packed.astype(np.promote_types(np.min_scalar_type(packed.max()), np.uint16)).ravel()

    def unpack(self, word: UInt[Array, ""]) -> tuple[UInt[Array, ""], UInt[Array, ""], Bool[Array, ""]]:
        """(next state, index of the reward, terminated) of a packed integer."""
        rest = word >> 1
        shift = self._rewards.bit_length() - 1
        return (rest >> shift).astype(self.dtype), rest & (self._rewards - 1), (word & 1) == 1

    @property
    def _rewards(self) -> int:
        return 1 << int(self.reward.max()).bit_length()


@struct
class Model(Struct):
    """The whole dynamics, [S, A, K] each. Pairs with fewer than K outcomes have further ones with probability 0."""

    probability: Float[Array, "S A K"]
    next_state: Int[Array, "S A K"]
    reward: Float[Array, "S A K"]
    terminated: Bool[Array, "S A K"]


@struct
class TabularState(State):
    """`index` is the state in the table."""

    index: UInt[Array, ""]


class Tabular(Env):
    """The base class of environments with a table. Subclasses define the table, the rewards and the probabilities."""

    @property
    @abc.abstractmethod
    def outcomes(self) -> Outcomes:
        """The table. It depends on static fields only, so that it is computed once."""

    @property
    @abc.abstractmethod
    def rewards(self) -> tuple[Number, ...]:
        """The rewards. The table holds indices into this tuple."""

    @property
    @abc.abstractmethod
    def probabilities(self) -> tuple[Number, ...]:
        """The probabilities of the K outcomes."""

    # Methods below are never overridden.

    @property
    def observation_space(self) -> Discrete:
        """The index of the state."""
        return Discrete(len(self.outcomes.next_state), self.outcomes.dtype)

    @property
    def action_space(self) -> Discrete:
        """The index of the action."""
        return Discrete(self.outcomes.next_state.shape[1])

    def observe(self, state: TabularState) -> UInt[Array, ""]:
        """The index of the state."""
        return state.index

    def sample_start(self, key: Key) -> UInt[Array, ""]:
        """The index of a random first state. `key` is consumed."""
        starts = self.outcomes.starts.astype(self.outcomes.dtype)
        which = jax.random.randint(key, (), 0, len(starts)) if len(starts) > 1 else 0
        return jnp.asarray(starts)[which]

    def outcome_noise(self, key: Key) -> Float[Array, ""] | None:
        """The uniform number that chooses among outcomes; None if there is only one. `key` is consumed."""
        return jax.random.uniform(key) if len(self.probabilities) > 1 else None

    def lookup(
        self, index: UInt[Array, ""], action: Integer[Array, ""], noise: Float[Array, ""] | None
    ) -> tuple[UInt[Array, ""], Float[Array, ""], Bool[Array, ""]]:
        """(next state, reward, terminated) of the first outcome whose cumulative probability exceeds `noise`."""
        _, actions, choices = self.outcomes.next_state.shape
        position = (index.astype(jnp.int32) * actions + action.astype(jnp.int32)) * choices
        if noise is not None:
            limit: Number = 0.0
            for probability in self.probabilities[:-1]:
                limit = limit + probability
                position = position + (noise >= limit).astype(jnp.int32)
        word = jnp.asarray(self.outcomes.words).at[position].get(mode="promise_in_bounds")
        index, reward_index, terminated = self.outcomes.unpack(word)
        reward = jnp.float32(0)
        for i, value in enumerate(self.rewards):
            reward = jnp.where(reward_index == i, jnp.asarray(value, jnp.float32), reward)
        return index, reward, terminated

    def model(self) -> Model:
        """The whole dynamics, for planning. Probabilities and rewards are computed from fields, which may be traced.

        One iteration of value iteration:

            model = env.model()
            target = model.reward + discount * jnp.where(model.terminated, 0, value[model.next_state])
            value = (model.probability * target).sum(-1).max(-1)
        """
        outcomes, real = self.outcomes, jax.dtypes.canonicalize_dtype(float)
        probabilities = jnp.stack([jnp.asarray(p, real) for p in self.probabilities])
        only_first = jnp.asarray(np.arange(len(probabilities)) == 0, real)
        rewards = jnp.stack([jnp.asarray(reward, real) for reward in self.rewards])
        return Model(
            probability=jnp.where(outcomes.certain[..., None], only_first[None, None], probabilities[None, None]),
            next_state=jnp.asarray(outcomes.next_state, jnp.int32),
            reward=rewards[outcomes.reward],
            terminated=jnp.asarray(outcomes.terminated),
        )

    def start_distribution(self) -> Float[np.ndarray, "S"]:
        """The probability of each state to be the first one."""
        outcomes = self.outcomes
        return np.bincount(outcomes.starts, minlength=len(outcomes.next_state)) / len(outcomes.starts)


def neighbors(rows: int, columns: int, moves: Sequence[tuple[int, int]]) -> Int[np.ndarray, "S A"]:
    """The cell that each move (rows down, columns right) leads to from each cell, row by row; borders stop a move."""
    row, column = np.divmod(np.arange(rows * columns)[:, None], columns)
    down, right = np.asarray(moves).T
    return np.clip(row + down, 0, rows - 1) * columns + np.clip(column + right, 0, columns - 1)
