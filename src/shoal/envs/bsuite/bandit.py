"""A bandit with eleven arms, whose rewards are constant.

Source: bsuite 0.3.6 `environments/bandit.py`, step for step.
"""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from shoal.canvas import BLACK, Canvas, box
from shoal.core.env import Key, State, Transition
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.envs.bsuite.experiments import experiment
from shoal.envs.bsuite.mapping import arm_order, sample_boards
from shoal.envs.bsuite.task import Task, as_real
from shoal.envs.checks import check_range

ARM, PULLED = (120, 160, 200), (214, 120, 60)


@struct
class SimpleBanditState(State):
    """The arm pulled last, and the regret so far."""

    pulled: Int[Array, ""]  # -1 before the first pull of an episode
    missed: Int[Array, ""]  # regret in all episodes so far, in units of 1 / (num_actions - 1)


@experiment("bandit", aliases={0: "SimpleBandit-bsuite"})
@struct
class SimpleBandit(Task):
    """Pull one of `num_actions` arms.

    Their rewards are evenly spaced from 0 to 1, in an order that is sampled from `mapping_seed`.

    Action: Discrete(`num_actions`); the arm to pull.

    Observation: Box(1), bool: always true.

    Reward: the reward of the arm. It is the same at every pull.
    Start: always the same state.
    End: terminated after one step.
    Differences from bsuite: the observation has shape (1,), not (1, 1), and is bool.
    Differences from gymnax: the arms of an environment never change (gymnax shuffles them at every reset, so there is
    nothing to learn), and the regret is summed over all episodes.
    """

    reset_every: ClassVar[int] = 1
    COUNTERS = ("missed",)

    num_actions: int = static(11)
    mapping_seed: Number = 0
    # [A], sampled from mapping_seed: the rank of each arm's reward, 0 for the lowest.
    order: Any = dataclasses.field(init=False, default=None)

    def __post_init__(self) -> None:
        check_range(self, "num_actions", low=2, whole=True)
        boards = sample_boards(self, lambda random: arm_order(random, self.num_actions).astype(np.int32))
        object.__setattr__(self, "order", boards)

    @property
    def longest_episode(self) -> int:
        """One step."""
        return 1

    @property
    def observation_space(self) -> Box:
        """One constant."""
        return Box(0, 1, (1,), np.bool_)

    @property
    def action_space(self) -> Discrete:
        """One action for each arm."""
        return Discrete(self.num_actions)

    def init(self, key: Key) -> SimpleBanditState:
        """The first state: no arm has been pulled."""
        del key
        return SimpleBanditState(jnp.int32(0), jnp.int32(-1), jnp.int32(0))

    def transition(
        self, state: SimpleBanditState, action: Int[Array, ""], noise: None
    ) -> Transition[SimpleBanditState]:
        """Pull an arm; the episode ends."""
        del noise
        best = self.num_actions - 1
        arms = jnp.arange(self.num_actions, dtype=jnp.int32)
        rank = jnp.sum(jnp.where(arms == action, jnp.asarray(self.order, jnp.int32), 0), dtype=jnp.int32)
        state = state.replace(pulled=action.astype(jnp.int32), missed=state.missed + best - rank)
        return state, rank.astype(jnp.float32) / best, jnp.bool_(True), {}

    def observe(self, state: SimpleBanditState) -> Bool[Array, "1"]:
        """True: there is nothing to observe."""
        del state
        return jnp.ones(1, jnp.bool_)

    def bsuite_info(self, state: SimpleBanditState) -> dict[str, Float[Array, ""]]:
        """The regret: how much more reward the best arm would have given in all episodes."""
        return {"total_regret": as_real(state.missed) / (self.num_actions - 1)}

    def render(self, state: SimpleBanditState) -> UInt8[np.ndarray, "260 H 3"]:
        """A bar for every arm, as high as its reward; the arm that was pulled is orange."""
        rewards = np.asarray(self.order) / (self.num_actions - 1)
        canvas = Canvas(48 * self.num_actions, 260, window=(0, -0.16, self.num_actions, 1.14))
        for arm, reward in enumerate(rewards.tolist()):
            canvas.polygon(box(arm + 0.15, 0, arm + 0.85, reward), PULLED if arm == int(state.pulled) else ARM)
            canvas.text((arm + 0.5, reward + 0.05), f"{reward:.2g}", size=13, anchor="mm")
            canvas.text((arm + 0.5, -0.08), f"arm {arm}", size=12, anchor="mm")
        canvas.line([(0, 0), (self.num_actions, 0)], BLACK, 0)
        return canvas.pixels()
