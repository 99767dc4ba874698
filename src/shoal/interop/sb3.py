"""Shoal's environments in Stable-Baselines3: `PPO("MlpPolicy", SB3VecEnv("CartPole-v1", 16))`.

One compiled call takes a step of all environments. Importing this module needs stable_baselines3.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]  # not in our environment

from shoal.core.env import Env
from shoal.core.keys import make_key
from shoal.interop.episodes import Episodes
from shoal.interop.gymnasium_vector import ShoalVectorEnv

MASKS = "action_masks"  # the method that sb3_contrib looks for


class SB3VecEnv(VecEnv):
    """E environments of shoal with the calls of Stable-Baselines3.

    `infos[e]` has what the step of environment e reports, and its action mask as "action_mask", if there is one.
    Episodes begin again by themselves. `infos[e]["terminal_observation"]` is then the last observation of the episode
    that ended, and `infos[e]["TimeLimit.truncated"]` says whether only its time limit ended it. `infos[e]["episode"]`
    has the return and the length of the episode, which Stable-Baselines3 logs: no `VecMonitor` is needed. `MaskablePPO`
    of sb3_contrib finds the action masks of an environment that has them. Observations in a Dict need
    `MultiInputPolicy`; Tuples are not known to Stable-Baselines3.
    """

    def __init__(self, env: Env | str, num_envs: int = 1, render_mode: str | None = None, **fields: Any) -> None:
        """`env` is an environment of shoal or its name, `fields` are fields of a named environment.

        Raises ValueError for less than one environment, an unknown name, and observations in a Tuple.
        """
        self.envs = ShoalVectorEnv(env, num_envs, "SameStep", render_mode, **fields)
        space = self.envs.single_observation_space
        if isinstance(space, spaces.Tuple):
            raise ValueError(f"Stable-Baselines3 knows no Tuple of observations, and the space is {space}.")
        super().__init__(num_envs, space, self.envs.single_action_space)
        self._actions: Any = None
        self._episodes = Episodes(num_envs)
        self._masks: Any = None  # [E, A], of the present states

    def reset(self) -> Any:
        """Begin an episode in every environment: observations [E]. A seed of `seed` is used once."""
        seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
        obs, info = self.envs.reset(seed=seeds)
        self._masks = info.get("action_mask")
        self._episodes.begin(np.ones(self.num_envs, bool))
        self._reset_seeds()
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions [E] for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Take a step: (observations, rewards, whether episodes ended) [E], and an info for each environment."""
        obs, rewards, terminated, truncated, info = self.envs.step(self._actions)
        done = terminated | truncated
        of_all = [name for name in info if not name.startswith(("_", "final_"))]
        infos: list[dict[str, Any]] = [{name: info[name][e] for name in of_all} for e in range(self.num_envs)]
        self._masks = info.get("action_mask")
        for e, episode in self._episodes.step(rewards, done).items():
            infos[e]["episode"] = episode
            infos[e]["terminal_observation"] = info["final_obs"][e]
            infos[e]["TimeLimit.truncated"] = bool(truncated[e] and not terminated[e])
        return obs, rewards.astype(np.float32), done, infos

    def close(self) -> None:
        """Free the environments. A second call does nothing."""
        self.envs.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """The pictures of all environments, with `render_mode="rgb_array"`."""
        return self.envs.render() or [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the environments, the same for each of them."""
        value = getattr(self.envs if hasattr(self.envs, attr_name) else self.envs.env, attr_name)
        return [value for _ in self._get_indices(indices)]

    def has_attr(self, attr_name: str) -> bool:
        """Whether the environments have an attribute. `action_masks` is one where they have action masks."""
        if attr_name == MASKS:
            return jax.eval_shape(lambda env: env.action_mask(env.init(make_key(0))), self.envs.env) is not None
        return super().has_attr(attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise TypeError: an environment of shoal is a value, and its fields are given when it is made."""
        raise TypeError(f"{attr_name} cannot be changed here: make another SB3VecEnv with {attr_name}={value!r}.")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call a method of the environment value for each of the environments; `action_masks` returns masks [A]."""
        if method_name == MASKS and self._masks is not None:
            return [self._masks[e].astype(bool) for e in self._get_indices(indices)]
        method = getattr(self.envs.env, method_name)
        return [jax.tree.map(np.asarray, method(*args, **kwargs)) for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """False for each of the environments: Gymnasium's wrappers are not around them."""
        return [False for _ in self._get_indices(indices)]
