"""GoToObject against MiniGrid's: steps and layouts."""

import pytest

from parity.minigrid import harness, walker
from shoal.grid.cells import cell

IDS = [f"MiniGrid-GoToObject-{size}x{size}-N2-v0" for size in (6, 8)]


def fields_of(env):
    x, y = env.target_pos
    return {"target": cell(env.targetType, env.target_color), "target_x": x, "target_y": y}


def take_it_and_stop(env):
    """Pick the target up, then stop where it lay."""
    lies_there = env.grid.get(*env.target_pos) is not None
    return walker.use(env, env.target_pos, walker.PICKUP if lies_there and env.carrying is None else walker.DONE)


FAMILY = harness.Family(
    task_of=lambda s: {"target_pos": (int(s.target_x), int(s.target_y))},
    fields_of=fields_of,
    scripts=(lambda env: walker.use(env, env.target_pos, walker.DONE), take_it_and_stop),
    fails=True,
)


@pytest.mark.parametrize("env_id", IDS)
def test_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY, steps=harness.LONG)
