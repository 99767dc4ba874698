"""Playground: the facts of its docstring."""

import jax
import jax.numpy as jnp
import numpy as np

from maps import first_state, layouts
from shoal.core.keys import make_key
from shoal.core.registry import make

PLAYGROUND = make("MiniGrid-Playground-v0")


def test_limits_and_missions_are_those_of_minigrid():
    state = first_state(PLAYGROUND)
    assert state.grid.shape == (19, 19) and PLAYGROUND.max_steps == 100
    assert PLAYGROUND.mission_text(state) == ""


def test_it_holds_twelve_things_and_a_closed_door_in_every_wall():
    grids = layouts(PLAYGROUND, 500).grid
    assert (np.isin(grids & 15, (5, 6, 7)).sum((1, 2)) == 12).all()
    doors = grids & 15 == 4
    assert (doors.sum((1, 2)) == 12).all() and (grids[doors] >> 7 == 1).all()
    assert ((grids != 0) & (grids >> 9 == 0)).all()  # boxes are empty


def test_no_door_stands_in_the_last_cell_of_a_wall():
    _, x, y = np.argwhere(layouts(PLAYGROUND, 500).grid & 15 == 4).T
    assert set(np.where(x % 6 == 0, y, x) % 6) == {1, 2, 3, 4}


def test_the_reward_is_zero_and_only_the_time_limit_ends_an_episode():
    def step(state, key):
        k_action, k_step = jax.random.split(key)
        _, state, reward, terminated, truncated, _ = PLAYGROUND.step(
            k_step, state, jax.random.randint(k_action, (), 0, 7)
        )
        return state, (reward, terminated, truncated)

    start = first_state(PLAYGROUND)
    run = jax.jit(lambda start, keys: jax.lax.scan(step, start, keys)[1])
    reward, terminated, truncated = run(start, jax.random.split(make_key(1), 100))
    assert not reward.any() and not terminated.any()
    assert np.array_equal(truncated, jnp.arange(1, 101) == 100)
