"""Weights, observations and samples for tests, drawn by NumPy, so that no program must be compiled for them."""

import jax
import jax.numpy as jnp
import numpy as np

from shoal.agents.replay_agent import Observed
from shoal.core.spaces import Dict, Discrete, MultiDiscrete, Tuple
from shoal.ops.replay import Transitions


def random_weights(shapes, deviation=0.3, seed=0):
    """Normal deviates in the shapes of a tree, which `jax.eval_shape` may have given; integers are 0."""
    random = np.random.default_rng(seed)

    def draw(x):
        drawn = deviation * random.normal(size=x.shape) if jnp.issubdtype(x.dtype, jnp.floating) else np.zeros(x.shape)
        return jnp.asarray(drawn.astype(x.dtype))

    return jax.tree.map(draw, shapes)


def random_values(space, axes=(), seed=0):
    """Values of a space [*axes, ...], every one equally likely."""
    if isinstance(space, Tuple):
        return tuple(random_values(part, axes, seed + i) for i, part in enumerate(space.spaces))
    if isinstance(space, Dict):
        return {name: random_values(part, axes, seed + i) for i, (name, part) in enumerate(space.spaces)}
    random, dtype = np.random.default_rng(seed), np.dtype(space.dtype)
    shape = (*axes, *space.shape)
    if isinstance(space, Discrete | MultiDiscrete):
        low, high = 0, np.asarray(space.n if isinstance(space, Discrete) else space.nvec) - 1
    else:
        low, high = space.bounds()
    if np.issubdtype(dtype, np.floating):
        return jnp.asarray(random.uniform(low, high, shape).astype(dtype))
    return jnp.asarray(random.integers(np.asarray(low, int), np.asarray(high, int), shape, endpoint=True).astype(dtype))


def random_batch(size=16, seed=0):
    """Samples of Pendulum as a replay buffer gives them, three in ten of which end an episode."""
    random = np.random.default_rng(seed)
    obs, after = random.normal(size=(2, size, 3)).astype(np.float32)
    action = random.uniform(-2, 2, (size, 1)).astype(np.float32)
    reward = random.normal(size=size).astype(np.float32)
    bootstrap = np.where(random.random(size) < 0.3, 0, 0.99).astype(np.float32)
    arrays = [jnp.asarray(x) for x in (action, reward, bootstrap)]
    return Transitions(Observed(jnp.asarray(obs), None), *arrays, Observed(jnp.asarray(after), None))
