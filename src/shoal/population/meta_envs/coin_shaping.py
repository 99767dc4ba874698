"""The coin game against a learner that is updated after every inner episode: the environment state holds the learner.

Source: Lu et al. 2022, "Model-Free Opponent Shaping", section 4.2 and `CoinGamePPO` in the file
`src/coin_game/coin_game_envs.py` of its code (github.com/luchris429/Model-Free-Opponent-Shaping).
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from shoal.canvas import BLACK, Canvas
from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box, Discrete, MultiDiscrete
from shoal.core.struct import Number, Struct, static, struct
from shoal.envs.checks import check_range
from shoal.population.meta_envs.coin_game import CELLS, SIDE, Board, first_board, moved, planes
from shoal.population.meta_envs.coin_learner import Experience, Learner, learned, log_probs, new_learner

RED, BLUE, LINE_COLOR = (204, 77, 77), (52, 101, 196), (200, 200, 200)
LOWEST, HIGHEST = -2.0, 2.0  # rewards of a move


@struct
class CoinShapingState(State):
    """G boards, the learner, its experience of this inner episode, and rewards."""

    board: Board  # leaves [G, 2]
    learner: Learner
    experience: Experience
    reward: Float[Array, "G 2"]  # of the learner and of the agent in the last move; 0 after a reset of the boards
    inner_done: Bool[Array, ""]  # whether the last step had the last move of an inner episode
    total_reward: Float[Array, "2"]  # sums over the episode of mean rewards, used by `render`


@struct
class CoinNoise(Struct):
    """The random numbers of a step."""

    action: Float[Array, "G 4"]  # Gumbel noise of the learner's actions
    coin_cells: Int[Array, "G 2"]  # the new cells of the red and the blue coin, if they are picked
    first_cells: Int[Array, "G 4"]  # players and coins after a reset


@env("MFOS/CoinGame-v0")
@struct
class CoinShaping(Env):
    """Shape a learner in the coin game, on a 3 x 3 torus. The agent is the blue player, the learner the red one.

    Action: Discrete(4); 0 right, 1 left, 2 down, 3 up. With `games` > 1 a MultiDiscrete of `games` such moves.

    Observation: Box(3, 3, 7 `games`), float32; for each game, one after the other, the channels

    | i | what                                                                  |
    |---|-----------------------------------------------------------------------|
    | 0 | the red player (the learner)                                          |
    | 1 | the blue player (the agent)                                           |
    | 2 | the red coin                                                          |
    | 3 | the blue coin                                                         |
    | 4 | the learner's reward in the last move, in every cell                  |
    | 5 | the agent's reward in the last move, in every cell                    |
    | 6 | 1 in every cell after the last move of an inner episode, otherwise 0  |

    Reward: 1 for each coin that the agent picks by ending on its cell; -2 if the learner picks a blue coin. The same
    holds for the learner and red coins. The mean over the games. `info["opponent_reward"]` is the learner's.
    Start: players and coins at random cells, which may coincide; a new learner with random weights.
    End: never terminated; truncated after `max_steps` (256).

    An inner episode has `inner_steps` (16) steps. In its last step no move is made: the learner takes `epochs` (80)
    gradient steps of PPO on the moves of the inner episode, and the boards are reset. An episode has 16 inner episodes.
    The learner plays all `games` with one policy and learns from all of them. In the reference it plays 512 games, with
    one policy of the agent for all of them; with `games=1` it learns from 15 moves at a time, which is noisier.
    Differences from the reference: channels are the last axis; the number of games is a field.
    """

    reset_every: ClassVar[int] = 256

    learning_rate: Number = 0.005  # of the learner
    discount: Number = 0.96  # of the learner
    clip: Number = 0.2  # of the learner's probability ratio
    entropy_coef: Number = 0.01  # of the learner's loss
    games: int = static(1)
    inner_steps: int = static(16)
    epochs: int = static(80)
    max_steps: Number | None = 256

    def __post_init__(self) -> None:
        check_range(self, "learning_rate", "clip", "entropy_coef", low=0.0)
        check_range(self, "discount", low=0.0, high=1.0)
        if min(self.games, self.epochs) < 1 or self.inner_steps < 3:
            raise ValueError(
                f"games={self.games}, epochs={self.epochs} and inner_steps={self.inner_steps}: give at least one game, "
                "one epoch and three steps, of which the last one is the update."
            )

    @property
    def action_names(self) -> tuple[str, ...]:  # type: ignore[override]  # it depends on a field
        """The directions."""
        return ("right", "left", "down", "up") if self.games == 1 else ()

    @property
    def observation_space(self) -> Box:
        """Seven channels for each game."""
        return Box(LOWEST, HIGHEST, (SIDE, SIDE, 7 * self.games))

    @property
    def action_space(self) -> Discrete | MultiDiscrete:
        """A direction for each game."""
        return Discrete(4) if self.games == 1 else MultiDiscrete((4,) * self.games)

    def init(self, key: Key) -> CoinShapingState:
        """Random boards and a new learner."""
        k_cells, k_learner = jax.random.split(key)
        return CoinShapingState(
            time=jnp.int32(0),
            board=jax.vmap(first_board)(_cells(k_cells, (self.games, 4))),
            learner=new_learner(k_learner),
            experience=Experience.empty(self.inner_steps - 1, self.games),
            reward=jnp.zeros((self.games, 2), jnp.float32),
            inner_done=jnp.bool_(False),
            total_reward=jnp.zeros(2, jnp.float32),
        )

    def noise(self, key: Key) -> CoinNoise:
        """Gumbel noise for the learner's actions, and random cells."""
        k_action, k_coins, k_first = jax.random.split(key, 3)
        return CoinNoise(
            action=jax.random.gumbel(k_action, (self.games, 4), jnp.float32),
            coin_cells=_cells(k_coins, (self.games, 2)),
            first_cells=_cells(k_first, (self.games, 4)),
        )

    def transition(
        self, state: CoinShapingState, action: Int[Array, "*games"], noise: CoinNoise
    ) -> Transition[CoinShapingState]:
        """A move in every game; in the last step of an inner episode an update of the learner and a reset instead."""
        t = (state.time - 1) % self.inner_steps
        is_update = t == self.inner_steps - 1
        board, reward, step = self._move(state, action.reshape(self.games), noise)
        fresh = jax.vmap(first_board)(noise.first_cells)
        reward = jnp.where(is_update, 0.0, reward)
        state = state.replace(
            board=jax.tree.map(lambda new, old: jnp.where(is_update, new, old), fresh, board),
            learner=self._update(state, is_update),
            experience=state.experience.written(t, step),
            reward=reward,
            inner_done=t == self.inner_steps - 2,
        )
        mean = jnp.mean(reward, axis=0)
        state = state.replace(total_reward=state.total_reward + mean)
        return state, mean[1], jnp.bool_(False), {"opponent_reward": mean[0]}

    def observe(self, state: CoinShapingState) -> Float[Array, "3 3 n"]:
        """The boards, the last rewards and the end of an inner episode, as channels."""
        pictures = jax.vmap(planes)(state.board).astype(jnp.float32)  # [G, 3, 3, 4]
        rest = jnp.concatenate([state.reward, jnp.full((self.games, 1), state.inner_done, jnp.float32)], axis=1)
        tiled = jnp.broadcast_to(rest[:, None, None], (self.games, SIDE, SIDE, 3))
        channels = jnp.concatenate([pictures, tiled], axis=-1)
        return jnp.moveaxis(channels, 0, 2).reshape(SIDE, SIDE, 7 * self.games)

    def render(self, state: CoinShapingState) -> UInt8[np.ndarray, "360 300 3"]:
        """The first game: players are discs, coins are rings; below, the sums of rewards."""
        canvas = Canvas(300, 360, window=(0, 3.6, 3, 0))
        for i in range(SIDE + 1):
            canvas.line([(i, 0), (i, SIDE)], LINE_COLOR, 0.01)
            canvas.line([(0, i), (SIDE, i)], LINE_COLOR, 0.01)
        board = jax.tree.map(lambda x: np.asarray(x)[0], state.board)
        for at, color, offset in ((board.red_coin, RED, -0.2), (board.blue_coin, BLUE, 0.2)):
            center = (float(at[1]) + 0.5 + offset, float(at[0]) + 0.75)
            canvas.circle(center, 0.16, color)
            canvas.circle(center, 0.09, (255, 255, 255))
        for at, color, offset in ((board.red, RED, -0.2), (board.blue, BLUE, 0.2)):
            canvas.circle((float(at[1]) + 0.5 + offset, float(at[0]) + 0.32), 0.2, color)
        learner, agent = np.asarray(state.total_reward).tolist()
        words = f"step {int(state.time)}: agent (blue) {agent:.0f}, learner (red) {learner:.0f}"
        canvas.text((1.5, 3.3), words, BLACK, size=15, anchor="mm")
        return canvas.pixels()

    def _move(
        self, state: CoinShapingState, action: Int[Array, "G"], noise: CoinNoise
    ) -> tuple[Board, Float[Array, "G 2"], Experience]:
        """The boards and rewards (learner, agent) after a move in every game, and what the learner experienced."""
        obs = jax.vmap(planes)(state.board)
        log_p = log_probs(state.learner.weights, obs)
        chosen = jnp.argmax(log_p + noise.action, axis=-1).astype(jnp.int32)
        log_prob = jnp.take_along_axis(log_p, chosen[:, None], axis=-1)[:, 0]
        board, reward, _ = jax.vmap(moved)(state.board, chosen, action, noise.coin_cells)
        return board, reward, Experience(obs, chosen, log_prob, reward[:, 0])

    def _update(self, state: CoinShapingState, is_update: Bool[Array, ""]) -> Any:
        """The learner, after its gradient steps if this is the update of an inner episode."""
        return learned(
            state.learner,
            state.experience,
            jnp.where(is_update, self.epochs, 0),
            learning_rate=jnp.asarray(self.learning_rate, jnp.float32),
            discount=jnp.asarray(self.discount, jnp.float32),
            clip=jnp.asarray(self.clip, jnp.float32),
            entropy_coef=jnp.asarray(self.entropy_coef, jnp.float32),
        )


def _cells(key: Key, shape: tuple[int, ...]) -> Int[Array, "..."]:
    return jax.random.randint(key, shape, 0, CELLS, jnp.int32)
