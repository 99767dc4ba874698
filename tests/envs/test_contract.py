"""Every registered environment keeps the contract of `check_env`.

The whole check compiles about twelve programs. Of several names for one class it therefore runs only for the name with
the smallest state; for the other names only shapes and spaces are checked, without compilation. Of ids that differ only
in a final number, such as bsuite's 468 ids, only the first and the last are checked.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import names_of_each_class, smallest
from shoal.core.checks import check_env
from shoal.core.env import Env, check_fields
from shoal.core.names import ranges
from shoal.core.registry import ENVS, make
from shoal.core.spaces import misfit
from shoal.core.struct import number_fields, to_arrays
from shoal.core.wrappers.randomize import Randomize
from shoal.core.wrappers.sticky_actions import StickyActions
from shoal.envs.classic.cartpole import CartPole

# Those of which all hooks compile quickly.
ONE_OF_EACH_FAMILY = (
    "CartPole-v1",
    "bsuite/umbrella_length/0",
    "GridWorld-v0",
    "BernoulliBandit-v0",
    "MinAtar/Breakout-v0",
    "MiniGrid-Empty-5x5-v0",
    "PlanarReacher-v0",
    "Probe-Mask-v0",
    "CliffWalking-v1",
    "BabyAI-GoToObjS4-v0",
    "MFOS/Chicken-NL-v0",
)
# Every family, every base class and every kind of space is met in these; see the test below.
QUICK = (
    "Pendulum",
    "BernoulliBandit",
    "Blackjack",
    "CliffWalking",
    "DigitsBandit",
    "RewardNoise",
    "GridWorld",
    "Breakout",
    "GoToObject",
    "GoToLocal",
    "ObstructedMaze1D",
    "PlanarReacher",
    "ConstantReward",
    "TwoDials",
    "Fork",
    "PrisonersDilemma",
    "CartPoleGoal",
    "CheapTalkCartPole",
)
HOOKS = {name for name, hook in vars(Env).items() if callable(hook) or isinstance(hook, property)} - {"__post_init__"}
# Environments that once failed to trace in float64, or changed a dtype there.
ONCE_BROKEN_IN_FLOAT64 = ("MultiRoom", "MetaMaze", "CartPole", "DiscountingChain", "MemoryChain", "UmbrellaChain")
NAMES = [name for members in ranges(ENVS).values() for name in sorted({members[0], members[-1]})]


def classes(*quick):
    """Names of each class, as parameters; slow except for the given classes."""
    return [
        pytest.param(*case.values, id=case.id, marks=[] if case.id in quick else pytest.mark.slow)
        for case in names_of_each_class()
    ]


def kinds(cls):
    """The family, the base classes that define hooks, and the kinds of spaces of an environment."""
    env = next(entry for entry in ENVS.values() if entry.cls is cls).build()
    bases = {base.__name__ for base in cls.__mro__[1:] if issubclass(base, Env) and HOOKS & {*vars(base)}}
    spaces = {(what, type(getattr(env, f"{what}_space")).__name__) for what in ("observation", "action")}
    return bases | spaces | {cls.__module__.split(".")[2]}


def test_the_quickly_checked_classes_cover_every_kind():
    every = {entry.cls for entry in ENVS.values()}
    quick = {cls for cls in every if cls.__name__ in QUICK}
    assert {cls.__name__ for cls in quick} == set(QUICK)
    assert set().union(*map(kinds, every)) == set().union(*map(kinds, quick))


@pytest.mark.parametrize("names", classes(*QUICK))
@pytest.mark.sampled(12)
def test_a_registered_environment_keeps_the_contract(names):
    check_env(smallest(names))


@pytest.fixture
def float64():
    """JAX with 64 bits. A constant is a float64 then and may meet a float32, which its usual promotion allows."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ONE_OF_EACH_FAMILY)
def test_one_environment_of_each_family_keeps_the_contract_in_float64(name, float64):
    check_env(make(name))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_environment_keeps_the_contract_in_float64(name, float64):
    check_env(make(name))


