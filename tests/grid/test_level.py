"""What every level shares, apart from what MiniGrid's own tests of it say."""

import jax
import jax.numpy as jnp
import pytest

from shoal.core.registry import make


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


def test_a_time_limit_that_was_given_stays():
    level = make("MiniGrid-Empty-5x5-v0", max_steps=30)
    assert level.replace(size=16).max_steps == 30
    assert level.replace(size=16, max_steps=7).max_steps == 7
    assert level.replace(max_steps=None).max_steps == 100
    assert make("MiniGrid-Empty-5x5-v0").replace(size=16, max_steps=100).max_steps == 100


def test_a_traced_time_limit_stays():
    level = make("MiniGrid-Empty-5x5-v0")
    limits = jax.jit(lambda level: level.replace(size=16).max_steps)(level.replace(max_steps=jnp.int32(100)))
    assert int(limits) == 100
