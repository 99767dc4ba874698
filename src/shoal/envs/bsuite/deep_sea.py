"""Deep Sea: a hard exploration problem. Only a diver that goes right at every step reaches the treasure.

Source: Osband et al. 2019, "Deep Exploration via Randomized Value Functions"; bsuite 0.3.6
`environments/deep_sea.py`, step for step.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8, UInt8

from shoal.canvas import Canvas, box
from shoal.core.env import Key, State, Transition
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.bsuite.experiments import experiment
from shoal.envs.bsuite.mapping import action_board, sample_boards
from shoal.envs.bsuite.task import Task, as_real, cells
from shoal.envs.checks import check_range

SURFACE, ABYSS, DIVER, TREASURE, ARROW = (150, 205, 232), (16, 45, 92), (225, 80, 60), (235, 185, 50), (255, 255, 255)


class DeepSeaNoise(NamedTuple):
    """The noise of one step of the stochastic variant."""

    reward: Float[Array, ""]  # standard normal: added to the reward at both ends of the last row
    uniform: Float[Array, ""]  # uniform in [0, 1): a right move does not move if this is at most 1 / size


@struct
class DeepSeaState(State):
    """The column of the diver; its row is the time."""

    column: Int8[Array, ""]
    strayed: Bool[Array, ""]  # the diver has left the diagonal in this episode, so it cannot reach the treasure
    bad_episodes: Int[Array, ""]  # finished episodes so far in which the diver left the diagonal
    treasures: Int[Array, ""]  # treasures found in all episodes so far


@experiment("deep_sea", aliases={0: "DeepSea-bsuite"})
@experiment("deep_sea_stochastic", deterministic=False)
@struct
class DeepSea(Task):
    """A diver sinks one row per step and moves one column left or right; find the treasure at the bottom right.

    Action: Discrete(2); which of the two means right is sampled for each cell from `mapping_seed` (with
    `randomize_actions=False`, 1 always means right). The walls stop the diver.

    Observation: Box(`size`, `size`), bool: true in the cell of the diver; all false after the last step.

    Reward: -`unscaled_move_cost` / `size` for a right move, plus 1 for a right move in the last column (the treasure).
    Start: in the top left cell.
    End: terminated after `size` steps.
    Noise: none, unless `deterministic=False`: then a right move does not move with probability 1 / `size`, and at both
    ends of the last row a standard normal number is added to the reward.
    Differences from bsuite: the board is bool, not float32; no warning for `randomize_actions=False`.
    `DeepSea-bsuite` is bsuite's smallest sea, of size 10; gymnax's has size 8: `make("DeepSea-bsuite", size=8)`.
    """

    COUNTERS = ("bad_episodes", "treasures")

    size: int = static(10)
    deterministic: bool = static(True, choices=(True, False))
    randomize_actions: bool = static(True, choices=(True, False))
    unscaled_move_cost: Number = 0.01
    mapping_seed: Number = 42
    # [size, size], sampled from mapping_seed: the action that means right in each cell.
    right: Any = dataclasses.field(init=False, default=None)

    def __post_init__(self) -> None:
        check_range(self, "size", low=2, high=127, whole=True)
        check_range(self, "unscaled_move_cost")
        boards = sample_boards(self, lambda random: action_board(random, self.size).astype(np.bool_))
        object.__setattr__(self, "right", boards if self.randomize_actions else np.ones_like(boards))

    @property
    def reset_every(self) -> int:  # type: ignore[override]  # depends on the size
        """The number of steps of every episode."""
        return self.size

    @property
    def longest_episode(self) -> int:
        """The number of rows."""
        return self.size

    @property
    def optimal_return(self) -> Number:
        """The expected return of the policy that always goes right."""
        reached = 1.0 if self.deterministic else (1 - 1 / self.size) ** (self.size - 1)
        return reached - self.unscaled_move_cost

    @property
    def observation_space(self) -> Box:
        """The board."""
        return Box(0, 1, (self.size, self.size), np.bool_)

    @property
    def action_space(self) -> Discrete:
        """Two actions. Which of them means right depends on the cell."""
        return Discrete(2)

    def init(self, key: Key) -> DeepSeaState:
        """The first state: in the top left cell."""
        del key
        return DeepSeaState(jnp.int32(0), jnp.int8(0), jnp.bool_(False), jnp.int32(0), jnp.int32(0))

    def noise(self, key: Key) -> DeepSeaNoise | None:
        """The noise of a step; None if `deterministic`."""
        if self.deterministic:
            return None
        k_reward, k_uniform = jax.random.split(key)
        return DeepSeaNoise(jax.random.normal(k_reward), jax.random.uniform(k_uniform))

    def transition(
        self, state: DeepSeaState, action: Int[Array, ""], noise: DeepSeaNoise | None
    ) -> Transition[DeepSeaState]:
        """Decode the action for this cell, move one column and sink one row; then compute reward and counters."""
        row, last = state.time - 1, self.size - 1
        goes_right = action.astype(jnp.bool_) == self._right_at(row, state.column)
        reaches_treasure = goes_right & (state.column == last)
        reward = jnp.where(goes_right, -jnp.asarray(self.unscaled_move_cost, jnp.float32) / self.size, 0.0)
        reward = reward + reaches_treasure.astype(jnp.float32)
        moves = goes_right
        if noise is not None:
            at_end = (row == last) & ((state.column == 0) | (state.column == last))
            reward = reward + jnp.where(at_end, noise.reward, 0.0)
            moves = goes_right & (noise.uniform > 1 / self.size)
        step = moves.astype(jnp.int8) - (~goes_right).astype(jnp.int8)
        strayed = state.strayed | (~goes_right & (state.column == row.astype(jnp.int8)))
        done = row == last
        state = state.replace(
            column=jnp.clip(state.column + step, 0, last),
            strayed=strayed,
            bad_episodes=state.bad_episodes + (done & strayed).astype(jnp.int32),
            treasures=state.treasures + reaches_treasure.astype(jnp.int32),
        )
        return state, reward.astype(jnp.float32), done, {}

    def observe(self, state: DeepSeaState) -> Bool[Array, "size size"]:
        """The board: true in the cell of the diver. Below the last row no cell is true."""
        cell = cells(self.size**2, beyond=self.size)
        diver = state.time.astype(cell.dtype) * self.size + state.column.astype(cell.dtype)
        return (cell == diver).reshape(self.size, self.size)

    def bsuite_info(self, state: DeepSeaState) -> dict[str, Float[Array, ""]]:
        """The number of episodes that left the diagonal, and of treasures found."""
        return {"total_bad_episodes": as_real(state.bad_episodes), "denoised_return": as_real(state.treasures)}

    def render(self, state: DeepSeaState) -> UInt8[np.ndarray, "400 400 3"]:
        """The sea with the diver, the treasure at the bottom right, and the direction of action 1 in each cell."""
        n = self.size
        canvas = Canvas(400, 400, window=(0, n, n, 0))
        for row in range(n):
            depth = row / (n - 1)
            shade = [round(top + (bottom - top) * depth) for top, bottom in zip(SURFACE, ABYSS, strict=True)]
            canvas.polygon(box(0, row, n, row + 1), (shade[0], shade[1], shade[2]))
        if n <= 20:
            self._draw_arrows(canvas)
        canvas.polygon(box(n - 0.85, n - 0.2, n - 0.15, n - 0.6), TREASURE)
        canvas.circle((n - 0.5, n - 0.6), 0.2, TREASURE)
        canvas.circle((int(state.column) + 0.5, min(int(state.time), n - 1) + 0.5), 0.35, DIVER)
        return canvas.pixels()

    def _right_at(self, row: Int[Array, ""], column: Int8[Array, ""]) -> Bool[Array, ""]:
        return jnp.asarray(self.right).at[row, column.astype(jnp.int32)].get(mode="promise_in_bounds")

    def _draw_arrows(self, canvas: Canvas) -> None:
        for row, column in np.ndindex(self.size, self.size):
            along = 0.14 if np.asarray(self.right)[row, column] else -0.14
            x, y = column + 0.5, row + 0.5
            canvas.line([(x - along, y - 0.12), (x + along, y), (x - along, y + 0.12)], ARROW, 0.03)
