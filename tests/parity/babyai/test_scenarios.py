"""The rules of the verifier that play at random hardly meets, one scene for each, beside the reference."""

from typing import NamedTuple

import numpy as np
import pytest

from parity.babyai.harness import Ours
from parity.babyai.reference import Start, begin, fresh, packed_grid
from shoal.core.registry import make
from shoal.envs.babyai.instruction import OPEN, PICK_UP, STRICT, VERB, Instruction, padded
from shoal.envs.babyai.mission import parse
from shoal.grid.cells import EMPTY, WALL, cell
from shoal.grid.words import decode

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
BOSS, CARRYING = "BabyAI-MiniBossLevel-v0", "BabyAI-PutNextS5N2Carrying-v0"
AHEAD, ON_THE_LEFT, BEHIND, ON_THE_RIGHT = (3, 2), (2, 1), (1, 2), (2, 3)  # of the agent at (2, 2), which looks right
KEY, BALL, BOX = cell("key", "red"), cell("ball", "blue"), cell("box", "green")
THREE = {AHEAD: KEY, BEHIND: BALL, ON_THE_LEFT: BOX}
RED_DOOR, BLUE_DOOR = cell("door", "red", "closed"), cell("door", "blue", "closed")


class Scene(NamedTuple):
    """Things by their cells, the instruction, the actions, and the number of the last one."""

    things: dict[tuple[int, int], np.uint16]
    text: str
    actions: tuple[int, ...]
    won_at: int | None = None
    lost_at: int | None = None
    strict: bool = False
    env_id: str = BOSS
    carried: tuple[int, int] | None = None


SCENES = {
    "going to where the thing in the hand was": Scene(
        THREE, "go to the ball, then go to the key", (PICKUP, LEFT, LEFT, RIGHT, RIGHT), won_at=5
    ),
    "a drop of nothing forgets it": Scene(
        THREE, "go to the ball, then go to the key", (PICKUP, LEFT, DROP, LEFT, RIGHT, RIGHT, DONE)
    ),
    "going to where a box was": Scene(
        {AHEAD: BOX, BEHIND: BALL}, "go to the ball, then go to the box", (TOGGLE, LEFT, LEFT, RIGHT, RIGHT), won_at=5
    ),
    "until the next drop": Scene(
        {AHEAD: BOX, BEHIND: BALL}, "go to the ball, then go to the box", (TOGGLE, DROP, LEFT, LEFT, RIGHT, RIGHT, DONE)
    ),
    "both groups in one step": Scene(
        {AHEAD: KEY, BEHIND: BALL}, "go to the blue ball, then go to the ball", (LEFT, LEFT), won_at=2
    ),
    "one pickup is enough for two groups": Scene(
        {AHEAD: KEY}, "pick up the red object, then pick up the key", (PICKUP,), won_at=1
    ),
    "the other group first does not count": Scene(
        THREE,
        "pick up the key after you go to the ball",
        (PICKUP, LEFT, LEFT, PICKUP, RIGHT, RIGHT, DROP, PICKUP),
        won_at=8,
    ),
    "a drop does not count for the clause that it makes current": Scene(
        {AHEAD: BALL, (1, 1): KEY, (1, 3): BOX},
        "put the ball next to the key, then put the ball next to the box",
        (PICKUP, LEFT, LEFT, DROP, PICKUP, DROP),
        won_at=6,
    ),
    "only the key on the left": Scene(
        {AHEAD: KEY, ON_THE_LEFT: KEY, BEHIND: KEY},
        "pick up the red key on your left",
        (PICKUP, DROP, LEFT, LEFT, PICKUP, DROP, RIGHT, PICKUP),
        won_at=8,
    ),
    "a place is where the thing was at the start": Scene(
        {AHEAD: KEY, BEHIND: BALL},
        "go to the ball, then go to the key in front of you",
        (PICKUP, LEFT, DROP, LEFT, RIGHT),
        won_at=5,
    ),
    "a pair in any order, and what is done stays done": Scene(
        THREE, "go to the ball and go to the box", (LEFT, LEFT), won_at=2
    ),
    "a pair of the second group may not be done before": Scene(
        THREE, "go to the ball, then go to the box and go to the key", (LEFT, LEFT, RIGHT, RIGHT), won_at=4
    ),
    "an open door has to be opened again": Scene(
        {(4, 2): RED_DOOR, BEHIND: BALL},
        "go to the ball, then open the red door",
        (FORWARD, TOGGLE, LEFT, LEFT, FORWARD, RIGHT, RIGHT, FORWARD, TOGGLE, TOGGLE),
        won_at=10,
    ),
    "a strict second clause is lost with the door of the first": Scene(
        {(4, 2): RED_DOOR, (2, 4): BLUE_DOOR},
        "open the red door, then open the blue door",
        (FORWARD, TOGGLE),
        lost_at=2,
        strict=True,
    ),
    "a strict clause is lost by closing a door": Scene(
        {(4, 2): cell("door", "red", "open")}, "open the red door", (FORWARD, TOGGLE), lost_at=2, strict=True
    ),
    "a strict clause is lost with a wrong thing in the hand": Scene(
        {AHEAD: KEY, BEHIND: BALL}, "pick up the ball", (PICKUP,), lost_at=1, strict=True
    ),
    "a strict clause is not lost within a pair": Scene(
        THREE, "pick up the ball and go to the box", (PICKUP, DROP, LEFT, LEFT, PICKUP), won_at=5, strict=True
    ),
    "a drop in the first step does not count": Scene(
        {(1, 1): BALL, (3, 1): KEY}, "put the blue ball next to the red key", (DROP, PICKUP, DROP), won_at=3,
        env_id=CARRYING, carried=(1, 1),
    ),
    "a drop in the second step does": Scene(
        {(1, 1): BALL, (3, 1): KEY}, "put the blue ball next to the red key", (DONE, DROP), won_at=2,
        env_id=CARRYING, carried=(1, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_ends_as_in_the_reference(name):
    scene = SCENES[name]
    env, reference = make(scene.env_id), fresh(scene.env_id, seed=0)
    start = _start(scene, env.rooms)
    begin(reference, start)
    ours = Ours(scene.env_id, seed=0, slots=1)
    obs, states, _ = ours.begin([start])
    assert decode(obs["mission"][0]) == reference.mission
    won_at = lost_at = None
    for number, action in enumerate(scene.actions, start=1):
        _, reward, terminated, truncated, _ = reference.step(action)
        _, states, *ends = ours.step(states, np.array([action], np.int32), np.array([100], np.int32))
        assert [x.item() for x in ends] == [pytest.approx(reward), terminated, truncated]
        np.testing.assert_array_equal(states.grid[0], packed_grid(reference))
        if terminated:
            won_at, lost_at = (number, None) if reward > 0 else (None, number)
            break
    assert (won_at, lost_at) == (scene.won_at, scene.lost_at)


def _start(scene: Scene, rooms) -> Start:
    grid = np.full(rooms.shape, EMPTY, np.uint16)
    grid[:: rooms.pitch, :] = grid[:, :: rooms.pitch] = WALL
    for at, thing in scene.things.items():
        grid[at] = thing
    instruction: Instruction = padded(parse(scene.text), 2, 2)
    clauses = np.array(instruction.clauses)
    clauses[clauses[..., VERB] == 0] = 0
    may_be_strict = np.isin(clauses[..., VERB], (OPEN, PICK_UP))
    clauses[..., STRICT] = scene.strict & may_be_strict
    return Start(grid, 2, 2, 0, scene.carried, int(instruction.order), clauses, 100)
