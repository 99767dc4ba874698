"""bsuite's scale experiments: a wrapper that multiplies the reward by a constant."""

from typing import Any

from shoal.core.env import State, Transition
from shoal.core.struct import Number, struct
from shoal.envs.bsuite.experiments import wrapped_experiment
from shoal.envs.bsuite.task_wrapper import TaskWrapper
from shoal.envs.checks import check_range


@wrapped_experiment("bandit_scale", "bandit")
@wrapped_experiment("cartpole_scale", "cartpole")
@wrapped_experiment("catch_scale", "catch")
@wrapped_experiment("mnist_scale", "mnist")
@wrapped_experiment("mountain_car_scale", "mountain_car")
@struct
class RewardScale(TaskWrapper):
    """The environment `env` with its reward multiplied by `reward_scale`.

    `env` is an environment or a registered id. bsuite's counters are those of the inner environment: not scaled.
    Source: bsuite 0.3.6 `utils/wrappers.py`, RewardScale.
    """

    reward_scale: Number = 1.0

    def __post_init__(self) -> None:
        check_range(self, "reward_scale")

    def transition(self, state: State, action: Any, noise: Any) -> Transition[State]:
        """One step of the inner environment, with the reward scaled."""
        state, reward, terminated, info = self.env.transition(state, action, noise)
        return state, (reward * self.reward_scale).astype(reward.dtype), terminated, info
