"""Environments of shoal as a `gymnasium.vector.VectorEnv`: one compiled call takes a step of all of them.

Episodes that end begin again from a bank of first states, which one call draws for many resets, as in shoal's rollouts.
"""

from functools import lru_cache, partial
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from shoal.core.env import Env, State
from shoal.core.errors import in_digits
from shoal.core.keys import check_seed, key_words, make_key, make_keys
from shoal.core.process import check_process
from shoal.interop.flat import FlatEnv, Leaves, Structure, as_arrays, key_of, structures
from shoal.interop.gymnasium_env import FPS
from shoal.interop.to_gymnasium import SpecWithLimit, action_of, element_of, env_of, space_of, warn_of_nan

BANK_BYTES = 64 * 2**20  # memory of a bank of first states, at most
MOST_ENVS = 2**24
LARGEST_BANK = 16  # first states for each environment
OF_PROCESS = ("_flat", "_programs", "_space", "_action_space", "_structure", "_obs_structure", "_info_structure")
ON_DEVICE = ("_words", "_state", "_bank", "_bank_words")


class ShoalVectorEnv(VectorEnv):
    """E environments of shoal with the calls of Gymnasium's vector environments.

    `autoreset_mode` is as in Gymnasium. "NextStep": the step after the end of an episode ignores its action and
    returns the first observation of the next episode, with reward 0. "SameStep": the step that ends an episode returns
    this observation already, and the final one in `info["final_obs"]`. "Disabled": `reset(options={"reset_mask":
    ...})` begins the episodes of some environments again.
    """

    spec = SpecWithLimit()  # type: ignore[assignment]  # an attribute in Gymnasium

    def __init__(
        self,
        env: Env | str,
        num_envs: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **fields: Any,
    ) -> None:
        """`env` is an environment of shoal or its name, `fields` are fields of a named environment.

        Raises ValueError for less than one environment or more than MOST_ENVS, an unknown name, and unknown modes.
        """
        if not 1 <= num_envs <= MOST_ENVS:
            raise ValueError(f"num_envs={in_digits(num_envs)} must be at least 1 and at most {MOST_ENVS:,}.")
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode={render_mode!r} is unknown. Choose None or 'rgb_array'.")
        self.env, self.num_envs, self.render_mode = env_of(env, fields), num_envs, render_mode
        self.autoreset_mode = _mode(autoreset_mode)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": FPS, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = space_of(self.env.observation_space)
        self.single_action_space = space_of(self.env.action_space)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._words: Any = None  # of the random keys [E]
        self._state: Leaves | None = None  # [E]
        self._ended = np.zeros(num_envs, bool)
        self._said_nan = False
        self._prepare()

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin episodes: (observations [E], info). A seed s gives environment e the seed s + e; a list has them all.

        With `options={"reset_mask": flags}` [E] only the flagged environments begin anew. Raises TypeError for a seed
        that is no integer, ValueError for seeds of another number than that of the environments, and RuntimeError in a
        forked process.
        """
        check_process()
        flags = self._reset_mask(dict(options or {}))
        super().reset(seed=seed if isinstance(seed, int) else None)
        words = self._reset_words(seed)
        if self._state is None:
            flags = np.ones(self.num_envs, bool)
        values = (self._flat.leaves, words, self._state, flags, seed is not None)
        self._words, self._bank_words, self._state, obs, mask = self._programs.begin(*values)
        self._draw_bank()
        self._ended &= ~flags
        return self._observed(obs), self._info([], mask, flags)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take a step of all environments: (observations, rewards, terminated, truncated) [E], and info.

        Raises gymnasium.error.ResetNeeded before the first reset and, in the mode "Disabled", after the end of an
        episode; gymnasium.error.InvalidAction for actions outside of the action space.
        """
        check_process()
        mode = self.autoreset_mode
        if self._state is None:
            raise gymnasium.error.ResetNeeded("step was called before the first reset: call `env.reset()` first.")
        if mode is AutoresetMode.DISABLED and self._ended.any():
            raise gymnasium.error.ResetNeeded(
                f"the episodes of {self._ended.sum()} environments are over, and autoreset_mode is Disabled: call "
                f"`env.reset(options={{'reset_mask': flags}})` for them first."
            )
        if isinstance(actions, list):
            actions = np.asarray(actions)
        self._check_actions(actions)
        is_same = mode is AutoresetMode.SAME_STEP
        ended = np.stack([self._ended.astype(np.int32), self._used])
        values = (self._flat.leaves, self._words, self._state, action_of(self._action_space, actions), ended)
        self._words, self._state, obs, mask, outcome, info, final = self._programs.step(*values, self._bank, is_same)
        rewards, terminated, truncated = np.array(outcome)
        self._said_nan = warn_of_nan(rewards, self._said_nan)
        done = (terminated > 0) | (truncated > 0)
        if mode is not AutoresetMode.DISABLED:
            self._count_resets(done if is_same else self._ended)
        all_envs = np.ones(self.num_envs, bool)
        infos = self._info(info, mask, ~self._ended if mode is AutoresetMode.NEXT_STEP else all_envs)
        if is_same and done.any():
            infos = self._with_final(infos, final, info, done)
        self._ended = done if not is_same else self._ended
        results = rewards.astype(np.float64), terminated > 0, truncated > 0
        return self._observed(obs), *results, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """The pictures of all environments, uint8 [H, W, 3] each; None without a render mode."""
        if self.render_mode is None:
            return None
        if self._state is None:
            raise gymnasium.error.ResetNeeded("render was called before the first reset: call `env.reset()` first.")
        state = jax.tree.unflatten(self._structure, as_arrays(self._state))
        one = (jax.tree.map(lambda x, e=e: x[e], state) for e in range(self.num_envs))
        return tuple(np.asarray(self.env.render(of_env), np.uint8) for of_env in one)

    def __getstate__(self) -> dict[str, Any]:
        """Pickled state without device arrays, which become NumPy's."""
        kept = {name: part for name, part in self.__dict__.items() if name not in OF_PROCESS}
        arrays = {name: jax.tree.map(np.asarray, kept[name]) for name in ON_DEVICE if name in kept}
        return {**kept, **arrays, "env": jax.tree.map(np.asarray, self.env)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what `__getstate__` returned."""
        self.__dict__.update(state)
        for name in ON_DEVICE:
            if name in state:
                self.__dict__[name] = jax.device_put(state[name])
        self._prepare()

    # Seeds and flags of a reset.

    def _reset_mask(self, options: dict[str, Any]) -> np.ndarray:
        flags = options.get("reset_mask", np.ones(self.num_envs, bool))
        if not isinstance(flags, np.ndarray) or flags.dtype != np.bool_ or flags.shape != (self.num_envs,):
            raise ValueError(f"options['reset_mask'] must be a NumPy array of {self.num_envs} booleans, not {flags!r}.")
        if not flags.any():
            raise ValueError("options['reset_mask'] flags no environment: flag at least one.")
        return flags

    def _reset_words(self, seed: Any) -> Any:
        """The keys [E] from which a reset draws: of the seeds, or, without seeds, those that the environments have."""
        if seed is None:
            if self._words is not None:
                return self._words
            return key_words(jax.random.split(make_key(int(self.np_random.integers(2**62))), self.num_envs))
        seeds = (
            [*seed]
            if isinstance(seed, (list, tuple, np.ndarray))
            else range(first := check_seed(seed), first + self.num_envs)
        )
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds were given for {self.num_envs} environments: give one for each.")
        random = self.np_random
        return key_words(make_keys(int(random.integers(2**62)) if s is None else s for s in seeds))

    # Steps.

    def _prepare(self) -> None:
        """Set up what cannot be sent to another process."""
        self._flat = FlatEnv.of(self.env)
        self._programs = _programs(self._flat.structure)
        self._space, self._action_space = self.env.observation_space, self.env.action_space
        self._structure, self._obs_structure, _, self._info_structure = structures(self._flat.structure)

    def _check_actions(self, actions: Any) -> None:
        space = self.action_space
        leaves = jax.tree.leaves(actions)
        sizes = {len(leaf) if np.ndim(leaf) else 0 for leaf in leaves}
        if sizes != {self.num_envs}:
            raise gymnasium.error.InvalidAction(
                f"step needs an action for each of {self.num_envs} environments; the space is {space}."
            )
        is_discrete = isinstance(self.single_action_space, gymnasium.spaces.Discrete)
        array = np.asarray(leaves[0])
        if is_discrete and array.ndim == 1 and np.issubdtype(array.dtype, np.integer):
            if array.min() >= 0 and array.max() < self.single_action_space.n:  # type: ignore[attr-defined]  # a Discrete
                return
        elif not is_discrete and space.contains(actions):
            return
        raise gymnasium.error.InvalidAction(
            f"actions of shape {array.shape} and dtype {array.dtype}, from {array.min()} to {array.max()}, are not in "
            f"the action space {space}."
        )

    def _draw_bank(self) -> None:
        size = min(max(1, BANK_BYTES // sum(x.nbytes for x in self._state or [])), LARGEST_BANK)
        shape = (size, self.num_envs)
        self._bank_words, self._bank = self._programs.first_states(self._flat.leaves, self._bank_words, shape)
        self._used = np.zeros(self.num_envs, np.int32)

    def _count_resets(self, was_reset: np.ndarray) -> None:
        self._used = self._used + was_reset
        if self._used.max() >= len(self._bank[0]):
            self._draw_bank()

    def _observed(self, leaves: Leaves) -> Any:
        return element_of(self._space, jax.tree.unflatten(self._obs_structure, leaves))

    def _info(self, info: Leaves, mask: Any, flags: np.ndarray) -> dict[str, Any]:
        found = jax.tree.unflatten(self._info_structure, [np.array(x) for x in info]) if info else {}
        if mask is not None:
            found["action_mask"] = np.array(mask, np.int8)
        return {**found, **{f"_{name}": flags.copy() for name in found}}

    def _with_final(self, infos: dict[str, Any], final: Any, info: Leaves, done: np.ndarray) -> dict[str, Any]:
        final_obs = self._observed(final)
        rows = np.full(self.num_envs, None, object)
        for e in np.flatnonzero(done):
            rows[e] = jax.tree.map(lambda x, e=e: x[e], final_obs)
        of_steps = self._info(info, None, done)
        of_ended = {name: np.where(_wide(done, value), value, 0) for name, value in of_steps.items()}
        found = {"final_obs": rows, "final_info": of_ended}
        return {**infos, **found, **{f"_{name}": done.copy() for name in found}}


def _mode(mode: AutoresetMode | str) -> AutoresetMode:
    known = [known_mode.value for known_mode in AutoresetMode]
    if not isinstance(mode, AutoresetMode) and mode not in known:
        raise ValueError(f"autoreset_mode={mode!r} is unknown. Choose {', '.join(known[:-1])} or {known[-1]}.")
    return AutoresetMode(mode)


def _wide(flags: Any, x: Any) -> Any:
    return flags.reshape(flags.shape + (1,) * (x.ndim - 1))


def _where(flags: Any, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda y, n: jnp.where(_wide(flags, y), y, n), yes, no)


class _Programs(NamedTuple):
    """Compiled functions of E environments with one structure; see `interop/flat.py`."""

    begin: Any
    first_states: Any
    step: Any


@lru_cache(maxsize=256)
def _programs(structure: Structure) -> _Programs:
    def states(leaves: Leaves) -> Any:
        return jax.tree.unflatten(structures(structure)[0], leaves)

    def seen(env: Any, state: State) -> tuple[Leaves, Any]:
        return jax.tree.leaves(jax.vmap(env.observe)(state)), jax.vmap(env.action_mask)(state)

    @jax.jit
    def begin(leaves: Leaves, words: Any, ended: Leaves | None, flags: Any, is_seeded: Any) -> tuple[Any, ...]:
        # Environments without a flag keep key and state.
        env, pairs = structure.env(leaves), jax.vmap(jax.random.split)(key_of(words))
        state, new_words = jax.vmap(env.init)(pairs[:, 1]), key_words(pairs[:, 0])
        if ended is not None:
            before = states(ended)
            state = _where(jnp.broadcast_to(is_seeded, flags.shape), state, jax.vmap(env.carry_over)(before, state))
            state, new_words = _where(flags, state, before), _where(flags, new_words, words)
        bank_words = key_words(jax.random.fold_in(key_of(words[0]), 1))
        return new_words, bank_words, jax.tree.leaves(state), *seen(env, state)

    @partial(jax.jit, static_argnums=2)
    def first_states(leaves: Leaves, words: Any, shape: tuple[int, int]) -> tuple[Any, Leaves]:
        # The words of the next bank, and first states [R, E].
        env, (next_key, key) = structure.env(leaves), jax.random.split(key_of(words))
        states = jax.vmap(jax.vmap(env.init))(jax.random.split(key, shape))
        return key_words(next_key), jax.tree.leaves(states)

    @partial(jax.jit, static_argnums=6, donate_argnums=2)
    def step(
        leaves: Leaves, words: Any, before: Leaves, action: Any, ended: Any, bank: Any, is_same_step: bool
    ) -> tuple[Any, ...]:
        # `ended`: [is over before this step, first states used] [2, E]; `bank`: first states [R, E].
        env, pairs = structure.env(leaves), jax.vmap(jax.random.split)(key_of(words))
        state, is_over, used = states(before), ended[0] > 0, ended[1]
        noise = jax.vmap(env.noise)(pairs[:, 1])
        stepped, reward, terminated, truncated, info = jax.vmap(env.advance)(state, action, noise)
        fresh = jax.tree.map(lambda x: x[used, jnp.arange(x.shape[1])], states(bank))
        is_new = (terminated | truncated) if is_same_step else is_over
        next_state = _where(is_new, jax.vmap(env.carry_over)(stepped if is_same_step else state, fresh), stepped)
        if not is_same_step:
            reward, terminated, truncated = jnp.where(is_over, 0, reward), terminated & ~is_over, truncated & ~is_over
        final = jax.tree.leaves(jax.vmap(env.observe)(stepped)) if is_same_step else None
        # One array, because reading several takes longer.
        outcome = jnp.stack([reward, terminated.astype(jnp.float32), truncated.astype(jnp.float32)])
        rest = (*seen(env, next_state), outcome, jax.tree.leaves(info), final)
        return key_words(pairs[:, 0]), jax.tree.leaves(next_state), *rest

    return _Programs(begin, first_states, step)
