"""The base class of levels: time limits, missions and edges. tests/parity compares the levels with MiniGrid."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import names_of_each_class, smallest
from maps import drawn, layouts, play
from shoal.core.registry import ENVS, make
from shoal.core.struct import struct
from shoal.grid.cells import COLORS, OBJECTS, cell
from shoal.grid.level import GridState, Level
from shoal.grid.words import decode, encode

LEVELS = [p for p in names_of_each_class() if issubclass(ENVS[p.values[0][0]].cls, Level)]


@pytest.mark.parametrize(
    ("name", "changes", "limit"),
    [
        ("MiniGrid-Empty-5x5-v0", {"size": 16}, 1024),  # 4 size^2
        ("MiniGrid-UnlockPickup-v0", {"blocked": True}, 576),  # that of BlockedUnlockPickup
        ("MiniGrid-KeyCorridorS3R3-v0", {"room_size": 6}, 1080),
        ("MiniGrid-MultiRoom-N6-v0", {"max_rooms": 8}, 160),
        ("MiniGrid-ObstructedMaze-Full-v0", {"num_rooms_visited": 4}, 576),
        ("MiniGrid-Empty-5x5-v0", {"view_size": 5}, 100),
    ],
)
def test_a_level_s_own_time_limit_follows_its_fields(name, changes, limit):
    assert make(name).replace(**changes).max_steps == make(name, **changes).max_steps == limit


def test_a_given_time_limit_is_kept():
    level = make("MiniGrid-Empty-5x5-v0", max_steps=30)
    assert level.replace(size=16).max_steps == 30
    assert level.replace(size=16, max_steps=7).max_steps == 7
    assert level.replace(max_steps=None).max_steps == 100
    assert make("MiniGrid-Empty-5x5-v0").replace(size=16, max_steps=100).max_steps == 100
    assert make("MiniGrid-Empty-5x5-v0", max_steps=100).replace(size=16).max_steps == 100  # that of a level of size 5
    copied = copy.deepcopy(make("MiniGrid-Empty-5x5-v0"))
    assert copied.replace(size=16).max_steps == 1024


def test_a_traced_time_limit_is_kept():
    level = make("MiniGrid-Empty-5x5-v0")
    limits = jax.jit(lambda level: level.replace(size=16).max_steps)(level.replace(max_steps=jnp.int32(100)))
    assert int(limits) == 100


@pytest.mark.sampled
@pytest.mark.parametrize("names", LEVELS)
def test_no_mission_is_longer_than_the_declared_length(names):
    level = smallest(names)
    missions = jax.jit(jax.vmap(level.mission))(layouts(level, 300))
    longest = max(len(decode(mission)) for mission in np.asarray(missions))
    has_one_text = level.task and "{}" not in level.task
    assert longest == level.longest_mission if has_one_text else longest <= level.longest_mission


def test_the_longest_mission_counts_the_longest_words_where_a_level_does_not_write_its_task():
    @struct
    class Quiet(Level):
        shape = property(lambda self: (4, 4))
        time_limit = property(lambda self: 10)

        def init(self, key):
            return make("MiniGrid-Empty-5x5-v0").init(key)

        def mission(self, state):
            return jnp.asarray(encode("traverse the rooms"))

    assert Quiet().longest_mission == len("matching traverse matching")
    assert make("MiniGrid-Playground-v0").longest_mission == 0
    # "get the {} key from the {} room, unlock the {} door and go to the goal" with three times "yellow".
    assert make("MiniGrid-LockedRoom-v0").longest_mission == 64 + 3 * 6
    assert make("MiniGrid-LavaGapS5-v0").longest_mission == len("avoid the lava and get to the green goal square")
    assert max(map(len, (*COLORS, *OBJECTS))) == 6


@pytest.mark.parametrize("x, y, direction", [(2, 1, 0), (1, 2, 1), (0, 1, 2), (1, 0, 3)])
def test_the_edge_of_a_grid_without_walls_is_a_wall(x, y, direction):
    level = make("MiniGrid-DoorKey-5x5-v0")
    state = drawn(GridState, "... ... ...", agent=(x, y, direction))
    after, *_ = play(level, state, "forward pickup drop toggle")
    assert (int(after.x), int(after.y)) == (x, y) and np.array_equal(after.grid, state.grid)
    after, *_ = play(level, state.replace(carrying=jnp.asarray(cell("key", "red"))), "drop")
    assert after.carrying == cell("key", "red") and np.array_equal(after.grid, state.grid)
