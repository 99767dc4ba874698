"""An environment of shoal as Gymnasium's `FuncEnv`: pure functions for JAX, with the state in the hands of the caller.

`gymnasium.envs.functional_jax_env` makes a `gymnasium.Env` or a `VectorEnv` of it. A program that only steps
environments from Python is faster with `ShoalEnv` and `ShoalVectorEnv`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.experimental.functional import FuncEnv

from shoal.core.env import Env, State
from shoal.core.keys import make_key, typed_key
from shoal.core.struct import Struct, struct, to_arrays
from shoal.interop.to_gymnasium import action_of, env_of, space_of


@struct
class FuncState(Struct):
    """A state of shoal, with what the step to it returned. `FuncEnv` asks for these one by one."""

    state: State
    reward: jax.Array
    terminated: jax.Array
    info: dict[str, Any]  # with "truncated", and "action_mask" if there is one; zero before the first step

    @property
    def at(self) -> "Rows":
        """Some of many states, as the property `at` of an array: `states.at[indices].set(others)`."""
        return Rows(self)


class ShoalFuncEnv(FuncEnv):
    """An environment of shoal with the methods of Gymnasium's FuncEnv. States are `FuncState`, observations JAX arrays.

    `params` is the environment value itself, so `params.replace(gravity=5.0)` changes a constant, which may be traced.
    `rng` is a key of `jax.random.key` or `jax.random.PRNGKey`; only `initial` and `transition` use it. As `FuncEnv`
    knows no time limit, give it to whatever steps the environment: it is `max_episode_steps`, or None. What an
    environment carries over from one episode to the next is lost, because `initial` knows no episode before.
    """

    observation_space: spaces.Space
    action_space: spaces.Space

    def __init__(self, env: Env | str, **fields: Any) -> None:
        """`env` is an environment of shoal or its name, `fields` are fields of a named environment.

        Raises ValueError for an unknown name.
        """
        self.env = to_arrays(env_of(env, fields))
        self.observation_space = space_of(self.env.observation_space)
        self.action_space = space_of(self.env.action_space)
        info = jax.eval_shape(_info_of_a_step, self.env)
        self._no_info = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), info)
        super().__init__()

    @property
    def max_episode_steps(self) -> int | None:
        """The number of steps after which an episode is truncated, or None."""
        return None if self.env.max_steps is None else int(self.env.max_steps)

    def get_default_params(self, **kwargs: Any) -> Env:
        """The environment value, with some fields changed. Raises TypeError for a field that it does not have."""
        return to_arrays(self.env.replace(**kwargs))

    def initial(self, rng: Any, params: Env | None = None) -> FuncState:
        """The first state of an episode. `rng` is consumed."""
        env = self._env(params)
        state = env.init(typed_key(rng))
        return FuncState(state, jnp.float32(0), jnp.asarray(False), self._no_info | _mask(env, state))

    def transition(self, state: FuncState, action: Any, rng: Any, params: Env | None = None) -> FuncState:
        """The state after an action. `rng` is consumed."""
        env = self._env(params)
        action = action_of(env.action_space, action, jnp.asarray)
        after, reward, terminated, truncated, info = env.advance(state.state, action, env.noise(typed_key(rng)))
        return FuncState(after, reward, terminated, {**info, "truncated": truncated} | _mask(env, after))

    def observation(self, state: FuncState, rng: Any, params: Env | None = None) -> Any:
        """The observation of a state."""
        return self._env(params).observe(state.state)

    def reward(self, state: Any, action: Any, next_state: FuncState, rng: Any, params: Env | None = None) -> jax.Array:
        """The reward of the step to `next_state`."""
        return next_state.reward

    def terminal(self, state: FuncState, rng: Any, params: Env | None = None) -> jax.Array:
        """Whether the step to this state ended the episode otherwise than by the time limit."""
        return state.terminated

    def state_info(self, state: FuncState, params: Env | None = None) -> dict[str, Any]:
        """The action mask as "action_mask", if there is one."""
        return {name: state.info[name] for name in ("action_mask",) if name in state.info}

    def transition_info(
        self, state: Any, action: Any, next_state: FuncState, params: Env | None = None
    ) -> dict[str, Any]:
        """The info of the step to `next_state`, with "truncated" (by the time limit) and, if any, the action mask."""
        return dict(next_state.info)

    def render_init(self, params: Env | None = None, **kwargs: Any) -> tuple[()]:
        """Nothing: a picture needs only the state."""
        return ()

    def render_image(self, state: FuncState, render_state: Any, params: Env | None = None) -> tuple[Any, Any]:
        """(`render_state`, the picture of a state, uint8 [H, W, 3]). Of many states, a tuple of pictures."""
        env, states = self._env(params), jax.tree.map(np.asarray, state.state)
        if not states.time.shape:
            return render_state, np.asarray(env.render(states), np.uint8)
        one = (jax.tree.map(lambda x, e=e: x[e], states) for e in range(len(states.time)))
        return render_state, tuple(np.asarray(env.render(of_env), np.uint8) for of_env in one)

    def render_close(self, render_state: Any, params: Env | None = None) -> None:
        """Nothing is open."""

    def _env(self, params: Env | None) -> Env:
        if params is None:
            return self.env
        if type(params) is not type(self.env):
            raise TypeError(f"params={params!r:.60} are not those of {type(self.env).__name__}: see `default_params`.")
        return params


class Rows:
    """Some rows of many states: the result of `FuncState.at`."""

    def __init__(self, states: FuncState, indices: Any = None) -> None:
        """The rows `indices` of `states` [E]."""
        self.states, self.indices = states, indices

    def __getitem__(self, indices: Any) -> "Rows":
        """The rows with these indices."""
        return Rows(self.states, indices)

    def set(self, rows: FuncState) -> FuncState:
        """The states with other rows at the indices."""
        return jax.tree.map(lambda x, row: x.at[self.indices].set(row), self.states, rows)


def _info_of_a_step(env: Env) -> dict[str, Any]:
    key = make_key(0)
    state = env.init(key)
    *_, truncated, info = env.advance(state, env.action_space.sample(key), env.noise(key))
    return {**info, "truncated": truncated}


def _mask(env: Env, state: State) -> dict[str, Any]:
    mask = env.action_mask(state)
    return {} if mask is None else {"action_mask": mask}
