"""FrozenLake against Gymnasium's: every entry of the table, its maps, its episodes."""

import numpy as np
import pytest
from gymnasium.envs.toy_text import frozen_lake as theirs

from parity.toy_text.tables import assert_same_run, assert_same_table, assert_same_values, reference
from shoal.core.registry import make
from shoal.envs.toy_text.lakes import MAPS, generate_random_map

pytestmark = pytest.mark.sampled(2)

NAMES = ("FrozenLake-v1", "FrozenLake8x8-v1")
SETTINGS = [{}, {"is_slippery": False}, {"success_rate": 0.75}, {"success_rate": 1.0}, {"success_rate": 0.0}]
LAKES = [("SG",), ("SFS", "HFG", "GFF"), ("FFFFS", "FHHHF", "GFFHF")]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("settings", SETTINGS)
def test_the_table_equals_gymnasium(name, settings):
    assert_same_table(make(name, **settings), reference(name, **settings))


@pytest.mark.parametrize("lake", [*LAKES, generate_random_map(6, 0.7, seed=5)])
@pytest.mark.parametrize("is_slippery", [False, True])
def test_the_table_of_any_map_equals_gymnasium(lake, is_slippery):
    settings = {"is_slippery": is_slippery}
    assert_same_table(
        make("FrozenLake-v1", desc=lake, **settings), reference("FrozenLake-v1", desc=list(lake), **settings)
    )


def test_the_reward_schedule_equals_gymnasium():
    env = make("FrozenLake-v1", goal_reward=10, hole_reward=-5, frozen_reward=-1)
    assert_same_table(env, reference("FrozenLake-v1", reward_schedule=(10, -5, -1)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_slippery", [False, True])
def test_planning_equals_gymnasium(name, is_slippery):
    env = make(name, is_slippery=is_slippery)
    value = assert_same_values(env, reference(name, is_slippery=is_slippery))
    if name == "FrozenLake-v1" and not is_slippery:
        assert value[0] == pytest.approx(0.99**5)  # six steps around the holes


@pytest.mark.parametrize("name", NAMES)
def test_episodes_on_slippery_ice_equal_gymnasium(name):
    actions = np.random.default_rng(0).choice(4, 20_000, p=[0.1, 0.4, 0.4, 0.1])
    seen = assert_same_run(name, 20_000, actions=actions)
    assert seen.terminated.sum() > 300 and seen.reward.sum() > 0


def test_episodes_that_reach_the_time_limit_equal_gymnasium():
    # Left and up alternate in the corner of ice without slipping: only the limit ends an episode.
    seen = assert_same_run("FrozenLake-v1", 350, actions=np.tile([0, 3], 175), is_slippery=False)
    assert np.flatnonzero(seen.truncated).tolist() == [99, 199, 299]
    seen = assert_same_run("FrozenLake8x8-v1", 350, actions=np.tile([0, 3], 175), is_slippery=False)
    assert np.flatnonzero(seen.truncated).tolist() == [199]


def test_the_named_maps_are_gymnasiums():
    assert {name: list(rows) for name, rows in MAPS.items()} == theirs.MAPS


@pytest.mark.parametrize("size", [2, 4, 8, 11])
@pytest.mark.parametrize("p", [0.5, 0.8, 1.0])
def test_random_maps_of_a_seed_equal_gymnasium(size, p):
    for seed in range(20):
        assert list(generate_random_map(size, p, seed)) == theirs.generate_random_map(size, p, seed)
