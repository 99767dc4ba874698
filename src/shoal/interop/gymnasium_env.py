"""An environment of shoal as a `gymnasium.Env`: `gymnasium.make("shoal/CartPole-v1")`, or `ShoalEnv("CartPole-v1")`.

One call of a compiled program takes a step. For many environments at once use `gymnasium_vector.ShoalVectorEnv`, which
takes a step of all of them in one call.
"""

from functools import lru_cache
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.env import Env, State
from shoal.core.errors import need
from shoal.core.keys import check_seed, make_key
from shoal.interop.flat import FlatEnv, Leaves, Structure, as_arrays, key_of, key_words, structures
from shoal.interop.to_gymnasium import action_of, check_action, element_of, env_of, space_of

FPS = 15
MODES = ("human", "rgb_array")
OF_PROCESS = ("_flat", "_begin", "_step", "_space", "_action_space", "_structure", "_obs_structure", "_info_structure")


class ShoalEnv(gymnasium.Env):
    """One environment of shoal with Gymnasium's calls. Observations, rewards and flags are NumPy's and Python's.

    `reset(seed=...)` decides all random numbers from then on. Without a seed the next episode follows from the last
    one, and what the environment carries over from episode to episode is kept. The time limit of the environment is
    its own: `truncated` needs no wrapper. An action mask, where there is one, is `info["action_mask"]`.
    """

    metadata = {"render_modes": [*MODES], "render_fps": FPS}

    def __init__(self, env: Env | str, render_mode: str | None = None, **fields: Any) -> None:
        """`env` is an environment of shoal or its name, `fields` are fields of a named environment.

        `render_mode` is None, "rgb_array" or "human". Raises ValueError for an unknown name or mode.
        """
        if render_mode not in (None, *MODES):
            raise ValueError(f"render_mode={render_mode!r} is unknown. Choose None, 'rgb_array' or 'human'.")
        self.env, self.render_mode = env_of(env, fields), render_mode
        self.observation_space = space_of(self.env.observation_space)
        self.action_space = space_of(self.env.action_space)
        self._words: Any = None  # of the random key
        self._state: Leaves | None = None
        self._prepare()
        self._is_over = False
        self._window: Any = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: (observation, info). `options` has no effect.

        Raises TypeError for a seed that is no integer.
        """
        if seed is not None:
            check_seed(seed)
        super().reset(seed=seed)
        if seed is not None or self._words is None:
            self._words = key_words(make_key(int(self.np_random.integers(2**62)) if seed is None else seed))
            self._state = None
        self._words, self._state, obs, mask = self._begin(self._flat.leaves, self._words, self._state)
        self._is_over = False
        if self.render_mode == "human":
            self._show()
        return self._observed(obs), _info({}, mask)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step: (observation, reward, terminated, truncated, info).

        Raises gymnasium.error.ResetNeeded before the first reset and after the end of an episode, and
        gymnasium.error.InvalidAction for an action outside of the action space.
        """
        if self._state is None or self._is_over:
            when = "after the end of an episode" if self._is_over else "before the first reset"
            raise gymnasium.error.ResetNeeded(f"step was called {when}: call `obs, info = env.reset()` first.")
        check_action(self.action_space, action)
        values = (self._flat.leaves, self._words, self._state, action_of(self._action_space, action))
        self._words, self._state, obs, mask, outcome, info = self._step(*values)
        reward, terminated, truncated = np.asarray(outcome).tolist()
        self._is_over = bool(terminated or truncated)
        if self.render_mode == "human":
            self._show()
        infos = _info(jax.tree.unflatten(self._info_structure, info) if info else {}, mask)
        return self._observed(obs), reward, bool(terminated), bool(truncated), infos

    def render(self) -> np.ndarray | None:
        """A picture of the present state, uint8 [H, W, 3]; None without a render mode, and in a window ("human")."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() draws nothing without a render mode: make(..., render_mode='rgb_array').")
            return None
        if self._state is None:
            raise gymnasium.error.ResetNeeded("render was called before the first reset: call `env.reset()` first.")
        return None if self.render_mode == "human" else self._picture()

    def close(self) -> None:
        """Close the window, if there is one. A second call does nothing."""
        if self._window is not None:
            need("pygame", "gymnasium", "render_mode='human'").display.quit()
            self._window = None

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs. Arrays become NumPy's, and a window stays here."""
        kept = {name: part for name, part in self.__dict__.items() if name not in OF_PROCESS}
        state = None if self._state is None else as_arrays(self._state)
        words = None if self._words is None else np.asarray(self._words)
        return {**kept, "_window": None, "_words": words, "_state": state, "env": jax.tree.map(np.asarray, self.env)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what `__getstate__` returned."""
        self.__dict__.update(state)
        self._prepare()

    def _prepare(self) -> None:
        """Set up what cannot be sent to another process."""
        self._flat = FlatEnv.of(self.env)
        self._begin, self._step = _programs(self._flat.structure)
        self._space, self._action_space = self.env.observation_space, self.env.action_space
        self._structure, self._obs_structure, _, self._info_structure = structures(self._flat.structure)

    def _observed(self, leaves: Leaves) -> Any:
        return element_of(self._space, jax.tree.unflatten(self._obs_structure, leaves))

    def _picture(self) -> np.ndarray:
        return np.asarray(self.env.render(jax.tree.unflatten(self._structure, as_arrays(self._state or []))), np.uint8)

    def _show(self) -> None:
        pygame = need("pygame", "gymnasium", "render_mode='human'")
        picture = self._picture()
        if self._window is None:
            pygame.display.init()
            self._window = pygame.display.set_mode((picture.shape[1], picture.shape[0]))
        pygame.event.pump()
        self._window.blit(pygame.surfarray.make_surface(picture.swapaxes(0, 1)), (0, 0))
        pygame.display.flip()
        pygame.time.wait(1000 // FPS)


def _info(info: dict[str, Any], mask: Any) -> dict[str, Any]:
    found = {name: np.asarray(value)[()] for name, value in info.items()}
    return found if mask is None else {**found, "action_mask": np.asarray(mask, np.int8)}


@lru_cache(maxsize=256)
def _programs(structure: Structure) -> tuple[Any, Any]:
    """The compiled functions `begin` and `step` of environments with this structure; see `interop/flat.py`."""

    @jax.jit
    def begin(leaves: Leaves, words: Any, ended: Leaves | None) -> tuple[Any, ...]:
        # `ended` is the last state of the episode before, if there was one.
        env = structure.env(leaves)
        key, k_init = jax.random.split(key_of(words))
        state = env.init(k_init)
        state = state if ended is None else env.carry_over(jax.tree.unflatten(structures(structure)[0], ended), state)
        return key_words(key), *_flat(env, state)

    @jax.jit
    def step(leaves: Leaves, words: Any, state_leaves: Leaves, action: Any) -> tuple[Any, ...]:
        env = structure.env(leaves)
        key, k_noise = jax.random.split(key_of(words))
        state = jax.tree.unflatten(structures(structure)[0], state_leaves)
        state, reward, terminated, truncated, info = env.advance(state, action, env.noise(k_noise))
        # One array, because reading several takes longer.
        outcome = jnp.stack([reward, terminated.astype(jnp.float32), truncated.astype(jnp.float32)])
        return key_words(key), *_flat(env, state), outcome, jax.tree.leaves(info)

    return begin, step


def _flat(env: Env, state: State) -> tuple[Leaves, Leaves, Any]:
    return jax.tree.leaves(state), jax.tree.leaves(env.observe(state)), env.action_mask(state)
