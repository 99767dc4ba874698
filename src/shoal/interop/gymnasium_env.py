"""An environment of shoal as a `gymnasium.Env`: `gymnasium.make("shoal/CartPole-v1")`, or `ShoalEnv("CartPole-v1")`.

One call of a compiled program takes a step. For many environments at once use `gymnasium_vector.ShoalVectorEnv`, which
takes a step of all of them in one call.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.env import Env, State
from shoal.core.errors import need
from shoal.core.keys import check_seed, key_words, make_key
from shoal.core.process import check_process
from shoal.core.spaces import Box, MultiDiscrete, mask_parts
from shoal.interop.flat import FlatEnv, Leaves, Structure, key_of
from shoal.interop.packed import Packing
from shoal.interop.to_gymnasium import SpecWithLimit, action_of, check_action, element_of, env_of, space_of, warn_of_nan

FPS = 15
MODES = ("human", "rgb_array")
OF_PROCESS = ("_programs", "_constants", "_space", "_action_space", "_actions")
INTEGERS = (int, np.integer)
KNOWN_ACTIONS = 1024  # integers that are kept on the device, at most


class ShoalEnv(gymnasium.Env):
    """One environment of shoal with Gymnasium's calls. Observations, rewards and flags are NumPy's and Python's.

    `reset(seed=...)` decides all random numbers from then on. Without a seed the next episode follows from the last
    one, and what the environment carries over from episode to episode is kept. The time limit of the environment is
    its own: `truncated` needs no wrapper. An action mask, where there is one, is `info["action_mask"]`, which
    `action_space.sample` takes: an array, or with MultiDiscrete a tuple of arrays.
    """

    metadata = {"render_modes": [*MODES], "render_fps": FPS}
    spec = SpecWithLimit()  # type: ignore[assignment]  # an attribute in Gymnasium

    def __init__(self, env: Env | str, render_mode: str | None = None, **fields: Any) -> None:
        """`env` is an environment of shoal or its name, `fields` are fields of a named environment.

        `render_mode` is None, "rgb_array" or "human". Raises ValueError for an unknown name or mode.
        """
        if render_mode not in (None, *MODES):
            raise ValueError(f"render_mode={render_mode!r} is unknown. Choose None, 'rgb_array' or 'human'.")
        self.env, self.render_mode = env_of(env, fields), render_mode
        self.observation_space = space_of(self.env.observation_space)
        self.action_space = space_of(self.env.action_space)
        self._words: Any = None  # of `Moment`, on the device
        self._prepare()
        self._is_over = self._said_nan = False
        self._window: Any = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: (observation, info). `options` has no effect.

        Raises TypeError for a seed that is no integer, and RuntimeError in a forked process.
        """
        check_process()
        if seed is not None:
            check_seed(seed)
        super().reset(seed=seed)
        if seed is not None or self._words is None:
            key = make_key(int(self.np_random.integers(2**62)) if seed is None else seed)
            self._words = self._programs.first(self._constants, key_words(key))
        else:
            self._words = self._programs.again(self._constants, self._words)
        self._is_over = False
        if self.render_mode == "human":
            self._show()
        words = np.asarray(self._words)
        return self._observed(words), self._info(words, is_first=True)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step: (observation, reward, terminated, truncated, info).

        Raises gymnasium.error.ResetNeeded before the first reset and after the end of an episode, and
        gymnasium.error.InvalidAction for an action outside of the action space.
        """
        check_process()
        if self._words is None or self._is_over:
            when = "after the end of an episode" if self._is_over else "before the first reset"
            raise gymnasium.error.ResetNeeded(f"step was called {when}: call `obs, info = env.reset()` first.")
        after = self._programs.step(self._constants, self._words, self._action(action))
        words = np.asarray(after)
        reward, terminated, truncated, is_inside = self._programs.parts.outcome.read(words).tolist()
        if not is_inside:
            check_action(self.action_space, action)
        self._words, self._is_over = after, bool(terminated or truncated)
        if reward != reward:  # NaN
            self._said_nan = warn_of_nan(reward, self._said_nan)
        if self.render_mode == "human":
            self._show()
        return self._observed(words), reward, bool(terminated), bool(truncated), self._info(words)

    def render(self) -> np.ndarray | None:
        """A picture of the present state, uint8 [H, W, 3]; None without a render mode, and in a window ("human")."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() draws nothing without a render mode: make(..., render_mode='rgb_array').")
            return None
        if self._words is None:
            raise gymnasium.error.ResetNeeded("render was called before the first reset: call `env.reset()` first.")
        return None if self.render_mode == "human" else self._picture()

    def close(self) -> None:
        """Close the window, if there is one. A second call does nothing."""
        if self._window is not None:
            need("pygame", "gymnasium", "render_mode='human'").display.quit()
            self._window = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickled state without device arrays, which become NumPy's, and without the window, which stays here."""
        kept = {name: part for name, part in self.__dict__.items() if name not in OF_PROCESS}
        words = None if self._words is None else np.asarray(self._words)
        return {**kept, "_window": None, "_words": words, "env": jax.tree.map(np.asarray, self.env)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what `__getstate__` returned."""
        self.__dict__.update(state)
        self._prepare()

    @property
    def state(self) -> State:
        """The present state of the environment, with NumPy arrays. Raises ResetNeeded before the first reset."""
        if self._words is None:
            raise gymnasium.error.ResetNeeded("there is no state before the first reset: call `env.reset()` first.")
        return self._programs.parts.state.read(np.asarray(self._words))

    def _prepare(self) -> None:
        """Set up what cannot be sent to another process."""
        flat = FlatEnv.of(self.env)
        self._programs = _programs(flat.structure)
        self._constants = jax.device_put(self._programs.constants.store(flat.leaves))
        self._words = None if self._words is None else jax.device_put(self._words)
        self._space, self._action_space = self.env.observation_space, self.env.action_space
        self._actions: dict[int, Any] = {}

    def _action(self, action: Any) -> Any:
        """An action as the program takes it, which checks the bounds of an array. Integers are checked here, once."""
        space = self._action_space
        if isinstance(space, Box) and type(action) is np.ndarray:
            if action.dtype == space.dtype and action.shape == space.shape:
                return action
        elif isinstance(action, INTEGERS) and (known := self._actions.get(int(action))) is not None:
            return known
        check_action(self.action_space, action)
        array = action_of(space, action)
        if isinstance(action, INTEGERS) and len(self._actions) < KNOWN_ACTIONS:
            array = self._actions[int(action)] = jax.device_put(array)
        return array

    def _observed(self, words: np.ndarray) -> Any:
        return element_of(self._space, self._programs.parts.obs.read(words))

    def _info(self, words: np.ndarray, is_first: bool = False) -> dict[str, Any]:
        parts = self._programs.parts
        found: dict[str, Any] = {}
        if parts.info.segments and not is_first:
            found = {name: np.array(value)[()] for name, value in parts.info.read(words).items()}
        if parts.mask.segments:
            mask = np.array(parts.mask.read(words), np.int8)
            several = isinstance(self._action_space, MultiDiscrete)  # whose `sample` takes a mask for each choice
            found["action_mask"] = tuple(mask_parts(self._action_space, mask)) if several else mask
        return found

    def _picture(self) -> np.ndarray:
        return np.asarray(self.env.render(self.state), np.uint8)

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


class Moment(NamedTuple):
    """An environment between two steps. The programs take and return it packed into one array."""

    outcome: Any  # of the step before: reward, terminated, truncated, whether the action was in the space; float32 [4]
    obs: Any
    info: Any  # of the step before
    mask: Any
    state: Any
    key: Any  # for all random numbers from now on


class _Programs(NamedTuple):
    """The compiled functions of environments with one structure. Words are those of `interop/packed.py`."""

    constants: Packing  # of the leaves of the environment
    moment: Packing
    parts: Moment  # of packings
    first: Any  # (words of constants, words of a key) -> the first moment of the first episode
    again: Any  # (words of constants, words of a moment) -> the first moment of the next episode
    step: Any  # (words of constants, words of a moment, action) -> the next moment


@lru_cache(maxsize=256)
def _programs(structure: Structure) -> _Programs:
    def begun(env: Env, key: Any, before: Any = None) -> Moment:
        key, k_init = jax.random.split(key)
        state = env.init(k_init)
        state = state if before is None else env.carry_over(before, state)
        return Moment(jnp.zeros(4), env.observe(state), None, env.action_mask(state), state, key)

    def stepped(env: Env, before: Moment, action: Any) -> Moment:
        key, k_noise = jax.random.split(before.key)
        state, reward, terminated, truncated, info = env.advance(before.state, action, env.noise(k_noise))
        flags = (terminated, truncated, env.action_space.contains(action))
        outcome = jnp.stack([reward, *(flag.astype(jnp.float32) for flag in flags)])
        return Moment(outcome, env.observe(state), info, env.action_mask(state), state, key)

    def after_a_step(leaves: Leaves) -> Moment:
        env, key = structure.env(leaves), make_key(0)
        return stepped(env, begun(env, key), env.action_space.sample(key))

    leaves = [jax.ShapeDtypeStruct(*leaf) for leaf in structure.leaves]
    constants, shapes = Packing.of(leaves), jax.eval_shape(after_a_step, leaves)
    moment, no_info = Packing.of(shapes), jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes.info)

    def env_in(words: Any) -> Env:
        return structure.env(constants.unpack(words))

    @jax.jit
    def first(env: Any, key: Any) -> Any:
        return moment.pack(begun(env_in(env), key_of(key))._replace(info=no_info))

    @jax.jit
    def again(env: Any, before: Any) -> Any:
        ended = moment.unpack(before)
        return moment.pack(begun(env_in(env), ended.key, ended.state)._replace(info=no_info))

    @jax.jit
    def step(env: Any, before: Any, action: Any) -> Any:
        return moment.pack(stepped(env_in(env), moment.unpack(before), action))

    return _Programs(constants, moment, Moment(*moment.parts()), first, again, step)
