"""Discounting chain: the first action chooses how late the reward comes; one of the choices gives 10 % more.

Source: bsuite 0.3.6 `environments/discounting_chain.py`, step for step.
"""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from shoal.canvas import BLACK, Canvas
from shoal.core.env import Key, State, Transition
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, struct
from shoal.envs.bsuite.experiments import experiment
from shoal.envs.bsuite.task import Task
from shoal.envs.checks import check_range

REWARD_TIMES = (1, 3, 10, 30, 100)
EPISODE_LENGTH = 100
BONUS = 0.1
CHAIN, CHOSEN, COIN, GOLD = (190, 196, 204), (45, 84, 130), (140, 140, 150), (226, 170, 40)


@struct
class DiscountingChainState(State):
    """The chosen chain."""

    chain: Int[Array, ""]  # -1 before the first step


@experiment("discounting_chain", aliases={0: "DiscountingChain-bsuite"})
@struct
class DiscountingChain(Task):
    """Choose one of five chains with the first action. The chain gives one reward, after 1, 3, 10, 30 or 100 steps.

    Action: Discrete(5); the first action chooses the chain, all later actions do nothing.

    Observation: Box(2), float32

    | i | quantity                               | low | high |
    |---|----------------------------------------|-----|------|
    | 0 | chosen chain, -1 before the first step | -1  | 4    |
    | 1 | time / 100                             | 0   | 1    |

    Reward: 1 at the time of the chosen chain, or 1.1 if the chain is `mapping_seed` modulo 5; 0 at all other times.
    Start: always the same state.
    End: terminated after 100 steps.
    Differences from bsuite: the observation has shape (2,), not (1, 2); `mapping_seed` has a default, while bsuite
    samples one if it is None.
    Differences from gymnax: the end is a termination, as in bsuite, and any `mapping_seed` of at least 0 is valid.
    """

    reset_every: ClassVar[int] = EPISODE_LENGTH

    mapping_seed: Number = 0

    def __post_init__(self) -> None:
        check_range(self, "mapping_seed", low=0, whole=True)

    @property
    def longest_episode(self) -> int:
        """The number of steps of every episode."""
        return EPISODE_LENGTH

    @property
    def optimal_return(self) -> float:
        """The return of the chain with the bonus."""
        return 1 + BONUS

    @property
    def observation_space(self) -> Box:
        """The chosen chain, and the time."""
        return Box((-1, 0), (len(REWARD_TIMES) - 1, 1), (2,))

    @property
    def action_space(self) -> Discrete:
        """One action for each chain."""
        return Discrete(len(REWARD_TIMES))

    def init(self, key: Key) -> DiscountingChainState:
        """The first state: no chain is chosen."""
        del key
        return DiscountingChainState(jnp.int32(0), jnp.int32(-1))

    def transition(
        self, state: DiscountingChainState, action: Int[Array, ""], noise: None
    ) -> Transition[DiscountingChainState]:
        """Choose the chain on the first step; give the reward at its time."""
        del noise
        chain = jnp.where(state.time == 1, action.astype(jnp.int32), state.chain)
        chains = jnp.arange(len(REWARD_TIMES), dtype=jnp.int32)
        pays = jnp.any((chains == chain) & (np.asarray(REWARD_TIMES, np.int32) == state.time))
        bonus = jnp.where(chain == jnp.asarray(self.mapping_seed) % len(REWARD_TIMES), jnp.float32(BONUS), 0)
        reward = jnp.where(pays, 1 + bonus, 0)
        return state.replace(chain=chain), reward, state.time == EPISODE_LENGTH, {}

    def observe(self, state: DiscountingChainState) -> Float[Array, "2"]:
        """The chosen chain, and the time."""
        return jnp.stack([state.chain.astype(jnp.float32), state.time.astype(jnp.float32) / EPISODE_LENGTH])

    def bsuite_info(self, state: DiscountingChainState) -> dict[str, Float[Array, ""]]:
        """Empty: bsuite scores this experiment by its return alone."""
        del state
        return {}

    def render(self, state: DiscountingChainState) -> UInt8[np.ndarray, "260 560 3"]:
        """Five chains, each with a coin at the time of its reward (gold: with bonus), and the chosen chain so far."""
        canvas = Canvas(560, 260, window=(-8, 4.7, 106, -0.9))
        for chain, time in enumerate(REWARD_TIMES):
            canvas.line([(0, chain), (100, chain)], CHAIN, 0.4)
            bonus = chain == int(self.mapping_seed) % len(REWARD_TIMES)
            canvas.circle((time, chain), 1.9, GOLD if bonus else COIN)
            canvas.text((-4, chain), str(chain), size=14, anchor="mm")
        time = int(state.time)
        if int(state.chain) >= 0:
            canvas.line([(0, int(state.chain)), (time, int(state.chain))], CHOSEN, 0.9)
            canvas.circle((time, int(state.chain)), 1.1, CHOSEN)
        canvas.text((50, -0.55), f"step {time} of {EPISODE_LENGTH}", BLACK, 14, "mm")
        return canvas.pixels()