@pytest.mark.parametrize("names", classes(*QUICK, *ONCE_BROKEN_IN_FLOAT64))
def test_states_and_observations_keep_their_shapes_in_float64(names, float64):
    check_shapes(to_arrays(make(names[0])))


def test_every_family_has_an_environment_in_the_float64_test():
    families = {ENVS[name].cls.__module__.split(".")[2] for name in ENVS}
    assert {ENVS[name].cls.__module__.split(".")[2] for name in ONE_OF_EACH_FAMILY} == families


@pytest.mark.sampled(40)
@pytest.mark.parametrize("name", NAMES)
def test_every_name_builds_an_environment_whose_shapes_match_its_spaces(name):
    check_shapes(make(name))


def check_shapes(env):
    key = jax.eval_shape(lambda: jax.random.key(0))
    obs, state = jax.eval_shape(env.reset, key)
    assert misfit(env.observation_space, obs) is None
    action = jax.eval_shape(env.action_space.sample, key)
    after = jax.eval_shape(lambda s, a, k: env.advance(s, a, env.noise(k))[0], state, action, key)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert [(x.shape, x.dtype) for x in jax.tree.leaves(after)] == [(x.shape, x.dtype) for x in jax.tree.leaves(state)]
    assert env.max_steps is None or env.max_steps > 0


@pytest.mark.parametrize(
    "name, size",
    [
        ("MetaMaze-v0", "maze_size"),
        ("PlanarReacher-v0", "num_joints"),
        ("PlanarSwimmer-v0", "num_urchins"),
        ("Doors-v0", "doors"),
    ],
)
def test_sizes_may_be_numpy_integers(name, size):
    env = make(name)
    object.__setattr__(env, size, np.int64(getattr(env, size)))  # what type checks, which run in tests alone, refuse
    env.__post_init__()


# The words in which environments refuse a number.
REFUSALS = "is out of range|is not a valid|lies outside|needs both|is above reset_high"


def constants():
    """(environment, name, field) of every number of every class of environments."""
    names = {}
    for name, entry in ENVS.items():
        names.setdefault(entry.cls, name)
    return [(env, name, f) for name in names.values() for env in [make(name)] for f in number_fields(env)]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e39, np.float32("nan"), np.asarray([1.0, np.nan])])
def test_no_number_that_is_not_finite_enters_any_field_of_any_environment(bad):
    cases = constants()
    assert len(cases) > 200
    for env, name, field in cases:
        for change in (env.replace, partial(make, name)):
            with pytest.raises(ValueError, match=REFUSALS):
                change(**{field: bad})


@pytest.mark.parametrize("bad", [np.float32("nan"), np.asarray([1.0, np.inf], np.float32)])
def test_values_that_jax_made_are_checked_before_they_are_used(bad):
    for env, _, field in constants():
        made = jax.tree_util.tree_map_with_path(lambda path, x, f=field: bad if path[0].name == f else x, env)
        check_fields(env)
        if getattr(env, field) is not None:
            with pytest.raises(ValueError, match=REFUSALS):
                check_fields(made)


def test_values_made_inside_of_jit_and_vmap_are_made_as_before():
    made = jax.vmap(lambda gravity: StickyActions(CartPole(gravity=gravity)))(jnp.asarray([5.0, jnp.nan]))
    assert made.env.gravity.shape == (2,)
    with pytest.raises(ValueError, match=r"CartPole\.gravity=nan is out of range: give a finite number"):
        check_fields(made)
    check_fields(jax.jit(lambda gravity: CartPole(gravity=gravity))(5.0))


def test_samples_of_randomize_are_checked_before_a_run():
    randomized = Randomize(CartPole(), lambda key: CartPole(gravity=jnp.log(jax.random.uniform(key) - 0.5)))
    with pytest.raises(ValueError, match=r"CartPole\.gravity=nan is out of range"):
        check_fields(randomized)
    check_fields(Randomize(CartPole(), lambda key: CartPole(gravity=jax.random.uniform(key, minval=5, maxval=15))))
