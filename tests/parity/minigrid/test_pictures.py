"""Tiles and pictures are equal to MiniGrid's in every byte."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minigrid.core.grid import Grid
from minigrid.core.world_object import Goal, WorldObj

from parity.minigrid.reference import inject, make_reference
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.grid.cells import COLORS, OBJECTS, STATES
from shoal.grid.level import GridState, begin
from shoal.grid.tiles import atlas

pytestmark = pytest.mark.sampled

ALL_COLORS, NOBODY_AND_DIRECTIONS = range(6), (None, 0, 1, 2, 3)
LEVELS = ("MiniGrid-Empty-8x8-v0", "MiniGrid-DoorKey-6x6-v0", "MiniGrid-RedBlueDoors-6x6-v0")  # one is oblong


def wrong_tiles(size, colors=ALL_COLORS, agents=NOBODY_AND_DIRECTIONS):
    """(how many tiles were compared, the codes of those that differ); lava and floors of no color are drawn once."""
    ours, codes, wrong = atlas(size), [], []
    for number, name in enumerate(OBJECTS):
        for color in colors if name in ("wall", "floor", "door", "key", "ball", "box", "goal") else (0,):
            for state in range(len(STATES)) if name == "door" else (0,):
                thing = Goal(COLORS[color]) if name == "goal" else WorldObj.decode(number, color, state)
                for agent in agents:
                    for highlight in (False, True):
                        code = number | color << 4 | state << 7 | (0 if agent is None else agent + 1) << 9
                        codes.append(code | highlight << 12)
                        theirs = Grid.render_tile(thing, agent, highlight, size).astype(np.uint8)
                        if not np.array_equal(ours.tiles[ours.number[codes[-1]]], theirs):
                            wrong.append(codes[-1])
    return len(codes), wrong


@pytest.mark.parametrize("size", [1, 3, 8])
def test_every_tile_is_minigrids(size):
    # 7 colored objects, doors in 3 states, and unseen, empty, lava, agent; 5 times for who stands there, 2 for light.
    assert wrong_tiles(size) == ((6 * (6 + 3) + 4) * 5 * 2, [])


def test_large_tiles_are_minigrids():
    assert wrong_tiles(32, colors=[3], agents=(None, 1)) == (13 * 2 * 2, [])


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 4, 5, 7, 11, 16, 24, 32, 48])
def test_every_tile_is_minigrids_at_every_size(size):
    assert wrong_tiles(size)[1] == []


@pytest.fixture(scope="module", params=LEVELS)
def sides(request):
    """The same grid with random objects on both sides."""
    env, reference = make(request.param), make_reference(request.param, render_mode="rgb_array")
    rng = np.random.default_rng(3)

    def scenes(n):
        for _ in range(n):
            state = random_state(rng, env.shape)
            agent = (int(state.x), int(state.y), int(state.direction))
            put = {"mission": "", "task": {}, "max_steps": 100, "carrying": int(state.carrying)}
            inject(reference, np.asarray(state.grid), agent, **put)
            yield state, reference

    return env, scenes


def random_state(rng, shape):
    """A state with random objects in all cells: more than any level has."""
    kinds = np.array([1, 1, 1, 1, 1, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9])
    grid = rng.choice(kinds, shape).astype(np.uint16)
    colored = np.isin(grid, [3, 4, 5, 6, 7])
    grid |= np.where(colored, rng.integers(0, 6, shape) << 4, 0).astype(np.uint16)
    grid |= np.where(grid & 15 == 4, rng.integers(0, 3, shape) << 7, 0).astype(np.uint16)
    grid |= np.where(grid & 15 == 2, 5 << 4, np.where(grid & 15 == 8, 1 << 4, 0)).astype(np.uint16)
    x, y, direction = rng.integers(0, shape[0]), rng.integers(0, shape[1]), rng.integers(0, 4)
    state = GridState(**begin(grid, int(x), int(y), int(direction)))
    return state.replace(carrying=jnp.asarray(rng.choice([1, 5 | 2 << 4, 6 | 3 << 4, 7 | 4 << 4]), jnp.uint16))


def test_render_is_minigrids(sides):
    env, scenes = sides
    for state, reference in scenes(12):
        np.testing.assert_array_equal(env.render(state), reference.render())


@pytest.mark.parametrize("size", [8, 11])
def test_pictures_of_other_sizes_are_minigrids(sides, size):
    env, scenes = sides
    plain = env.replace(highlight=False, tile_size=size)
    for state, reference in scenes(6):
        np.testing.assert_array_equal(env.replace(tile_size=size).render(state), reference.get_frame(tile_size=size))
        np.testing.assert_array_equal(plain.render(state), reference.get_frame(tile_size=size, highlight=False))


@pytest.mark.parametrize("view_size", [3, 7])
def test_the_picture_of_the_agent_view_is_that_of_minigrid(sides, view_size):
    env, scenes = sides
    env = env.replace(agent_pov=True, tile_size=8, view_size=view_size)
    for state, reference in scenes(12):
        reference.agent_view_size = view_size
        theirs = reference.get_frame(tile_size=8, agent_pov=True)
        reference.agent_view_size = 7
        np.testing.assert_array_equal(env.render(state), theirs)


def test_pictures_of_a_played_episode_equal_those_of_minigrid():
    env, reference = make("MiniGrid-DoorKey-5x5-v0", tile_size=8), make_reference("MiniGrid-DoorKey-5x5-v0")
    state, step = env.init(make_key(4)), jax.jit(env.step)
    agent = (int(state.x), int(state.y), int(state.direction))
    inject(reference, np.asarray(state.grid), agent, mission="", task={}, max_steps=250)
    for action in np.random.default_rng(0).choice(7, 60, p=[0.15, 0.15, 0.4, 0.1, 0.05, 0.1, 0.05]):
        _, state, _, terminated, _, _ = step(make_key(0), state, jnp.int32(action))
        reference.step(int(action))
        np.testing.assert_array_equal(env.render(state), reference.get_frame(tile_size=8))
        if terminated:
            break
    assert int(state.time) > 20
