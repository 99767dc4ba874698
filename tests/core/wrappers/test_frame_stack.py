"""Frame stacking: the order and layout of frames, and the space, for every kind of wrapped environment."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import Tally, play
from shoal.core.checks import check_env
from shoal.core.env import Env, State
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple, explain
from shoal.core.struct import struct
from shoal.core.wrappers import FlattenObservation, FrameStack, Randomize, StickyActions, TimeLimit, Trials
from shoal.core.wrappers.base import Wrapper
from shoal.envs.classic.cartpole import CartPole

KEY = jax.random.key(3)
NOISES = [jnp.int32(bit) for bit in (1, 0, 1, 1, 0)]


@struct
class ShowsEpisodes(Wrapper):
    """The observation is the number of finished episodes."""

    @property
    def observation_space(self):
        return Box(0, 99, (), np.int32)

    def observe(self, state):
        return state.episodes


@struct
class Clock(Env):
    """Observe the time in arrays of every kind, whose axes all have different lengths."""

    max_steps: int | None = 9

    @property
    def observation_space(self):
        image = Box(0, (9, 8), (3, 4, 2), np.uint8)
        return Tuple((Dict({"image": image, "words": MultiDiscrete((9, 20))}), Discrete(9), Box(0.0, 9.0, (5, 3))))

    @property
    def action_space(self):
        return Discrete(2)

    def init(self, key):
        del key
        return State(jnp.int32(0))

    def transition(self, state, action, noise):
        return state, jnp.float32(0), jnp.bool_(False), {}

    def observe(self, state):
        time = jnp.minimum(state.time, 8)
        words = jnp.stack([time, 2 * time])
        image = jnp.broadcast_to(jnp.stack([time, 8 - time]).astype(jnp.uint8), (3, 4, 2))
        return {"image": image, "words": words}, time, jnp.full((5, 3), time, jnp.float32)


def test_frames_are_the_last_observations_oldest_first():
    seen = play(FrameStack(Tally(), 3), (1, 2, 0), NOISES[:3], KEY)
    start = int(seen[0][0].inner.total)
    # Sums with noise bits 1, 0, 1: +2, +2, +1.
    totals = [start, start + 2, start + 4, start + 5]
    for step, frames in enumerate([[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3]]):
        expected = [[totals[i], totals[i] + 1] for i in frames]
        assert seen[step][1]["total"].tolist() == expected
    assert seen[3][1]["last"].tolist() == [1, 2, 0]


def test_vectors_on_the_last_axis_are_those_on_the_first_moved():
    first, last = FrameStack(CartPole(), 3), FrameStack(CartPole(), 3, "last")
    (_, obs, *_), (_, moved, *_) = (play(env, (1, 0, 1), [None] * 3, KEY)[-1] for env in (first, last))
    np.testing.assert_array_equal(jnp.moveaxis(obs, 0, -1), moved)
    assert last.observation_space.shape == (4, 3) and first.observation_space.shape == (3, 4)


def test_frames_show_state_carried_over_between_episodes():
    env = FrameStack(ShowsEpisodes(Tally()), 2)
    ended, *_ = env.advance(env.init(KEY), jnp.int32(0), NOISES[0])
    assert env.carry_over(ended, env.init(KEY)).frames.tolist() == [1, 1]


@pytest.mark.parametrize("wrong", [{"n": 0}, {"n": 1_025}, {"layout": "second"}])
def test_frame_stack_refuses_impossible_settings(wrong):
    with pytest.raises(ValueError, match="FrameStack"):
        FrameStack(Tally(), **wrong)


def test_frames_are_concatenated_oldest_first_for_every_kind_of_observation():
    env = FrameStack(Clock(), 2)
    _, (parts, number, matrix), *_ = play(env, (0, 0, 0), [None] * 3, KEY)[-1]
    assert parts["image"].shape == (3, 4, 4) and parts["image"][2, 1].tolist() == [2, 6, 3, 5]
    assert parts["words"].tolist() == [2, 4, 3, 6] and number.tolist() == [2, 3]
    assert matrix.shape == (5, 6) and matrix[0].tolist() == [2, 2, 2, 3, 3, 3]
    image = Box(0, (9, 8, 9, 8), (3, 4, 4), np.uint8, frames=2)
    words = MultiDiscrete((9, 20, 9, 20))
    assert env.observation_space == Tuple(
        (Dict({"image": image, "words": words}), MultiDiscrete((9, 9)), Box(0.0, 9.0, (5, 6), frames=2))
    )


@pytest.mark.parametrize(("layout", "axis"), [("first", 0), ("last", -1)])
def test_other_layouts_put_frames_on_a_new_axis(layout, axis):
    env = FrameStack(Clock(), 2, layout)
    old, new = (play(Clock(), (0,) * steps, [None] * steps, KEY)[-1][1] for steps in (2, 3))
    got = play(env, (0, 0, 0), [None] * 3, KEY)[-1][1]
    jax.tree.map(lambda x, *frames: np.testing.assert_array_equal(x, np.stack(frames, axis)), got, old, new)
    assert env.observation_space.contains(got)


def test_frames_on_the_first_axis_are_those_of_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    env = FrameStack(Clock(), 3, "first")
    theirs = gymnasium.vector.utils.batch_space(gymnasium.spaces.Box(0, 9, (3, 4, 2), np.uint8), 3)
    words = gymnasium.vector.utils.batch_space(gymnasium.spaces.MultiDiscrete((9, 20)), 3)
    parts, number, matrix = env.observation_space.spaces
    assert parts["image"].shape == theirs.shape and parts["words"].shape == words.shape == (3, 2)
    assert number == MultiDiscrete((9, 9, 9)) and matrix.shape == (3, 5, 3)


@pytest.mark.parametrize(
    "env",
    [
        FrameStack(FrameStack(Clock(), 2), 3),
        StickyActions(TimeLimit(FrameStack(Clock(), 2), 4), 0.3),
        Randomize(FrameStack(Tally(), 2), lambda key: FrameStack(Tally(bonus=jax.random.randint(key, (), 0, 3)), 2)),
        FlattenObservation(FrameStack(Clock(), 2)),
        FrameStack(FlattenObservation(Clock()), 2),
        Trials(FrameStack(Clock(), 2), lambda key: FrameStack(Clock(), 2)),
        FrameStack(Trials(Tally()), 2),
    ],
    ids=["twice", "inside", "randomized", "flat", "of flat", "trials", "of trials"],
)
def test_stacked_observations_are_in_the_space(env):
    obs, state = jax.jit(env.reset)(KEY)
    assert explain(env.observation_space, obs) is None
    step = jax.jit(env.step)
    for key in jax.random.split(KEY, 2):
        obs, state, *_ = step(key, state, jnp.int32(1))
        assert explain(env.observation_space, obs) is None


def test_a_frame_stack_of_a_frame_stack_keeps_the_contract():
    check_env(FrameStack(FrameStack(Clock(), 2), 3), steps=12)


@pytest.mark.parametrize("bare", [Clock(), make("MiniGrid-DoorKey-5x5-v0")], ids=["clock", "minigrid"])
def test_an_episode_begins_with_copies_of_its_first_observation(bare):
    env = FrameStack(bare, 3)
    obs, state = jax.jit(env.reset)(make_key(0))
    assert explain(env.observation_space, obs) is None
    first = jax.tree.leaves(jax.jit(bare.observe)(state.inner))
    for x, alone in zip(map(np.asarray, jax.tree.leaves(obs)), first, strict=True):
        for frame in np.split(x, 3, axis=-1):
            np.testing.assert_array_equal(frame.reshape(alone.shape), alone)


def test_stacking_twice_is_stacking_once_where_frames_join_an_axis():
    twice = FrameStack(FrameStack(Clock(), 2), 3).observation_space.spaces
    once = FrameStack(Clock(), 6).observation_space.spaces
    assert twice[0] == once[0] and twice[2] == once[2]
    assert twice[1] == once[1] == MultiDiscrete((9,) * 6)


def test_action_masks_are_those_of_the_inner_environment():
    env = FrameStack(Tally(), 3)
    state, *_ = env.advance(env.init(KEY), jnp.int32(2), NOISES[0])
    assert env.action_mask(state).tolist() == [True, True, False]


def test_a_frame_count_that_does_not_divide_the_last_axis_is_refused():
    for shape, frames in (((2, 2, 4), 3), ((), 2), ((4,), 0)):
        with pytest.raises(ValueError, match=f"frames={frames} does not divide the last axis"):
            Box(0, 1, shape, frames=frames)
    assert repr(Box(0, 1, (2, 2, 4), np.uint8, frames=2)) == "Box(0, 1, (2, 2, 4), uint8, frames=2)"
