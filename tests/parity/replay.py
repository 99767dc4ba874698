"""Play given actions under given noise in one compiled loop, for many episodes at once, without resets."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.keys import make_key
from shoal.rollouts.rollout import sample_noise


class Played(NamedTuple):
    """What an environment did: axes [T, E], the states those after each step."""

    obs: Any
    state: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


def first_states(env: Any, num: int, seed: int = 0) -> Any:
    """First states of so many episodes."""
    return jax.jit(jax.vmap(env.init))(jax.random.split(make_key(seed), num))


def noise_of(env: Any, steps: int, num: int, seed: int = 1) -> Any:
    """Noise [T, E] as a rollout draws it."""
    return jax.jit(lambda key: sample_noise(env, key, (steps, num)))(make_key(seed))


def play(env: Any, state: Any, actions: np.ndarray, noise: Any) -> Played:
    """Actions [T, E] under noise [T, E], from states [E]."""

    def step(state: Any, xs: tuple) -> tuple:
        state, reward, terminated, truncated, _ = jax.vmap(env.advance)(state, *xs)
        return state, (jax.vmap(env.observe)(state), state, reward, terminated, truncated)

    seen = jax.jit(lambda s, a, n: jax.lax.scan(step, s, (a, n))[1])(state, jnp.asarray(actions), noise)
    return Played(*jax.tree.map(np.asarray, seen))
