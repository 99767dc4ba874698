"""An instruction given as text: a new episode in the same layout, and errors for texts that the level can not hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.wrappers import TimeLimit
from shoal.grid.actions import DROP, LEFT, PICKUP, RIGHT
from shoal.grid.cells import EMPTY, WALL, cell

BOSS, LOCAL = "BabyAI-MiniBossLevel-v0", "BabyAI-GoToLocal-v0"
RED_BALL = cell("ball", "red")


def room(name, *things):
    """A level, and its first state with walls, the agent at (2, 2) that looks right, and things at positions."""
    level = make(name)
    state = jax.jit(level.init)(make_key(0))
    grid = np.full(level.shape, EMPTY, np.uint16)
    grid[:: level.rooms.pitch, :] = grid[:, :: level.rooms.pitch] = WALL
    for thing, at in things:
        grid[at] = thing
    pose = {"x": jnp.int32(2), "y": jnp.int32(2), "direction": jnp.int32(0)}
    return level, state.replace(grid=jnp.asarray(grid), **pose)


def test_an_episode_follows_the_instruction_that_was_given():
    level, state = room(BOSS, (RED_BALL, (3, 2)), (RED_BALL, (1, 2)))
    text = "go to the ball behind you, then pick up the red ball in front of you"
    state = level.with_instruction(state, text)
    assert level.mission_text(state) == text
    assert int(state.limit) == 2 * 100 and int(state.time) == 0
    step = jax.jit(lambda state, action: level.advance(state, action, None))
    ends = []
    for action in (LEFT, LEFT, RIGHT, RIGHT, PICKUP):
        state, reward, terminated, _, _ = step(state, jnp.int32(action))
        ends.append(bool(terminated))
    assert ends == [False] * 4 + [True] and float(reward) == pytest.approx(1 - 0.9 * 5 / 200)


@pytest.mark.parametrize("text", ["put a ball next to the blue box", "put a red object next to the blue box"])
def test_a_carried_thing_may_be_described_in_part(text):
    level, state = room("BabyAI-PutNextS5N2Carrying-v0", (RED_BALL, (3, 3)), (cell("box", "blue"), (5, 3)))
    state = level.with_instruction(state, text)
    state, *_ = level.advance(state, jnp.int32(LEFT), None)
    assert int(state.carrying) == RED_BALL and int(state.grid[3, 3]) == EMPTY


def test_articles_follow_from_the_level():
    level, state = room(LOCAL, (RED_BALL, (3, 2)), (cell("ball", "blue"), (5, 5)))
    assert level.mission_text(level.with_instruction(state, "go to the ball")) == "go to a ball"
    assert level.mission_text(level.with_instruction(state, "go to a red ball")) == "go to the red ball"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (LOCAL, "go to the blue ball", "'go to the blue ball': the level has no object that it describes"),
        (BOSS, "put the red ball next to a box", "the level has no object"),
        (BOSS, "go to the red ball on your left", "the level has no object"),
        (LOCAL, "pick up the red ball", 'GoToLocal has only instructions of one clause with "go to", without places'),
        (LOCAL, "go to the red ball in front of you", "BabyAI-BossLevel-v0 can have every instruction"),
        (LOCAL, "go to the red ball, then go to the red ball", "has only instructions of one clause"),
        (LOCAL, "go to the pink ball", "the word 'pink' is not in the vocabulary"),
        (LOCAL, "jump", "the word 'jump' is not in the vocabulary"),
        (LOCAL, "go to red ball", "'go to red ball' is not a clause"),
    ],
)
def test_a_text_that_does_not_fit_is_refused(name, text, said):
    level, state = room(name, (RED_BALL, (3, 2)))
    with pytest.raises(ValueError, match=said):
        level.with_instruction(state, text)


def test_an_agent_with_something_in_its_hand_is_refused():
    level, state = room(LOCAL, (RED_BALL, (3, 2)), (cell("key"), (4, 4)))
    state, *_ = level.advance(state, jnp.int32(PICKUP), None)
    with pytest.raises(ValueError, match="drop the object first"):
        level.with_instruction(state, "go to the key")
    state, *_ = level.advance(state, jnp.int32(DROP), None)
    assert level.mission_text(level.with_instruction(state, "go to the key")) == "go to the key"


@pytest.mark.parametrize("name", [LOCAL, BOSS])
@pytest.mark.parametrize("limit", [0, -3, 2.5])
def test_an_impossible_time_limit_is_refused(name, limit):
    with pytest.raises(ValueError, match="is not a valid time limit"):
        make(name, max_steps=limit)


def test_a_given_time_limit_holds_for_every_episode():
    level = make(BOSS, max_steps=7)
    state = jax.jit(level.init)(make_key(1))
    assert state.limit is None and level.limit_of(state) == 7 and level.limit_range == (7, 7)
    own = make(BOSS)
    assert own.limit_range == (100, 800) and int(own.limit_of(own.init(make_key(1)))) % 100 == 0
    assert TimeLimit(own, 5).limit_of(state) == 5
