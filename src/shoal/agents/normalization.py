"""Observations brought to mean 0 and deviation 1: one mechanism for every agent with a network.

An agent declares `normalize_observation: bool = normalization_field()`. Its state and its policy hold the statistics as
`obs_stats`, begun by `first_stats`, and its networks read `normalized(obs_stats, obs)` wherever they read observations.
The statistics are of all observations that a member has collected, each once. A rollout acts by those from before it.
`nn.torso_choice.chosen_torso` refuses observations that are not all arrays of numbers.
"""

from typing import Any, Protocol, runtime_checkable

from shoal.core.spaces import Space, zeros
from shoal.core.struct import static
from shoal.ops.running import RunningStats


@runtime_checkable
class Normalizing(Protocol):
    """The fields of a bound agent that say whether and what it normalizes."""

    @property
    def normalize_observation(self) -> bool:
        """See `normalization_field`."""
        ...

    @property
    def observation_space(self) -> Space:
        """That of the environment."""
        ...


def normalization_field() -> Any:
    """The field `normalize_observation` of an agent."""
    return static(False, choices=(False, True), help="to mean 0 and deviation 1, by all that was observed so far")


def first_stats(agent: Normalizing) -> RunningStats | None:
    """Statistics without any data, of one observation; None for an agent that does not normalize."""
    return RunningStats.zero(zeros(agent.observation_space)) if agent.normalize_observation else None


def updated(stats: RunningStats | None, obs: Any, axes: int = 2) -> RunningStats | None:
    """The statistics with more observations, whose first `axes` axes are samples: [T, E], unless said otherwise."""
    return None if stats is None else stats.update(obs, axes)


def normalized(stats: RunningStats | None, obs: Any) -> Any:
    """An observation, with any leading axes, as a network reads it: unchanged where there are no statistics."""
    return obs if stats is None else stats.normalize(obs)
