"""Environments do the same in an accelerator's form as in that of a CPU. The CPU runs both here."""

import jax
import numpy as np
import pytest

from environments import Tally, names_of_each_class, smallest
from shoal.core import form
from shoal.core.keys import make_key
from shoal.core.struct import to_arrays
from shoal.rollouts.rollout import Rollout

TIME_LIMIT = 4  # episodes end in each rollout, also those of environments that random actions seldom end
QUICK = ("CartPole", "Breakout", "FourRooms", "DeepSea", "Randomized")
SHORT_TRIPS = form.form_for("gpu")._replace(steps_per_trip=2)  # a small program, which compiles quickly


def classes(*quick):
    """Names of each class, as parameters; slow except for the given classes."""
    return [
        pytest.param(*case.values, id=case.id, marks=[] if case.id in quick else pytest.mark.slow)
        for case in names_of_each_class()
    ]


def with_short_episodes(env):
    """The environment with a time limit of four steps, if it has a limit that can be changed."""
    return env.replace(max_steps=TIME_LIMIT) if "max_steps" in type(env).__dataclass_fields__ else env


def two_rollouts(env, written_as, num_steps=6, num_envs=5):
    """The environment states after two rollouts with random actions, and what was recorded, in a form."""
    rollout = Rollout.for_env(env, num_envs, num_steps)

    def collect(states, key):
        k_actions, k_rollout = jax.random.split(key)
        actions = jax.vmap(jax.vmap(env.action_space.sample))(jax.random.split(k_actions, (num_steps, num_envs)))
        states, record, _ = rollout.collect(env, states, lambda o, m, action, c: (action, None, c), actions, k_rollout)
        return states, record

    def run(key):
        k_init, k_rollouts = jax.random.split(key)
        return jax.lax.scan(collect, rollout.init(env, k_init), jax.random.split(k_rollouts, 2))

    with form.using(written_as):
        return jax.jit(run)(make_key(3))


def assert_same(ours, other):
    """The same bits, but for the last digits of floating-point numbers: LLVM may fuse a product with a sum or not."""
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(other), strict=True):
        if np.issubdtype(x.dtype, np.floating):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("names", classes(*QUICK))
def test_an_environment_does_the_same_in_an_accelerators_form(names):
    env = to_arrays(with_short_episodes(smallest(names)))
    ours, other = two_rollouts(env, form.CPU), two_rollouts(env, SHORT_TRIPS)
    assert "max_steps" not in type(env).__dataclass_fields__ or (ours[1].terminated | ours[1].truncated).any()
    assert_same(ours, other)


@pytest.mark.parametrize("num_steps", [1, 3, 11])
def test_a_rollout_may_be_shorter_than_a_trip_and_need_not_be_a_multiple_of_it(num_steps):
    env = to_arrays(Tally())
    assert_same(two_rollouts(env, form.CPU, num_steps), two_rollouts(env, form.form_for("gpu"), num_steps))
