"""Fetch against MiniGrid's: steps and layouts."""

import pytest

from parity.minigrid import harness, walker
from shoal.envs.minigrid.fetch import WAYS_TO_SAY
from shoal.grid.cells import COLORS, OBJECTS, cell, color_of, object_of

IDS = [f"MiniGrid-Fetch-{name}-v0" for name in ("5x5-N2", "6x6-N2", "8x8-N3")]


def is_meant(env, thing):
    return (thing.type, thing.color) == (env.targetType, env.targetColor)


def pick_up(env, meant):
    """Go to a thing that the mission names, or to another, and pick it up."""
    for i, thing in enumerate(env.grid.grid):
        if thing is not None and thing.type != "wall" and is_meant(env, thing) == meant:
            return walker.use(env, (i % env.width, i // env.width), walker.PICKUP)
    return None


def fields_of(env):
    text = env.mission.replace(f"{env.targetColor} {env.targetType}", "{} {}")
    return {"target": cell(env.targetType, env.targetColor), "wording": WAYS_TO_SAY.index(text)}


FAMILY = harness.Family(
    task_of=lambda s: {"targetType": OBJECTS[object_of(s.target)], "targetColor": COLORS[color_of(s.target)]},
    fields_of=fields_of,
    scripts=(lambda env: pick_up(env, True), lambda env: pick_up(env, False)),
    fails=True,
)


@pytest.mark.parametrize("env_id", IDS)
def test_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY)


@pytest.mark.long
@pytest.mark.parametrize("env_id", IDS)
def test_many_steps_match_minigrid(env_id):
    harness.assert_steps_match(env_id, FAMILY, steps=harness.LONG)
