"""Compiled functions of an environment whose arguments and results are flat lists of arrays.

JAX reads lists in compiled code, but structs and typed random keys in Python, which takes longer than a step of a small
environment. So structs and keys are put together inside the compiled function only.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np

from shoal.core.env import Env
from shoal.core.keys import Key, make_key
from shoal.core.process import check_process
from shoal.core.struct import to_arrays

Leaves = list[Any]


class Structure(NamedTuple):
    """The structure of an environment, and the shapes and dtypes of its leaves. It is hashable."""

    tree: Any
    leaves: tuple

    def env(self, leaves: Leaves) -> Env:
        """The environment with these leaves."""
        return jax.tree.unflatten(self.tree, leaves)


class FlatEnv(NamedTuple):
    """An environment as its leaves on the device, and the structures of it and of what it returns."""

    leaves: Leaves
    structure: "Structure"

    @classmethod
    def of(cls, env: Env) -> "FlatEnv":
        """The leaves and the structure of an environment with concrete fields. It calls `check_process`."""
        check_process()
        leaves, tree = jax.tree.flatten(to_arrays(env))
        return cls(jax.device_put(leaves), Structure(tree, tuple((x.shape, x.dtype) for x in leaves)))


@lru_cache(maxsize=256)
def structures(env: Structure) -> tuple[Any, Any, Any, Any]:
    """The structures of (state, observation, mask, info) of the environment with this structure."""

    def all_of(leaves: Leaves) -> Any:
        value, key = env.env(leaves), make_key(0)
        state = value.init(key)
        action = value.action_space.sample(key)
        info = value.advance(state, action, value.noise(key))[-1]
        return state, value.observe(state), value.action_mask(state), info

    shapes = jax.eval_shape(all_of, [jax.ShapeDtypeStruct(*leaf) for leaf in env.leaves])
    return tuple(jax.tree.structure(part) for part in shapes)  # type: ignore[return-value]  # four


def key_of(words: Any) -> Key:
    """The typed keys with these words."""
    return jax.random.wrap_key_data(words, impl=jax.random.key_impl(make_key(0)))


def as_arrays(leaves: Leaves) -> list[np.ndarray]:
    """The leaves as NumPy arrays, which may share the memory of JAX's."""
    return [np.asarray(leaf) for leaf in leaves]
