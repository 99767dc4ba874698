"""GoToDoor: the action `done` beside the right door."""

import numpy as np
import pytest

from maps import at, drawn, layouts, play
from shoal import make
from shoal.envs.minigrid.go_to_door import GoToDoor, GoToState
from shoal.grid.cells import EMPTY, WALL, cell

GREEN = cell("door", "green", "closed")
DOORS = {letter: cell("door", color, "closed") for letter, color in zip("RBY", ("red", "blue", "yellow"), strict=True)}
DOORS["N"] = GREEN


def room(picture, x, y):
    return drawn(GoToState, picture, DOORS, target=GREEN, target_x=x, target_y=y)


@pytest.mark.parametrize("turns", ["", "left ", "left left ", "right "])
def test_done_beside_the_door_succeeds_whichever_way_the_agent_faces(turns):
    state = room("##N## #.>.# R...B #...# ##Y##", 2, 0)
    _, reward, terminated, _ = play(GoToDoor(), state, turns + "done")
    assert terminated and reward == pytest.approx(1 - 0.9 * (turns.count(" ") + 1) / 100)


@pytest.mark.parametrize("picture", ["##N## #>..# R...B #...# ##Y##", "##N## #...# R.^.B #...# ##Y##"])
def test_done_anywhere_else_ends_the_episode_without_reward(picture):
    assert play(GoToDoor(), room(picture, 2, 0), "done")[1:] == (0, True, False)


def test_toggling_opens_the_door_and_ends_the_episode_without_reward():
    state, *result = play(GoToDoor(), room("##N## #.^.# R...B #...# ##Y##", 2, 0), "toggle")
    assert result == [0, True, False]
    assert state.grid[2, 0] == cell("door", "green", "open")


def test_facing_the_door_is_not_enough():
    state = room("##N## #.^.# R...B #...# ##Y##", 2, 0)
    assert play(GoToDoor(), state, "forward pickup drop left right")[1:] == (0, False, False)


def test_a_room_may_be_smaller_than_the_grid_and_lies_in_its_corner():
    states = layouts(make("MiniGrid-GoToDoor-8x8-v0"), 200)
    sizes = set()
    for grid in states.grid:
        walls = np.argwhere(grid == WALL)
        width, height = walls.max(0) + 1
        sizes.add((int(width), int(height)))
        assert (grid[width:] == EMPTY).all() and (grid[:, height:] == EMPTY).all()
        assert (grid[1 : width - 1, 1 : height - 1] == EMPTY).all()
    assert sizes == {(w, h) for w in range(5, 9) for h in range(5, 9)}


def test_every_wall_has_a_closed_door_of_another_color_away_from_the_corners():
    states = layouts(make("MiniGrid-GoToDoor-8x8-v0"), 200)
    for i, grid in enumerate(states.grid):
        width, height = np.argwhere(grid == WALL).max(0) + 1
        doors = np.argwhere(grid & 15 == 4)
        colors = {int(grid[x, y]) >> 4 & 7 for x, y in doors}
        assert len(doors) == 4 and len(colors) == 4
        assert (
            sorted((int(x in (0, width - 1)), int(y in (0, height - 1))) for x, y in doors)
            == [(0, 1)] * 2 + [(1, 0)] * 2
        )
        assert all(2 <= x <= width - 3 or 2 <= y <= height - 3 for x, y in doors)
        assert (grid[doors[:, 0], doors[:, 1]] >> 7 & 3 == 1).all()
        assert grid[states.target_x[i], states.target_y[i]] == states.target[i]


def test_the_mission_names_the_color_of_the_door():
    level = make("MiniGrid-GoToDoor-6x6-v0")
    states = layouts(level)
    names = {at(states, i).target.item() >> 4 & 7: level.mission_text(at(states, i)) for i in range(64)}
    colors = ("red", "green", "blue", "purple", "yellow", "grey")
    assert names == {i: f"go to the {color} door" for i, color in enumerate(colors)}


def test_a_room_too_small_for_doors_is_refused():
    with pytest.raises(ValueError, match="size=4 leaves no place for a door"):
        GoToDoor(size=4)
