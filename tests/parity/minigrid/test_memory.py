"""Memory against MiniGrid's: steps and layouts."""

import pytest

from parity.minigrid import harness, walker

IDS = [f"MiniGrid-Memory{name}-v0" for name in ("S7", "S9", "S11", "S13", "S13Random", "S17Random")]


def task_of(s):
    x, y, mirrored = int(s.split_x), int(s.match_y), s.grid.shape[1] - 1 - int(s.match_y)
    return {"success_pos": (x, y), "failure_pos": (x, mirrored)}


FAMILY = harness.Family(
    task_of=task_of,
    fields_of=lambda env: dict(zip(("split_x", "match_y"), env.success_pos, strict=True)),
    scripts=(lambda env: walker.go_to(env, env.success_pos), lambda env: walker.go_to(env, env.failure_pos)),
    fails=True,
)


@pytest.mark.parametrize("env_id", IDS)
def test_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY, steps=harness.LONG)
