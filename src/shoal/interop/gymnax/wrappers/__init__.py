"""gymnax's wrappers, for environments of both generations: a step keeps the number of its values."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.keys import typed_key
from shoal.core.struct import struct
from shoal.interop.gymnax.face import GymnaxEnv, Params, shown_space
from shoal.interop.gymnax_calls import space_of


class GymnaxWrapper:
    """A wrapper around an environment, or around another wrapper. What it does not have is that of the environment."""

    def __init__(self, env: Any) -> None:
        """Wrap an environment."""
        self._env = env

    def __getattr__(self, name: str) -> Any:
        if name == "_env":  # of an object that is being copied
            raise AttributeError(name)
        return getattr(self._env, name)


class FlattenObservationWrapper(GymnaxWrapper):
    """Make vectors of observations that are arrays."""

    def observation_space(self, params: Params | None = None) -> Any:
        """A Box of vectors. Raises TypeError for observations of several parts."""
        space = space_of(self._env.observation_space(params), f"the observation space of {self._env.name}")
        if not hasattr(space, "bounds"):
            raise TypeError(f"FlattenObservationWrapper needs a Box, not {space}: use shoal.FlattenObservation.")
        low, high = (side.ravel() for side in space.bounds())  # type: ignore[union-attr]
        return shown_space(type(space)(low, high, low.shape, space.dtype))  # type: ignore[call-arg]

    def reset(self, key: Any, params: Params | None = None) -> tuple[Array, Any]:
        """Begin an episode: (observation, state)."""
        obs, state = self._env.reset(key, params)
        return jnp.ravel(obs), state

    def step(self, key: Any, state: Any, action: Any, params: Params | None = None) -> tuple[Any, ...]:
        """Take a step; the last observation of an episode, in `info`, is a vector too."""
        obs, *rest, info = self._env.step(key, state, action, params)
        last = {name: jnp.ravel(info[name]) for name in ("final_observation",) if name in info}
        return jnp.ravel(obs), *rest, {**info, **last}


@struct
class LogEnvState:
    """The state of an environment, and sums over its episode and of its last episode that ended."""

    env_state: Any
    episode_returns: Float[Array, ""]
    episode_lengths: Int[Array, ""]
    returned_episode_returns: Float[Array, ""]  # of the last episode that ended; 0 before
    returned_episode_lengths: Int[Array, ""]
    returned_episode_valid: Bool[Array, ""]  # whether one has ended


class LogWrapper(GymnaxWrapper):
    """Count returns and lengths of episodes: `info` has those of the last one that ended, and whether one ends now."""

    def reset(self, key: Any, params: Params | None = None) -> tuple[Any, LogEnvState]:
        """Begin an episode, and all sums."""
        obs, state = self._env.reset(key, params)
        zero, none = jnp.float32(0), jnp.int32(0)
        return obs, LogEnvState(state, zero, none, zero, none, jnp.asarray(False))

    def step(self, key: Any, state: LogEnvState, action: Any, params: Params | None = None) -> tuple[Any, ...]:
        """Take a step. `info` has four entries more, whose names begin with `returned_episode`."""
        obs, env_state, reward, *ends, info = self._env.step(key, state.env_state, action, params)
        done = functools.reduce(jnp.logical_or, ends)
        total, length = state.episode_returns + reward, state.episode_lengths + 1
        state = LogEnvState(
            env_state=env_state,
            episode_returns=jnp.where(done, 0, total),
            episode_lengths=jnp.where(done, 0, length),
            returned_episode_returns=jnp.where(done, total, state.returned_episode_returns),
            returned_episode_lengths=jnp.where(done, length, state.returned_episode_lengths),
            returned_episode_valid=state.returned_episode_valid | done,
        )
        names = ("returned_episode_returns", "returned_episode_lengths", "returned_episode_valid")
        logged = {name: getattr(state, name) for name in names} | {"returned_episode": done}
        return obs, state, reward, *ends, {**info, **logged}


@struct
class StickyActionState:
    """The state of an environment, and the action of its last step."""

    env_state: Any
    last_action: Int[Array, ""]


class StickyActionWrapper(GymnaxWrapper):
    """Repeat the last action with a probability, in the place of the one that is given. An episode begins with 0."""

    def __init__(self, env: Any, sticky_action_prob: float = 0.0) -> None:
        """Wrap an environment. Raises ValueError for actions that are not Discrete, and no probability."""
        super().__init__(env)
        if not 0 <= sticky_action_prob <= 1:
            raise ValueError(f"sticky_action_prob={sticky_action_prob} is no probability, from 0 to 1.")
        if type(env.action_space(env.default_params)).__name__ != "Discrete":
            raise ValueError(f"StickyActionWrapper needs discrete actions, which {env.name} does not have.")
        self._probability = sticky_action_prob

    def reset(self, key: Any, params: Params | None = None) -> tuple[Any, StickyActionState]:
        """Begin an episode: (observation, state)."""
        obs, state = self._env.reset(key, params)
        return obs, StickyActionState(state, jnp.int32(0))

    def step(self, key: Any, state: StickyActionState, action: Any, params: Params | None = None) -> tuple[Any, ...]:
        """Take a step with the action, or with the last one."""
        k_repeat, k_step = jax.random.split(typed_key(key))
        repeats = jax.random.bernoulli(k_repeat, self._probability)
        taken = jnp.where(repeats, state.last_action, jnp.asarray(action, jnp.int32))
        obs, env_state, *rest = self._env.step(k_step, state.env_state, taken, params)
        return obs, StickyActionState(env_state, taken), *rest


class LegacyStepAPIWrapper(GymnaxWrapper):
    """Steps of five values, as gymnax had before 1.0: `done` in the place of two flags."""

    def step(self, key: Any, state: Any, action: Any, params: Params | None = None) -> tuple[Any, ...]:
        """Take a step: (observation, state, reward, done, info)."""
        obs, state, reward, *ends, info = self._env.step(key, state, action, params)
        return obs, state, reward, functools.reduce(jnp.logical_or, ends), info


def GymnaxToGymWrapper(env: GymnaxEnv, params: Params | None = None, seed: int | None = None) -> Any:  # noqa: N802
    """Return an environment of Gymnasium (`shoal.gym`) whose first episode has this seed, by default 0."""
    from shoal.interop.gymnasium_env import ShoalEnv

    made = ShoalEnv((env.default_params if params is None else params).env)
    made.reset(seed=0 if seed is None else seed)
    return made


def GymnaxToVectorGymWrapper(  # noqa: N802
    env: GymnaxEnv, num_envs: int = 1, params: Params | None = None, seed: int | None = None
) -> Any:
    """Return a vector environment of Gymnasium; the step that ends an episode returns the next one's observation.

    `seed`, by default 0, is that of the first environment; environment e has the seed `seed + e`.
    """
    from shoal.interop.gymnasium_vector import ShoalVectorEnv

    made = ShoalVectorEnv((env.default_params if params is None else params).env, num_envs, "SameStep")
    made.reset(seed=0 if seed is None else seed)
    return made


@struct
class TimeStep:
    """What `GymnaxToDmEnvWrapper` returns, with the names of dm_env."""

    state: Any
    reward: Any
    discount: Any  # 0 where an episode ended otherwise than by its time limit; with gymnax 0.0.x at every end
    observation: Any  # after an end, the first one of the next episode
    final_observation: Any  # before the reset; with gymnax 0.0.x the same as `observation`


class GymnaxToDmEnvWrapper(GymnaxWrapper):
    """Return a `TimeStep` from `reset` and `step`."""

    def reset(self, key: Any, params: Params | None = None) -> TimeStep:
        """Begin an episode."""
        obs, state = self._env.reset(key, params)
        return TimeStep(state, jnp.float32(0), jnp.float32(1), obs, obs)

    def step(self, key: Any, timestep: TimeStep, action: Any, params: Params | None = None) -> TimeStep:
        """Take a step from the state of a `TimeStep`."""
        obs, state, reward, *_, info = self._env.step(key, timestep.state, action, params)
        return TimeStep(state, reward, info["discount"], obs, info.get("final_observation", obs))


__all__ = [
    "FlattenObservationWrapper",
    "GymnaxToDmEnvWrapper",
    "GymnaxToGymWrapper",
    "GymnaxToVectorGymWrapper",
    "GymnaxWrapper",
    "LegacyStepAPIWrapper",
    "LogEnvState",
    "LogWrapper",
    "StickyActionState",
    "StickyActionWrapper",
    "TimeStep",
]
