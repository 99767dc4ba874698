"""A wrapper that samples an environment for every episode: domain randomization, or a distribution of tasks."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from shoal.core.env import Env, State
from shoal.core.keys import Key, make_key
from shoal.core.struct import Number, is_concrete, static, struct, to_arrays
from shoal.core.wrappers.base import StatefulWrapper, WrapperState

CHECKED = 16  # samples whose fields are checked before a run


@struct
class RandomizeState(WrapperState):
    """The inner state, and the environment that was sampled for this episode."""

    env: Env


@struct
class Randomize(StatefulWrapper):
    """Sample an environment for every episode.

    `sample(key)` returns an environment of the same class and static fields as `env`, with other constants. It is part
    of the program, so define it once. Spaces and `max_steps` are those of `env`: choose an `env` whose bounds hold for
    every sample. Raises ValueError when `sample` returns another kind of environment, or one with another `max_steps`,
    because the time limit does not differ between episodes. Before a run, the fields of 16 samples are checked; an
    episode with a constant that is NaN has the return NaN.

        def sample(key):
            return CartPole(length=jax.random.uniform(key, minval=0.25, maxval=1.0))

        Randomize(CartPole(), sample)
    """

    sample: Callable[[Key], Env] = static()

    def inner_envs(self) -> Sequence[Env]:
        """Return `env` and some samples."""
        samples = jax.vmap(self.sample)(jax.random.split(make_key(0), CHECKED))
        return [self.env, *(jax.tree.map(lambda x, i=i: x[i], samples) for i in range(CHECKED))]

    def __post_init__(self) -> None:
        limit, limits = self.env.max_steps, []
        if limit is not None and (not is_concrete(limit) or np.ndim(limit)):  # while JAX traces, or of a population
            return

        def note(key: Key) -> None:
            sampled = self.sample(key)
            limits.append(sampled.max_steps if type(sampled) is type(self.env) else limit)

        jax.eval_shape(note, make_key(0))
        if isinstance(limits[0], Tracer) or limits[0] != limit:
            what = "a random max_steps" if isinstance(limits[0], Tracer) else f"max_steps={limits[0]}"
            raise ValueError(
                f"sample returns an environment with {what}, and the time limit of all episodes is that of env, "
                f"max_steps={limit}: give both the same, as in sample = lambda key: env.replace(...)."
            )

    def init(self, key: Key) -> RandomizeState:
        """Sample an environment and return its first state."""
        k_sample, k_init = jax.random.split(key)
        sampled = to_arrays(self.sample(k_sample))
        check_sample(self.env, sampled)
        inner = sampled.init(k_init)
        return RandomizeState(time=inner.time, inner=inner, env=sampled)

    def noise(self, key: Key) -> Any:
        """Return the key itself, or None where the environment has no noise.

        Only the state holds the environment of the episode, so `transition` samples its noise from this key.
        """
        return key if jax.tree.leaves(jax.eval_shape(self.env.noise, key)) else None

    def inner_pair(self, state: RandomizeState) -> tuple[Env, State]:
        """Return the environment that was sampled for the episode, and the inner state."""
        return state.env, state.inner

    def transition(self, state: RandomizeState, action: Any, noise: Any) -> tuple[RandomizeState, Any, Any, Any]:
        """Apply the dynamics of the sampled environment."""
        noise = None if noise is None else state.env.noise(noise)
        inner, reward, terminated, info = self.inner_transition(state, action, noise)
        return state.replace(inner=inner), reward, terminated, info

    def limit_of(self, state: RandomizeState) -> Number | None:
        """Return the time limit of the episode, by `env`."""
        return self.env.limit_of(state.inner)


def check_sample(env: Env, sampled: Env) -> None:
    """Raise ValueError for a sampled environment of another structure than that of `env`."""
    expected, returned = jax.tree.structure(env), jax.tree.structure(sampled)
    if expected != returned:
        raise ValueError(f"sample must return an environment of the structure of env, {expected}, not {returned}.")
