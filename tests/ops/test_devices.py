"""Reductions over the devices of one agent, on a mapped axis of that name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.ops.devices import DATA, device_key, device_share, standardized
from shoal.ops.running import RunningStats
from shoal.rollouts.episodes import EpisodeStats

DEVICES = 3


def on_devices(function, *args):
    """The results of all devices, [D, ...]."""
    return jax.vmap(function, axis_name=DATA)(*args)


def test_statistics_are_those_of_the_data_of_all_devices():
    data = np.random.default_rng(0).normal(1e4, 0.1, (DEVICES, 5, 4)).astype(np.float32)  # far from 0
    data[1] += 1
    stats = on_devices(lambda x: RunningStats.zero(x[0]).update(x, devices=DEVICES), jnp.asarray(data))
    exact = data.astype(float).reshape(-1, 4)
    for d in range(DEVICES):
        assert stats.count[d] == 15
        np.testing.assert_allclose(stats.mean[d], exact.mean(axis=0), rtol=3e-7)
        np.testing.assert_allclose(stats.deviation[d] / 15, exact.var(axis=0), rtol=0.01)


def test_a_constant_input_has_no_deviation_on_any_number_of_devices():
    constant = jnp.full((DEVICES, 7, 1), 12345.678, jnp.float32)
    stats = on_devices(lambda x: RunningStats.zero(x[0]).update(x, devices=DEVICES), constant)
    assert stats.deviation.tolist() == [[0]] * DEVICES and np.unique(stats.mean) == np.float32(12345.678)


def test_samples_are_standardized_with_mean_and_std_of_all_devices():
    x = np.random.default_rng(1).normal(3, 2, (DEVICES, 6)).astype(np.float32)
    found = on_devices(lambda x: standardized(x, DEVICES), jnp.asarray(x))
    np.testing.assert_allclose(found, (x - x.mean()) / x.std(), rtol=1e-4, atol=1e-5)


def test_episodes_of_all_devices_are_counted():
    done = jnp.asarray([[True, False], [True, True], [False, False]])
    returns, lengths = jnp.asarray([[5.0, 7.0], [-2.0, 3.0], [9.0, 9.0]]), jnp.asarray([[1, 2], [3, 4], [5, 6]])
    stats = on_devices(lambda *xs: EpisodeStats.of(*xs).of_all(DEVICES), done, returns, lengths)
    names = [name for name in stats.__dataclass_fields__ if name != "rounding"]
    found = {name: set(np.asarray(getattr(stats, name)).tolist()) for name in names}
    assert found == {
        "count": {3},
        "return_sum": {6},  # 5 - 2 + 3
        "return_square_sum": {38},  # 25 + 4 + 9
        "return_min": {-2},
        "return_max": {5},
        "length_sum": {8},  # 1 + 3 + 4
        "resets_reused": {0},
    }


@pytest.mark.parametrize("axis", [0, 1])
def test_each_device_takes_its_own_part(axis):
    whole = np.arange(36).reshape(6, 6)
    parts = on_devices(lambda d: device_share(jnp.asarray(whole) + 0 * d, DEVICES, axis), jnp.arange(DEVICES))
    np.testing.assert_array_equal(np.concatenate(parts, axis=axis), whole)


def test_devices_have_different_keys():
    keys = on_devices(lambda d: device_key(make_key(0), DEVICES), jnp.arange(DEVICES))
    assert len({tuple(words) for words in jax.random.key_data(keys).tolist()}) == DEVICES


def test_one_device_changes_nothing():
    key = make_key(0)
    assert device_key(key, 1) is key and device_share(key, 1, 0) is key
