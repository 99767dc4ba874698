"""Tabular environments: sampled steps follow the table, and traced fields stay traced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import advance, init, noise
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import to_arrays
from shoal.envs.toy_text.frozen_lake import FrozenLake
from shoal.envs.toy_text.taxi import Taxi

WORLDS = {
    "FrozenLake-v1": {},
    "FrozenLake8x8-v1": {"success_rate": 0.8},
    "CliffWalkingSlippery-v1": {},
    "Taxi-v4": {"is_rainy": True},
}
DRAWS = 4000


def chi_square(count, expected):
    """(statistic, degrees of freedom) over all cells that can occur."""
    possible = expected > 0
    assert count[~possible].sum() == 0
    square = np.square(count - expected)[possible] / expected[possible]
    return square.sum(), possible.sum() - np.prod(count.shape[:-1])


@pytest.mark.parametrize("name", WORLDS)
def test_sampled_steps_are_distributed_as_the_table_says(name):
    env = make(name, **WORLDS[name])
    model = jax.tree.map(np.asarray, env.model())
    pairs = np.argwhere(model.probability.max(axis=-1) < 1)[:: 1 if "Lake" in name else 7]
    state = init(env, make_key(0))

    def follow(pair, key):
        noise = jax.vmap(env.noise)(jax.random.split(key, DRAWS))
        start = state.replace(index=pair[0].astype(state.index.dtype))
        return jax.vmap(lambda n: env.transition(start, pair[1], n)[0].index)(noise)

    pairs = jnp.asarray(pairs, jnp.int32)
    seen = np.asarray(jax.jit(jax.vmap(follow))(pairs, jax.random.split(make_key(1), len(pairs))))
    number = env.observation_space.n
    count, expected = np.zeros((len(pairs), number)), np.zeros((len(pairs), number))
    for i, (s, a) in enumerate(np.asarray(pairs)):
        count[i] = np.bincount(seen[i], minlength=number)
        np.add.at(expected[i], model.next_state[s, a], DRAWS * model.probability[s, a])
    statistic, freedom = chi_square(count, expected)
    assert abs(statistic - freedom) < 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("fields", [{"desc": "SFS/FSG"}, {}])
def test_first_states_are_uniform_among_the_starts(fields):
    env = FrozenLake(**fields)
    seen = np.asarray(jax.vmap(env.init)(jax.random.split(make_key(0), 9000)).index)
    share = env.start_distribution()
    count = np.bincount(seen, minlength=len(share))
    assert (np.abs(count - 9000 * share) <= 5 * np.sqrt(9000 * share * (1 - share))).all()


def test_the_300_start_states_of_taxi_are_uniform():
    env = Taxi()
    seen = np.asarray(jax.vmap(env.init)(jax.random.split(make_key(0), 60_000)).index)
    count = np.bincount(seen, minlength=500)
    assert (count > 0).sum() == 300 and np.square(count[count > 0] - 200).sum() / 200 < 299 + 5 * np.sqrt(2 * 299)


def test_probabilities_are_those_of_each_member_of_a_population():
    rates = jnp.array([0.2, 0.5, 1.0])
    probability = jax.jit(jax.vmap(lambda rate: FrozenLake(success_rate=rate).model().probability[0, 1]))(rates)
    np.testing.assert_allclose(probability, [[0.4, 0.2, 0.4], [0.25, 0.5, 0.25], [0, 1, 0]], rtol=1e-6)

    def index_after_step(rate):
        # Action "down" at the start with noise 0.3: slips to the left (stays), goes down, or slips to the right.
        env = FrozenLake(success_rate=rate)
        return env.transition(init(env, make_key(0)), jnp.int32(1), jnp.float32(0.3))[0].index

    assert jax.vmap(index_after_step)(rates).tolist() == [0, 4, 4]


def test_hyperparameters_change_without_recompilation():
    traced = []

    @jax.jit
    def step(env):
        traced.append(env)
        return env.transition(init(env, make_key(0)), jnp.int32(2), jnp.float32(0.5))[1]

    assert step(to_arrays(FrozenLake(frozen_reward=-1.0))) == -1
    assert step(to_arrays(FrozenLake(success_rate=0.9, frozen_reward=-2.0))) == -2
    assert len(traced) == 1


def test_a_table_is_made_once():
    one, other = FrozenLake(success_rate=0.5), FrozenLake(max_steps=7)
    assert one.outcomes is other.outcomes and one.outcomes.words is other.outcomes.words
    assert FrozenLake(desc="SFFF/FHFH/FFFH/HFFG").outcomes is one.outcomes


def test_states_are_counted_in_the_smallest_dtype():
    for name, dtype in (("FrozenLake8x8-v1", np.uint8), ("Taxi-v4", np.uint16), ("CliffWalking-v1", np.uint8)):
        env = make(name)
        obs, state = env.reset(make_key(0))
        assert obs.dtype == state.index.dtype == env.observation_space.dtype == dtype


def test_states_of_a_large_map_use_a_wide_enough_dtype():
    rows = ["F" * 300] * 300
    rows[0], rows[-1] = "S" + rows[0][1:], rows[0][1:] + "G"
    env = FrozenLake(desc=tuple(rows), is_slippery=False)
    state, reward, terminated, *_ = advance(
        env, init(env, make_key(0)).replace(index=jnp.uint32(300 * 300 - 2)), jnp.int32(2), None
    )
    assert (state.index, reward, terminated) == (300 * 300 - 1, 1, True)


def test_a_deterministic_table_samples_no_noise():
    for name in ("CliffWalking-v1", "Taxi-v4"):
        assert noise(make(name), make_key(0)) is None
    assert noise(FrozenLake(is_slippery=False), make_key(0)) is None
