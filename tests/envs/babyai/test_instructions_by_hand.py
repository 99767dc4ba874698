"""An instruction given as text: a new episode in the same layout, and errors for texts that the level can not hold."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.wrappers import TimeLimit
from shoal.envs.babyai.level import BabyLevel
from shoal.envs.babyai.mission import parse
from shoal.grid.actions import DROP, LEFT, PICKUP, RIGHT, TOGGLE
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


@pytest.mark.parametrize(
    ("name", "thing", "action"), [(LOCAL, "ball", PICKUP), (LOCAL, "box", TOGGLE), (BOSS, "ball", PICKUP)]
)
def test_the_place_of_an_object_that_the_first_action_takes_away_still_counts(name, thing, action):
    # As in MiniGrid: "go to" is judged by the positions at the start, until the agent drops something.
    level, state = room(name, (cell(thing, "red"), (3, 2)))
    state = level.with_instruction(state, f"go to the red {thing}")
    state, reward, terminated, _, _ = level.advance(state, jnp.int32(action), None)
    assert int(state.grid[3, 2]) == EMPTY and bool(terminated)
    assert float(reward) == pytest.approx(1 - 0.9 / int(level.limit_of(state)))


def test_articles_follow_from_the_level():
    level, state = room(LOCAL, (RED_BALL, (3, 2)), (cell("ball", "blue"), (5, 5)))
    assert level.mission_text(level.with_instruction(state, "go to the ball")) == "go to a ball"
    assert level.mission_text(level.with_instruction(state, "go to a red ball")) == "go to the red ball"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (LOCAL, "go to the blue ball", "the level has no blue ball for this. There are: red ball."),
        (BOSS, "put the red ball next to a box", "the level has no box for this. There are: red ball."),
        (BOSS, "go to the red ball on your left", "the level has no red ball on your left for this"),
        (BOSS, "go to a grey object", "no grey object"),  # there are only walls, which are grey, too
        (BOSS, "open a door, then pick up the red ball", "no door for this. There are: none."),
        (BOSS, "put the red ball next to the object", "the object would be put next to itself"),
        (LOCAL, "pick up the red ball", 'only instructions of one action, with "go to", and no places such as'),
        (LOCAL, "go to the red ball in front of you", "BabyAI-BossLevel-v0 has all kinds of instructions"),
        (LOCAL, "go to the red ball, then go to the red ball", "has only instructions of one action"),
        (LOCAL, "go to the pink ball", "instruction 'go to the pink ball': the word 'pink' is unknown. An action is"),
        (LOCAL, "jump", "the word 'jump' is unknown"),
        (LOCAL, "go to red ball", "'go to red ball' is not an action. An action is"),
    ],
)
def test_a_text_that_does_not_fit_is_refused(name, text, said):
    level, state = room(name, (RED_BALL, (3, 2)))
    with pytest.raises(ValueError, match=said):
        level.with_instruction(state, text)


def test_a_grey_object_that_is_put_is_no_wall():
    # The walls next to the box are grey, too, but nobody can carry them.
    level, state = room(BOSS, (cell("ball", "grey"), (3, 3)), (cell("box", "blue"), (1, 3)))
    assert "grey object" in level.mission_text(level.with_instruction(state, "put a grey object next to the blue box"))


def test_a_door_does_not_count_where_something_is_picked_up():
    level, state = room(BOSS, (cell("door", "blue", "closed"), (4, 2)), (RED_BALL, (3, 3)), (cell("box"), (4, 3)))
    with pytest.raises(ValueError, match="no blue object for this. There are: red ball, red box"):
        level.with_instruction(state, "pick up the blue object")
    with pytest.raises(ValueError, match="or one is next to the other already"):
        level.with_instruction(state, "go to the blue door, then put the ball next to the box")
    assert level.mission_text(level.with_instruction(state, "go to the blue object")) == "go to the blue object"


def test_what_is_no_single_state_of_the_level_is_refused():
    level, state = room(LOCAL, (RED_BALL, (3, 2)))
    text = "go to the red ball"
    with pytest.raises(TypeError, match="takes a state and then a text: 'go to the red ball' is no state"):
        inspect.unwrap(BabyLevel.with_instruction)(level, text, state)
    with pytest.raises(TypeError, match="None is a NoneType"):
        inspect.unwrap(parse)(None)
    with pytest.raises(TypeError, match="outside of compiled code"):
        jax.jit(lambda state: level.with_instruction(state, text))(state)
    with pytest.raises(ValueError, match="takes one state, and here are 3"):
        level.with_instruction(jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), state), text)
    with pytest.raises(ValueError, match="the state has 8 x 8 cells, and this level 22 x 22"):
        make("BabyAI-BossLevel-v0").with_instruction(state, text)


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
