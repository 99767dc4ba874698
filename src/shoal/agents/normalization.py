"""Normalization of observations to mean 0 and standard deviation 1, the same for every agent with a network.

An agent declares `normalize_observation: bool = normalization_field()`. Its state and its policy hold the statistics as
`obs_stats`, which `first_stats` creates; its networks get `normalized(obs_stats, obs)` wherever they read observations.
The statistics are those of all observations that a member has collected. They do not change during a rollout. Of a Dict
or Tuple, the parts that are arrays of numbers are normalized, and the others (choices, instructions, images of
categories) stay as they are. `nn.torso_choice.chosen_torso` raises ValueError for observations without any such array.
"""

from typing import Any, Protocol, runtime_checkable

from shoal.core.spaces import Space, over_leaves, zeros
from shoal.core.struct import static
from shoal.nn.torso_choice import is_normalizable
from shoal.ops.running import RunningStats


@runtime_checkable
class Normalizing(Protocol):
    """The fields of a bound agent that normalization reads."""

    @property
    def normalize_observation(self) -> bool:
        """See `normalization_field`."""
        ...

    @property
    def observation_space(self) -> Space:
        """The observation space of the environment."""
        ...


def normalization_field() -> Any:
    """The declaration of the field `normalize_observation`."""
    return static(False, choices=(False, True), help="to mean 0 and std 1, over all observations so far")


def first_stats(agent: Normalizing) -> RunningStats | None:
    """Statistics of no data, with the shapes of one observation; None for an agent that does not normalize."""
    if not agent.normalize_observation:
        return None
    space = agent.observation_space
    return RunningStats.zero(over_leaves(lambda leaf, x: x if is_normalizable(leaf) else None, space, zeros(space)))


def updated(stats: RunningStats | None, obs: Any, axes: int = 2, devices: int = 1) -> RunningStats | None:
    """The statistics after more observations, whose first `axes` axes count samples (two for [T, E, ...]).

    Over several `devices` (see `ops.devices`), `obs` are those of this device; those of the others are counted too.
    """
    return None if stats is None else stats.update(obs, axes, devices)


def normalized(stats: RunningStats | None, obs: Any) -> Any:
    """Normalize an observation with any leading axes; return it unchanged if `stats` is None."""
    return obs if stats is None else stats.normalize(obs)
