"""Missions of the package minigrid, which are texts, as the word numbers that shoal's levels observe.

It imports no optional package, because every command of shoal imports it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.core.registry import ENVS, make
from shoal.core.spaces import Dict
from shoal.grid.words import encode


def space_with_words(env: Any) -> Dict | None:
    """Shoal's observation space of the level that has the id of an environment of MiniGrid, whose missions are texts.

    `env` is a `gymnasium.Env`. None for other environments.
    """
    parts = getattr(env.observation_space, "spaces", None)  # those of a Dict by name; a Tuple has a list
    mission = parts.get("mission") if isinstance(parts, Mapping) else None
    if "MissionSpace" not in (kind.__name__ for kind in type(mission).__mro__):  # MiniGrid's class
        return None
    if env.spec is None or env.spec.id not in ENVS:
        return None
    ours = make(env.spec.id).observation_space
    return ours if isinstance(ours, Dict) and {name for name, _ in ours.spaces} == set(parts or ()) else None


def with_words(obs: Any, space: Dict) -> dict[str, Any]:
    """An observation of MiniGrid in `space`: its mission as word numbers. Raises ValueError for an unknown word."""
    numbers = encode(obs["mission"], len(space["mission"].nvec))  # type: ignore[union-attr]  # a MultiDiscrete
    return {name: numbers if name == "mission" else np.asarray(obs[name], part.dtype) for name, part in space.spaces}
