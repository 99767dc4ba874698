"""GoToDoor against MiniGrid's: steps and layouts."""

import pytest

from parity.minigrid import harness, walker
from shoal.grid.cells import cell

IDS = [f"MiniGrid-GoToDoor-{size}x{size}-v0" for size in (5, 6, 8)]


def fields_of(env):
    x, y = env.target_pos
    return {"target": cell("door", env.target_color, "closed"), "target_x": x, "target_y": y}


FAMILY = harness.Family(
    task_of=lambda s: {"target_pos": (int(s.target_x), int(s.target_y))},
    fields_of=fields_of,
    scripts=(lambda env: walker.use(env, env.target_pos, walker.DONE),),
    fails=True,
)


@pytest.mark.parametrize("env_id", IDS)
def test_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY, steps=harness.LONG)
