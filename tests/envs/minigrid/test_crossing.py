"""Crossing: rivers, each with one opening."""

import numpy as np
import pytest

from maps import first_state, layouts, reached
from shoal.core.registry import make
from shoal.envs.minigrid.crossing import Crossing
from shoal.grid.cells import EMPTY, GOAL, LAVA, WALL


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size, rivers", [(5, 1), (5, 2), (9, 6), (11, 5), (11, 8), (13, 10), (31, 28)])
def test_every_river_has_one_opening_and_there_is_a_way(size, rivers):
    env = Crossing(size=size, num_crossings=rivers)
    grids = layouts(env, 300, seed=1).grid
    inner = size - 2
    lava = (grids == LAVA)[:, 1:-1, 1:-1]
    # Columns and rows of lava cross each other: where a columns and b rows lie, a + b openings are free.
    columns, rows = (lava.sum(2) > inner // 2).sum(1), (lava.sum(1) > inner // 2).sum(1)
    assert (columns + rows == rivers).all()
    assert (lava.sum((1, 2)) == inner * rivers - columns * rows - rivers).all()
    free = ~np.pad(lava, ((0, 0), (1, 1), (1, 1)), constant_values=True)
    assert reached(free, (1, 1))[:, -2, -2].all() and (grids[:, -2, -2] == GOAL).all()


def test_rivers_may_be_walls_instead_of_lava():
    lava, wall = (first_state(make(f"MiniGrid-{kind}CrossingS9N2-v0")).grid for kind in ("Lava", "Simple"))
    np.testing.assert_array_equal(np.where(np.asarray(lava) == LAVA, WALL, lava), wall)
    assert (np.asarray(lava) == LAVA).any() and (np.asarray(wall) == EMPTY).any()


@pytest.mark.parametrize("kind, task", [("Lava", "avoid the lava"), ("Simple", "find the opening")])
def test_limits_and_tasks_are_minigrids(kind, task):
    env = make(f"MiniGrid-{kind}CrossingS11N5-v0")
    assert env.max_steps == 484
    assert env.mission_text(first_state(env)) == f"{task} and get to the green goal square"


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"size": 8}, "size=8 must be odd"),
        ({"size": 3}, "size=3 must be odd, from 5 to 31"),
        ({"size": 33}, "size=33 must be odd, from 5 to 31"),
        ({"num_crossings": 0}, "1 to 6"),
        ({"num_crossings": 7}, "num_crossings=7 does not fit into size=9: 1 to 6"),
        ({"obstacle": "water"}, "Choose one of: lava, wall"),
    ],
)
def test_impossible_layouts_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        Crossing(**fields)
