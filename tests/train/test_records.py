"""Curves of a run, against episodes counted by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.agent import Metrics
from shoal.rollout.episodes import EpisodeStats
from shoal.train.records import Records


def members(*episodes):
    """Statistics [M] of each member's (returns, lengths), among a step that ends nothing."""
    rows = [
        EpisodeStats.of(jnp.array([*(True for _ in r), False]), jnp.array([*r, 7.0]), jnp.array([*n, 5]))
        for r, n in episodes
    ]
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *rows)


def test_means_weigh_every_episode_alike_and_are_missing_where_none_ended():
    records = Records(2)
    once = members(([1.0, 2.0, 9.0], [1, 2, 3]), ([], []))
    twice = jax.tree.map(np.asarray, jax.vmap(EpisodeStats.merge)(once, members(([0.0], [10]), ([], []))))
    lines = [
        records.append(100 * (i + 1), 1.0, Metrics(stats, {}), np.array([True, True]), None)
        for i, stats in enumerate((once, twice, members(([], []), ([], []))))
    ]
    curves = records.arrays()
    np.testing.assert_array_equal(curves["train_return"], [[4.0, np.nan], [3.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(curves["train_length"], [[2.0, np.nan], [4.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(curves["episodes"], [[3, 0], [4, 0], [0, 0]])
    assert [line.get("train_return", {}).get("mean") for line in lines] == [4.0, 3.0, None]
