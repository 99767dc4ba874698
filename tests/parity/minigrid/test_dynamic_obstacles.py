"""Dynamic-Obstacles against MiniGrid's: steps in which both sides' balls make the same moves, and layouts."""

import numpy as np
import pytest

from parity.minigrid import harness, walker
from parity.minigrid.reference import ObjectAt
from shoal.grid.cells import cell

pytestmark = pytest.mark.sampled

IDS = [
    "MiniGrid-Dynamic-Obstacles-5x5-v0", "MiniGrid-Dynamic-Obstacles-Random-5x5-v0",
    "MiniGrid-Dynamic-Obstacles-6x6-v0", "MiniGrid-Dynamic-Obstacles-Random-6x6-v0",
    "MiniGrid-Dynamic-Obstacles-8x8-v0", "MiniGrid-Dynamic-Obstacles-16x16-v0",
]  # fmt: skip


def balls_of(state):
    return [(int(x), int(y)) for x, y in zip(state.ball_x, state.ball_y, strict=True)]


def task_of(state):
    return {"obstacles": [ObjectAt(x, y) for x, y in balls_of(state)]}


def fields_of(reference):
    x, y = zip(*(map(int, ball.cur_pos) for ball in reference.obstacles), strict=True)
    return {"ball_x": x, "ball_y": y}


def force(reference, before, after):
    """MiniGrid's balls draw the cells to which ours went, each of which has to be one that they may go to."""
    is_free = np.array(
        [[reference.grid.get(x, y) is None for y in range(reference.height)] for x in range(reference.width)]
    )
    is_free[tuple(map(int, reference.agent_pos))] = False
    moves = []
    for (x, y), to in zip(balls_of(before), balls_of(after), strict=True):
        around = is_free[x - 1 : x + 2, y - 1 : y + 2]
        goes = to != (x, y)
        assert goes == around.any(), f"a ball at {x, y} stays or goes where it may not: {around}"
        if goes:
            assert max(abs(to[0] - x), abs(to[1] - y)) == 1 and is_free[to], f"a ball goes from {x, y} to {to}"
            is_free[x, y], is_free[to] = True, False
        moves.append(to if goes else None)
    drawn = iter(moves)

    def place_obj(ball, **_):
        to = next(drawn)
        if to is None:
            raise RecursionError("no free cell")  # what MiniGrid raises after 100 tries
        reference.put_obj(ball, *to)

    reference.place_obj = place_obj


def bump(reference):
    """Walk on until something is in the way."""
    return walker.FORWARD


FAMILY = harness.Family(task_of, fields_of, scripts=(walker.reach_goal, bump), force=force, fails=True)


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def first_and_last_ball(layouts):
    """Where the first and the last ball lie: later ones find less room."""
    x, y = layouts.fields["ball_x"][:, [0, -1]], layouts.fields["ball_y"][:, [0, -1]]
    return x * layouts.grid.shape[2] + y


def assert_same_generator(env_id, n):
    ours, theirs = harness.layouts_of_ours(env_id, 4 * n), harness.layouts_of_reference(env_id, n, fields_of=fields_of)
    statistics = [harness.cells, harness.pose, first_and_last_ball]
    for statistic in statistics:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(statistics))
    is_ball = ours.grid == cell("ball", "blue")
    assert (is_ball.sum((1, 2)) == ours.fields["ball_x"].shape[1]).all()
    rows = np.arange(len(is_ball))[:, None]
    assert is_ball[rows, ours.fields["ball_x"], ours.fields["ball_y"]].all()
    assert not is_ball[rows[:, 0], ours.x, ours.y].any()


@pytest.mark.parametrize("env_id", IDS)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 500)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 10_000)
