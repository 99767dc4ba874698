"""Shoal's environments for CleanRL's scripts: `envs = CleanRLVectorEnv("CartPole-v1", args.num_envs)`.

The scripts are written for the infos of Gymnasium 0.29. Nothing of CleanRL is imported.
"""

from typing import Any

import numpy as np

from shoal.core.env import Env
from shoal.interop.episodes import Episodes
from shoal.interop.gymnasium_vector import ShoalVectorEnv


class CleanRLVectorEnv(ShoalVectorEnv):
    """E environments of shoal in place of a script's `gym.vector.SyncVectorEnv([make_env(...), ...])`.

    The step that ends an episode returns the first observation of the next one. At such a step
    `infos["final_observation"]` [E] has the final observations, and `infos["final_info"]` [E] has
    `{"episode": {"r": return, "l": length, "t": seconds since the start}}`; both have None for environments whose
    episode goes on.
    """

    def __init__(self, env: Env | str, num_envs: int = 1, render_mode: str | None = None, **fields: Any) -> None:
        """`env` is an environment of shoal or its name, `fields` are fields of a named environment.

        Raises ValueError for less than one environment, an unknown name and an unknown mode.
        """
        super().__init__(env, num_envs, "SameStep", render_mode, **fields)
        self._episodes = Episodes(num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin episodes: (observations [E], info). See `ShoalVectorEnv.reset`."""
        result = super().reset(seed=seed, options=options)
        self._episodes.begin((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))
        return result

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take a step of all environments: (observations, rewards, terminated, truncated) [E], and infos."""
        obs, rewards, terminated, truncated, infos = super().step(actions)
        done = terminated | truncated
        ended = self._episodes.step(rewards, done)
        if done.any():
            episodes = np.full(self.num_envs, None, object)
            for e, episode in ended.items():
                episodes[e] = {"episode": episode}
            infos = {name: value for name, value in infos.items() if name.lstrip("_") != "final_obs"} | {
                "final_observation": infos["final_obs"],
                "_final_observation": done.copy(),
                "final_info": episodes,
                "_final_info": done.copy(),
            }
        return obs, rewards, terminated, truncated, infos
