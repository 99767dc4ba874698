"""KeyCorridor: the facts of its docstring, invalid input, and bugs of other implementations."""

import jax.numpy as jnp
import numpy as np
import pytest

from maps import first_state, layouts, play
from shoal.core.registry import make
from shoal.envs.minigrid.key_corridor import KeyCorridor
from shoal.grid.cells import EMPTY, cell

SIZES = [("S3R1", 7, 3, 270), ("S3R2", 7, 5, 270), ("S3R3", 7, 7, 270), ("S4R3", 10, 10, 480), ("S6R3", 16, 16, 1080)]


@pytest.fixture(scope="module")
def small():
    return layouts(make("MiniGrid-KeyCorridorS3R3-v0"), 500)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "width", "height", "limit"), SIZES)
def test_limits_and_missions_are_those_of_minigrid(name, width, height, limit):
    env = make(f"MiniGrid-KeyCorridor{name}-v0")
    state = first_state(env)
    assert state.grid.shape == (width, height) and env.max_steps == limit
    assert env.mission_text(state.replace(target=jnp.asarray(cell("ball", "grey")))) == "pick up the grey ball"


def test_taking_the_ball_with_an_empty_hand_succeeds():
    env = make("MiniGrid-KeyCorridorS3R3-v0")
    state = first_state(env)
    x, y = np.argwhere(np.asarray(state.grid) == int(state.target))[0]
    before = state.replace(x=jnp.int32(x - 1), y=jnp.int32(y), direction=jnp.int32(0))
    after, reward, terminated, _ = play(env, before, "pickup")
    assert after.carrying == state.target and float(reward) == pytest.approx(1 - 0.9 / 270) and terminated
    full = before.replace(carrying=jnp.asarray(cell("key", "red")))
    after, reward, terminated, _ = play(env, full, "pickup")
    assert after.grid[x, y] == state.target and reward == 0 and not terminated


def test_every_door_is_shut_and_one_is_locked(small):
    doors = small.grid[small.grid & 15 == 4]
    assert not (doors >> 7 == 0).any()
    assert ((small.grid & 15 == 4) & (small.grid >> 7 == 2)).sum() == len(small.grid)


def test_there_are_as_many_doors_as_minigrid_makes(small):
    # Measured in MiniGrid: 6 doors in 43 % of the layouts, 7 in 35 %, 8 in 22 %; a spanning tree would have 6.
    doors = (small.grid & 15 == 4).sum((1, 2))
    shares = [(doors == n).mean() for n in (6, 7, 8)]
    assert shares == pytest.approx([0.42, 0.36, 0.22], abs=0.05) and sum(shares) == 1


def test_the_agent_starts_in_the_middle_of_the_corridor(small):
    # Room (1, 1) of 3 cells, at (2, 2) to (4, 4): its middle, and where the walls above and below were.
    assert set(zip(small.x.tolist(), small.y.tolist(), strict=True)) == {(3, 2), (3, 3), (3, 4)}


@pytest.mark.slow
def test_objects_may_lie_in_the_last_row_and_column():
    large = layouts(make("MiniGrid-KeyCorridorS4R3-v0"), 1000)
    ball, key = (np.argwhere(large.grid & 15 == number)[:, 1:] for number in (6, 5))
    assert set(ball[:, 0]) == {7, 8} and set(key[:, 0]) == {1, 2}
    assert set(ball[:, 1]) == set(key[:, 1]) == {1, 2, 4, 5, 7, 8}


def test_the_corridor_is_one_room():
    grid = np.asarray(first_state(make("MiniGrid-KeyCorridorS5R3-v0")).grid)
    assert (grid[5:8, 1:12] == EMPTY).all()


@pytest.mark.parametrize("wrong", [{"room_size": 2}, {"num_rows": 0}])
def test_too_small_rooms_and_too_few_rows_are_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}={next(iter(wrong.values()))} leaves .*: at least"):
        KeyCorridor(**wrong)


@pytest.mark.parametrize("kind", ["key", "door"])
def test_an_invalid_target_is_refused(kind):
    with pytest.raises(ValueError, match=f"obj_type='{kind}' is unknown. Choose one of: ball, box"):
        KeyCorridor(obj_type=kind)
