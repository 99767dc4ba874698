"""Every registered environment keeps the contract, by being registered.

The whole check compiles a dozen programs, so of several names for one class it runs the one with the smallest state;
the others are checked for what differs between them, shapes and spaces, without compiling anything.
"""

import jax
import pytest

from shoal.core.checks import check_env
from shoal.core.registry import ENVS
from shoal.core.spaces import misfit


def size_of_state(name):
    leaves = jax.tree.leaves(jax.eval_shape(ENVS[name].build().init, jax.random.key(0)))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def names_of_each_class():
    names = {}
    for name in ENVS:
        names.setdefault(ENVS[name].cls, []).append(name)
    return [pytest.param(names, id=cls.__name__) for cls, names in names.items()]


@pytest.mark.parametrize("names", names_of_each_class())
def test_a_registered_environment_keeps_the_contract(names):
    smallest = names[0] if len(names) == 1 else min(names, key=size_of_state)
    check_env(ENVS[smallest].build())


@pytest.mark.parametrize("name", ENVS)
def test_every_name_builds_a_world_of_the_shapes_that_its_spaces_say(name):
    env = ENVS[name].build()
    key = jax.eval_shape(lambda: jax.random.key(0))
    obs, state = jax.eval_shape(env.reset, key)
    assert misfit(env.observation_space, obs) is None
    action = jax.eval_shape(env.action_space.sample, key)
    after = jax.eval_shape(lambda s, a, k: env.advance(s, a, env.noise(k))[0], state, action, key)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert [(x.shape, x.dtype) for x in jax.tree.leaves(after)] == [(x.shape, x.dtype) for x in jax.tree.leaves(state)]
    assert env.max_steps is None or env.max_steps > 0
