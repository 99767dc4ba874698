"""ObstructedMaze: the facts of its docstrings, invalid input, and the difference between versions 0 and 1."""

import jax.numpy as jnp
import numpy as np
import pytest

from maps import first_state, layouts, play
from shoal.core.registry import make
from shoal.envs.minigrid.obstructed_maze import ObstructedMaze
from shoal.grid.cells import EMPTY, cell

BLUE_BALL, GREEN_BALL, GREY_BOX = (
    int(each) for each in (cell("ball", "blue"), cell("ball", "green"), cell("box", "grey"))
)
LIMITS = {
    "1Dl": 288,
    "1Dlh": 288,
    "1Dlhb": 288,
    "2Dl": 576,
    "2Dlh": 576,
    "2Dlhb": 576,
    "1Q": 720,
    "2Q": 1584,
    "Full": 3600,
}


def mazes(name):
    return layouts(make(f"MiniGrid-ObstructedMaze-{name}"), 500)


def count(grids, kind):
    return (grids & 15 == kind).sum((1, 2))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", LIMITS)
def test_limits_and_missions_are_those_of_minigrid(name):
    env = make(f"MiniGrid-ObstructedMaze-{name}-v0")
    state = first_state(env)
    assert state.grid.shape == ((11, 6) if name[:2] == "1D" else (16, 16)) and env.max_steps == LIMITS[name]
    assert env.mission_text(state) == "pick up the blue ball"


def test_a_box_gives_up_its_key_and_only_the_blue_ball_counts():
    env = make("MiniGrid-ObstructedMaze-1Dlhb-v0")
    state = first_state(env)
    front = {"grid": state.grid.at[2, 2].set(0), "x": jnp.int32(1), "y": jnp.int32(2), "direction": jnp.int32(0)}

    def use(thing, action):
        before = state.replace(**{**front, "grid": state.grid.at[2, 2].set(thing)})
        return play(env, before, action)[:3]

    key = cell("key", "yellow")
    after, _, _ = use(cell("box", "grey", inside=key), "toggle")
    assert after.grid[2, 2] == key
    after, reward, terminated = use(np.uint16(GREEN_BALL), "pickup")
    assert after.grid[2, 2] == EMPTY and reward == 0 and not terminated
    _, reward, terminated = use(np.uint16(BLUE_BALL), "pickup")
    assert reward == pytest.approx(1 - 0.9 / 288) and terminated


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "keys", "boxes", "green"), [("1Dl", 1, 0, 0), ("1Dlh", 0, 1, 0), ("1Dlhb", 0, 1, 1), ("2Dl", 2, 0, 0)]
)
def test_hidden_keys_and_blocked_doors_follow_the_name(name, keys, boxes, green):
    grids = mazes(f"{name}-v0").grid
    assert (count(grids, 5) == keys).all() and (count(grids, 7) == boxes).all()
    assert ((grids == GREEN_BALL).sum((1, 2)) == green).all() and ((grids == BLUE_BALL).sum((1, 2)) == 1).all()


def test_boxes_are_grey_and_each_holds_the_key_of_a_locked_door():
    grids = mazes("Full-v1").grid
    for grid in grids[:100]:
        boxes, locked = grid[grid & 15 == 7], grid[(grid & 15 == 4) & (grid >> 7 & 3 == 2)]
        assert (boxes & 0x7F == GREY_BOX).all() and (boxes >> 9 & 15 == 5).all()
        assert sorted(boxes >> 13) == sorted(locked >> 4 & 7) and len(boxes) == 8


def test_doors_of_the_full_maze_have_all_colors_in_order():
    # Color i is on the door from the middle to side i and, i + 1 and i - 1 being its neighbors', on locked doors.
    grid = mazes("Full-v0").grid[0]
    door = {(x, y): int(grid[x, y]) for x, y in np.argwhere(grid & 15 == 4).tolist()}
    assert len(door) == 12 and len({value >> 4 & 7 for value in door.values()}) == 6
    right, left = (next(v for (x, y), v in door.items() if x == column and 5 < y < 10) for column in (10, 5))
    above, below = (next(v for (x, y), v in door.items() if y == row and 5 < x < 10) for row in (5, 10))
    colors = [value >> 4 & 7 for value in (right, below, left, above)]
    assert len(set(colors)) == 4 and all(value >> 7 == 1 for value in (right, below, left, above))  # closed, not locked
    down_from_right = next(v for (x, y), v in door.items() if y == 10 and x > 10)
    assert down_from_right >> 4 & 7 == colors[1] and down_from_right >> 7 == 2
    left_from_below = next(v for (x, y), v in door.items() if x == 5 and y > 10)
    assert left_from_below >> 4 & 7 == colors[3 - 1] and left_from_below >> 7 == 2


def test_a_ball_may_cover_a_key_in_version_0_only():
    # Four first keys, each in one of 14 or 15 free cells of which one is before the second door: 1 - (14/15)^4 = 24 %.
    covered = (count(mazes("Full-v0").grid, 7) < 8).mean()
    assert 0.15 < covered < 0.35
    assert (count(mazes("Full-v1").grid, 7) == 8).all()


def test_the_agent_starts_in_its_room():
    full = mazes("Full-v1")
    assert full.x.min() == 6 and full.x.max() == 9


@pytest.mark.slow
def test_the_agent_starts_in_its_room_of_half_a_maze():
    two = mazes("2Q-v1")
    assert two.x.min() == 11 and two.x.max() == 14 and two.y.min() == 6 and two.y.max() == 9


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "corners"),
    [
        ("Full-v0", {(0, 0), (0, 2), (2, 0), (2, 2)}),
        ("1Q-v0", {(2, 0)}),
        ("2Q-v0", {(2, 0), (2, 2)}),
    ],
)
def test_the_blue_ball_is_in_a_corner_that_is_in_use(name, corners):
    grids = mazes(name).grid
    assert set(map(tuple, (np.argwhere(grids == BLUE_BALL)[:, 1:] // 5).tolist())) == corners


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_quarters": 5}, "num_quarters=5 must be 1, 2, 3 or 4"),
        ({"agent_room": (0, 0)}, r"agent_room=\(0, 0\) is closed off or a corner"),
        ({"agent_room": (1, 2), "num_quarters": 1}, r"can start in \(1, 1\), \(2, 1\)\."),
        ({"num_rooms_visited": 0}, "num_rooms_visited=0 leaves no time"),
    ],
)
def test_invalid_mazes_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        ObstructedMaze(**wrong)
