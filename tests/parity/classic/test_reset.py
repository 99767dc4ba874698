"""Starting states of the classic-control environments, in distribution, against Gymnasium's resets."""

import jax
import numpy as np
import pytest
import scipy.stats

from parity.classic.replay import reference
from shoal.core.keys import make_key
from shoal.core.registry import make

CASES = [
    ("CartPole-v1", {}, None),
    ("CartPole-v1", {"reset_low": -0.3, "reset_high": 0.1}, {"low": -0.3, "high": 0.1}),
    ("Acrobot-v1", {}, None),
    ("Acrobot-v1", {"reset_low": -0.2, "reset_high": 0.3}, {"low": -0.2, "high": 0.3}),
    ("MountainCar-v0", {}, None),
    ("MountainCar-v0", {"reset_low": -0.7, "reset_high": -0.5}, {"low": -0.7, "high": -0.5}),
    ("MountainCarContinuous-v0", {}, None),
    ("MountainCarContinuous-v0", {"reset_low": -0.7, "reset_high": -0.5}, {"low": -0.7, "high": -0.5}),
    ("Pendulum-v1", {}, None),
    ("Pendulum-v1", {"reset_theta": 0.5, "reset_theta_dot": 2.0}, {"x_init": 0.5, "y_init": 2.0}),
]


@pytest.mark.parametrize("name, fields, options", CASES)
def test_starting_states_are_distributed_as_in_gymnasium(name, fields, options):
    theirs = reference(name).unwrapped
    sample = np.array([np.copy((theirs.reset(options=options), theirs.state)[1]) for _ in range(2000)], np.float64)
    states = jax.jit(jax.vmap(make(name, **fields).init))(jax.random.split(make_key(0), 5000))
    columns = [np.asarray(leaf) for leaf in jax.tree.leaves(states) if leaf.dtype == np.float32]
    assert (np.asarray(states.time) == 0).all()
    for ours, reference_column in zip(columns, sample.T, strict=False):
        assert scipy.stats.ks_2samp(ours, reference_column).pvalue > 1e-3
    for a, b in zip(columns[: sample.shape[1]], columns[1 : sample.shape[1]], strict=False):
        if a.std() > 0 and b.std() > 0:
            assert abs(np.corrcoef(a, b)[0, 1]) < 0.06  # four standard errors of independent columns


@pytest.mark.parametrize("name", sorted({name for name, *_ in CASES}))
def test_spaces_and_time_limits_equal_gymnasiums(name):
    theirs, ours = reference(name), make(name)
    low, high = ours.observation_space.bounds()
    np.testing.assert_array_equal(low, theirs.observation_space.low)
    np.testing.assert_array_equal(high, theirs.observation_space.high)
    if hasattr(theirs.action_space, "n"):
        assert ours.action_space.n == theirs.action_space.n
    else:
        low, high = ours.action_space.bounds()
        np.testing.assert_array_equal(low, theirs.action_space.low)
        np.testing.assert_array_equal(high, theirs.action_space.high)
    assert ours.max_steps == theirs.spec.max_episode_steps
