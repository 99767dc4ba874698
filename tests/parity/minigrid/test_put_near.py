"""PutNear against MiniGrid's: steps and layouts."""

import pytest

from parity.minigrid import harness, walker
from parity.minigrid.reference import find
from shoal.grid.cells import COLORS, OBJECTS, cell, color_of, object_of

IDS = ["MiniGrid-PutNear-6x6-N2-v0", "MiniGrid-PutNear-8x8-N3-v0"]
AROUND = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy]


def fields_of(env):
    moved, target = cell(env.move_type, env.moveColor), cell(env.target_type, env.target_color)
    x, y = env.target_pos
    return {"moved": moved, "target": target, "target_x": x, "target_y": y}


def task_of(s):
    kind, color = OBJECTS[object_of(s.moved)], COLORS[color_of(s.moved)]
    return {"target_pos": (int(s.target_x), int(s.target_y)), "move_type": kind, "moveColor": color}


def put_near(env):
    """Pick up what is to be moved, and drop it in a free cell near the target."""
    if env.carrying is None:
        return take(env)
    near = [(env.target_pos[0] + dx, env.target_pos[1] + dy) for dx, dy in AROUND]
    tries = (walker.use(env, cell, walker.DROP) for cell in near if env.grid.get(*cell) is None)
    return next((action for action in tries if action is not None), None)


def put_anywhere(env):
    """Pick up what is to be moved, and try to drop it at once."""
    return take(env) if env.carrying is None else walker.DROP


def take_the_target(env):
    return walker.use(env, env.target_pos, walker.PICKUP)


def take(env):
    try:
        return walker.use(env, find(env, env.move_type, env.moveColor), walker.PICKUP)
    except ValueError:  # a box that was opened is gone
        return None


FAMILY = harness.Family(
    task_of=task_of, fields_of=fields_of, scripts=(put_near, put_near, put_anywhere, take_the_target), fails=True
)


@pytest.mark.parametrize("env_id", IDS)
def test_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY, steps=harness.LONG)
