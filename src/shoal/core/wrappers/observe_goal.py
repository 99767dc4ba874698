"""A wrapper that observes goals as Gymnasium's goal environments do."""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Float

from shoal.core.env import Observation, State
from shoal.core.spaces import Dict, Space
from shoal.core.struct import struct
from shoal.core.wrappers.base import Wrapper


@runtime_checkable
class HasGoal(Protocol):
    """The hooks of an environment whose reward follows from an achieved and a desired goal."""

    @property
    def goal_space(self) -> Space:
        """The space of achieved and of desired goals."""
        ...

    @property
    def goalless_space(self) -> Space:
        """The space of what `observe_goalless` returns."""
        ...

    def observe_goalless(self, state: Any) -> Observation:
        """Return an observation that does not depend on the desired goal."""
        ...

    def achieved_goal(self, state: Any) -> Any:
        """Return the goal that a state achieves."""
        ...

    def desired_goal(self, state: Any) -> Any:
        """Return the goal of the episode."""
        ...

    def goal_reward(self, achieved: Any, desired: Any) -> Float[Array, ""]:
        """Return the reward of a step after which the environment gives `achieved`."""
        ...


@struct
class ObserveGoal(Wrapper):
    """Observe a Dict with the keys of Gymnasium's goal environments, as hindsight relabelling needs.

    | part            | what                                          |
    |-----------------|-----------------------------------------------|
    | `observation`   | the observation, without the goal             |
    | `achieved_goal` | what the present state achieves               |
    | `desired_goal`  | the goal of the episode                       |

    `compute_reward(achieved_goal, desired_goal, info)` returns the reward of a step that reaches `achieved_goal`.
    `CartPoleGoal-v0`, `PendulumGoal-v0` and `PointRobot-v0` can be wrapped, and every environment with the hooks of
    `HasGoal`. The goal of a PointRobot, which its own observation hides, is then observed, and the last reward is not.

        agent = shoal.SAC(hindsight=True)
        shoal.train(agent, shoal.ObserveGoal(shoal.make("PointRobot-v0")))

    Raises TypeError for an environment without goals.
    """

    def __post_init__(self) -> None:
        if not isinstance(self.env, HasGoal):
            raise TypeError(
                f"ObserveGoal needs an environment with goals, and {type(self.env).__name__} has none: "
                "CartPoleGoal-v0, PendulumGoal-v0 and PointRobot-v0 have. One of your own needs the hooks of "
                "shoal.core.wrappers.observe_goal.HasGoal."
            )

    @property
    def observation_space(self) -> Dict:
        """A Dict, as the class describes it."""
        env: Any = self.env
        goal = env.goal_space
        return Dict({"observation": env.goalless_space, "achieved_goal": goal, "desired_goal": goal})

    def observe(self, state: State) -> Observation:
        """Return the observation without the goal, the achieved goal and the desired one."""
        env: Any = self.env
        return {
            "observation": env.observe_goalless(state),
            "achieved_goal": env.achieved_goal(state),
            "desired_goal": env.desired_goal(state),
        }

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Float[Array, ""]:
        """Return the reward of a step after which the environment gives `achieved_goal`. `info` is not used."""
        del info
        env: Any = self.env
        return env.goal_reward(achieved_goal, desired_goal)
