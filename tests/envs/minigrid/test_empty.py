"""Empty: the room, rewards, episode ends and errors; many of these facts hold for every level."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maps import at_pose, first_state, layouts, steps
from shoal.core.errors import UnknownNameError
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.envs.minigrid.empty import Empty
from shoal.grid.cells import EMPTY, GOAL, WALL, cell


def test_the_shortest_way_earns_minigrids_reward():
    # 5x5 from (1, 1) to (3, 3): 2 forward, 1 turn, 2 forward; 1 - 0.9 * 5 / 100 = 0.955.
    env = make("MiniGrid-Empty-5x5-v0")
    played = steps(env, first_state(env), "forward", "forward", "right", "forward", "forward")
    assert played.reward[:4] == [0, 0, 0, 0]
    assert played.reward[4] == pytest.approx(0.955, abs=1e-6)
    assert played.terminated == [False] * 4 + [True] and not any(played.truncated)


def test_success_on_the_last_step_is_both_terminated_and_truncated_and_earns_a_tenth():
    env = Empty(size=5, max_steps=5)
    played = steps(env, first_state(env), "forward", "forward", "right", "forward", "forward")
    assert (played.terminated[4], played.truncated[4]) == (True, True)
    assert played.reward[4] == pytest.approx(0.1, abs=1e-6)


def test_the_time_limit_truncates_without_reward():
    env = Empty(size=5, max_steps=3)
    played = steps(env, first_state(env), "done", "done", "done")
    assert played.truncated == [False, False, True] and not any(played.terminated) and not any(played.reward)


@pytest.mark.parametrize("action", ["left", "right", "pickup", "drop", "toggle", "done"])
def test_only_walking_onto_the_goal_ends_the_episode(action):
    # NAVIX ended it, with reward, for dropping nothing in front of the goal.
    env = make("MiniGrid-Empty-5x5-v0")
    facing = at_pose(first_state(env), 3, 2, 1)
    played = steps(env, facing, action)
    assert played.reward == [0.0] and played.terminated == [False]
    assert np.array_equal(played.state.grid, facing.grid)


def test_walls_stop_the_agent():
    env = make("MiniGrid-Empty-5x5-v0")
    played = steps(env, at_pose(first_state(env), 1, 1, 3), "forward", "left", "forward")
    assert (int(played.state.x), int(played.state.y)) == (1, 1) and not any(played.terminated)


def test_the_goal_never_moves_and_the_agent_never_starts_on_it():
    env = make("MiniGrid-Empty-Random-5x5-v0")
    states = layouts(env, 500)
    assert (states.grid[:, 3, 3] == GOAL).all()
    assert not ((states.x == 3) & (states.y == 3)).any()
    assert set(np.unique(states.direction).tolist()) == {0, 1, 2, 3}


def test_the_first_observation_equals_a_hand_computed_view():
    # Facing right from (1, 1) of 5x5: the last row of the view holds (1, 4) to (1, -2), from left hand to right hand.
    env = Empty(size=5, view_size=5)
    obs, _ = jax.jit(env.reset)(make_key(0))
    image = np.asarray(obs["image"])
    wall, empty = [2, 5, 0], [1, 0, 0]
    assert image[:, 4].tolist() == [wall, wall, empty, empty, empty]
    assert image[4, 2].tolist() == [8, 1, 0]  # the goal: two ahead, two to the right
    assert int(obs["direction"]) == 0


def test_the_view_may_have_another_size():
    for size in (3, 9):
        env = make("MiniGrid-Empty-6x6-v0", view_size=size)
        obs = jax.eval_shape(env.reset, make_key(0))[0]
        assert obs["image"].shape == (size, size, 3)
        assert env.observation_space["image"].shape == (size, size, 3)


@pytest.mark.parametrize("name", ["Empty-5x5", "DoorKey-5x5", "GoToDoor-5x5", "MemoryS7"])
def test_an_action_outside_the_space_only_advances_time_in_compiled_code(name):
    env = make(f"MiniGrid-{name}-v0")
    advance, start = jax.jit(env.advance), first_state(env)
    # Facing every way from where it starts, with an empty hand and a full one.
    for action, direction in itertools.product((7, -1), range(4)):
        for carrying in (EMPTY, cell("key", "yellow")):
            state = start.replace(direction=jnp.int32(direction), carrying=jnp.asarray(carrying))
            after, reward, terminated, *_ = advance(state, jnp.int32(action), None)
            assert (int(after.time), float(reward), bool(terminated)) == (1, 0.0, False)
            same = after.replace(time=state.time)
            assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(same), jax.tree.leaves(state), strict=True))


@pytest.mark.parametrize("action", [7, -1])
def test_a_concrete_action_outside_the_space_is_an_error(action):
    env = make("MiniGrid-Empty-5x5-v0")
    with pytest.raises(ValueError, match="out of bounds"):
        env.step(make_key(0), first_state(env), jnp.int32(action))


def test_the_error_of_an_unknown_level_suggests_the_nearest_names():
    with pytest.raises(UnknownNameError, match="MiniGrid-Empty-8x8-v0"):
        make("MiniGrid-Empty-8x8-v1")


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"size": 3}, "size=3 leaves no room"),
        ({"agent_start_pos": (3, 3)}, r"agent_start_pos=\(3, 3\) is not an empty .* columns 1 to 3, rows 1 to 3"),
        ({"agent_start_pos": (0, 1)}, r"agent_start_pos=\(0, 1\) is not an empty cell"),
        ({"agent_start_pos": (1, 9)}, r"agent_start_pos=\(1, 9\) is not an empty cell"),
        ({"agent_start_pos": (-1, 1)}, r"agent_start_pos=\(-1, 1\) is not an empty cell"),
        ({"agent_start_dir": 4}, "agent_start_dir=4 must be 0"),
        ({"random_start": True, "agent_start_dir": 1}, "leave agent_start_pos and agent_start_dir out"),
        ({"view_size": 4}, "view_size=4 must be odd"),
        ({"view_size": 1}, "view_size=1 must be odd, so that it has a middle, from 3 to 31"),
        ({"max_steps": 0}, "max_steps=0"),
    ],
)
def test_impossible_sizes_are_refused(fields, reason):
    with pytest.raises(ValueError, match=reason):
        make("MiniGrid-Empty-5x5-v0", **fields)


@pytest.mark.parametrize("fields", [{"size": 5.0}, {"view_size": 7.0}])
def test_sizes_that_are_not_integers_are_refused(fields):
    with pytest.raises(TypeError, match="write a whole number|Expected type: <class 'int'>"):  # which check is first
        make("MiniGrid-Empty-5x5-v0", **fields)


def test_the_smallest_room_holds_agent_and_goal():
    state = first_state(Empty(size=4))
    grid = np.full((4, 4), WALL)
    grid[1:3, 1:3] = EMPTY
    grid[2, 2] = cell("goal", "green")
    np.testing.assert_array_equal(state.grid, grid)
