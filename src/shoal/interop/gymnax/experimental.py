"""Rollouts of a policy in fixed numbers of steps, as gymnax has them."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from shoal.core.keys import Key, typed_key
from shoal.interop.gymnax.face import GymnaxEnv, Params, make


class RolloutWrapper:
    """Rollouts of T steps of a policy, with the arguments and results of gymnax's RolloutWrapper."""

    def __init__(
        self,
        model_forward: Callable[[Any, Any, Any], Any] | None = None,
        env_name: str | None = None,
        num_env_steps: int | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        env_params: Params | Mapping[str, Any] | None = None,
        env: GymnaxEnv | None = None,
    ) -> None:
        """`model_forward(policy_params, obs, key)` returns an action; without it actions are random.

        `env_name` (default Pendulum-v1, with `env_kwargs`) or `env` is the environment. `env_params` are params, or
        changes of the default ones. `num_env_steps` is T, by default the time limit. Raises ValueError if both
        environments are given, or no T for an environment without a limit.
        """
        if env is not None and (env_name is not None or env_kwargs is not None):
            raise ValueError("env is given, so leave out env_name and env_kwargs, which make another one.")
        self.env = make(env_name or "Pendulum-v1", **(env_kwargs or {}))[0] if env is None else env
        default = self.env.default_params
        self.env_params = default.replace(**env_params) if isinstance(env_params, Mapping) else env_params or default
        self.model_forward = model_forward
        _, longest = self.env_params.env.limit_range or (None, None)
        steps = longest if num_env_steps is None else num_env_steps
        if steps is None:
            raise ValueError(f"{self.env.name} has no time limit: give num_env_steps.")
        self.num_env_steps = int(steps)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of an observation."""
        return self.env.default_params.env.observation_space.shape  # type: ignore[union-attr]  # of arrays only

    def population_rollout(self, key_eval: Any, policy_params: Any) -> tuple[Any, ...]:
        """`batch_rollout` of N policies: results have leading axes [N, B]; `policy_params` have leaves [N, ...]."""
        return jax.jit(jax.vmap(self._batch, in_axes=(None, 0)))(key_eval, policy_params)

    def batch_rollout(self, key_eval: Any, policy_params: Any) -> tuple[Any, ...]:
        """`single_rollout` for B keys: results have a leading axis [B]."""
        return jax.jit(self._batch)(key_eval, policy_params)

    def single_rollout(self, key_input: Any, policy_params: Any) -> tuple[Any, ...]:
        """T steps: (obs, action, reward, next_obs, done) [T], and the return of the first episode, [1].

        After an end the next episode begins; `next_obs` is then its first observation, as in gymnax. `key_input` is
        consumed.
        """
        return jax.jit(self._single)(key_input, policy_params)

    def _batch(self, keys: Any, policy_params: Any) -> tuple[Any, ...]:
        return jax.vmap(self._single, in_axes=(0, None))(keys, policy_params)

    def _single(self, key: Any, policy_params: Any) -> tuple[Any, ...]:
        k_reset, k_episode = jax.random.split(typed_key(key))
        obs, state = GymnaxEnv.reset(self.env, k_reset, self.env_params)
        start = (obs, state, jnp.zeros(1), jnp.ones(1))

        def step(loop: Any, key: Key) -> tuple[Any, Any]:
            obs, state, total, is_first = loop
            k_act, k_step = jax.random.split(key)
            if self.model_forward is None:
                action = self.env_params.env.action_space.sample(k_act)
            else:
                action = self.model_forward(policy_params, obs, k_act)
            new = GymnaxEnv.step(self.env, k_step, state, action, self.env_params)
            next_obs, state, reward, done = *new[:3], new[3] | new[4]
            loop = (next_obs, state, total + reward * is_first, is_first * (1 - done))
            return loop, (obs, action, reward, next_obs, done)

        loop, rows = jax.lax.scan(step, start, jax.random.split(k_episode, self.num_env_steps))
        return *rows, loop[2]
