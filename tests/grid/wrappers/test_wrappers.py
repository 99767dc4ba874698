"""Wrappers of grid worlds without the reference; tests/parity compares them with MiniGrid's wrappers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.checks import check_env
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.wrappers import FrameStack
from shoal.grid.cells import BALL, GOAL, LAVA
from shoal.grid.wrappers import (
    ActionBonus,
    DictObservationSpace,
    DirectionObs,
    FlatObs,
    FullyObs,
    ImgObs,
    NoDeath,
    OneHotPartialObs,
    PositionBonus,
    Reseed,
    RGBImgObs,
    RGBImgPartialObs,
    StochasticAction,
    SymbolicObs,
    ViewSize,
)

KEY = make_key(0)
FORWARD, DONE = jnp.int32(2), jnp.int32(6)


@pytest.fixture(scope="module")
def empty():
    return make("MiniGrid-Empty-5x5-v0")


@jax.jit
def first(env, key=KEY):
    """A first state."""
    return env.init(key)


@jax.jit
def advance(env, state, action):
    """One step: (state, reward, terminated, truncated)."""
    return env.advance(state, action, env.noise(KEY))[:4]


@jax.jit
def seen(env, state):
    """An observation."""
    return env.observe(state)


@jax.jit
def carried_over(env, ended, fresh):
    """A first state, with what an ended episode hands on."""
    return env.carry_over(ended, fresh)


def test_wrappers_nest_in_any_valid_order(empty):
    nested = ImgObs(RGBImgPartialObs(ViewSize(NoDeath(ActionBonus(PositionBonus(empty)), ("lava",)), 5), tile_size=4))
    state = first(nested)
    obs = seen(nested, state)
    assert obs.shape == (20, 20, 3) and nested.observation_space.contains(obs)
    assert advance(nested, state, FORWARD)[1] == 2.0  # both bonuses


def test_a_level_is_found_inside_other_wrappers(empty):
    env = SymbolicObs(FrameStack(empty, n=2))
    assert seen(env, first(env))["image"].shape == (5, 5, 3)


def test_a_picture_of_a_smaller_view_is_that_of_a_level_with_it(empty):
    state = first(empty)
    around = seen(RGBImgPartialObs(ViewSize(empty, 5)), state)["image"]
    np.testing.assert_array_equal(around, seen(RGBImgPartialObs(empty.replace(view_size=5)), state)["image"])


def test_as_many_words_as_a_mission_needs_are_enough(empty):
    env = DictObservationSpace(empty, max_words=6)
    obs = seen(env, first(env))
    np.testing.assert_array_equal(obs["mission"], seen(empty, first(empty))["mission"])


def test_pictures_without_highlight_are_darker(empty):
    state = first(empty)
    lit, plain = (seen(RGBImgObs(env), state)["image"] for env in (empty, empty.replace(highlight=False)))
    assert lit.mean() > plain.mean() + 20


def test_an_agent_on_the_goal_looks_at_it_in_no_direction(empty):
    env = DirectionObs(empty, kind="angle_atan2")
    state = first(env)
    assert seen(env, state)["goal_direction"] == pytest.approx(np.pi / 4)  # two right, two down
    assert seen(env, state.replace(x=jnp.int32(3), y=jnp.int32(3)))["goal_direction"] == 0


def test_a_slope_straight_up_is_minus_infinity(empty):
    env = DirectionObs(empty)
    state = first(env)
    above = state.replace(grid=state.grid.at[3, 3].set(1).at[1, 1].set(GOAL), x=jnp.int32(1), y=jnp.int32(3))
    assert seen(env, above)["goal_direction"] == -np.inf
    assert env.observation_space.contains(seen(env, above))


def test_a_level_without_a_goal_is_an_error_outside_of_jit_and_zero_inside(empty):
    env = DirectionObs(empty)
    state = first(env)
    state = state.replace(grid=state.grid.at[3, 3].set(1))
    with pytest.raises(ValueError, match="needs a goal, and the grid of Empty has none"):
        env.observe(state)
    assert seen(env, state)["goal_direction"] == 0


def test_bonuses_fall_with_the_root_of_the_count(empty):
    for env, expected in ((ActionBonus(empty), [1, 2**-0.5, 3**-0.5]), (PositionBonus(empty, 2.0), [2, 2**0.5])):
        state = first(env)
        for bonus in expected:
            state, reward, *_ = advance(env, state, DONE)
            assert reward == pytest.approx(bonus)


def test_an_invalid_action_always_has_count_one(empty):
    env = ActionBonus(empty)
    state = first(env)
    for _ in range(2):
        state, reward, *_ = advance(env, state, jnp.int32(9))
        assert reward == 1.0


@pytest.mark.parametrize("wrapper", [ActionBonus, PositionBonus])
def test_visit_counts_are_kept_across_episodes(empty, wrapper):
    env = wrapper(empty)
    ended, *_ = advance(env, first(env), DONE)
    state = carried_over(env, ended, first(env))
    assert int(state.time) == 0 and int(state.counts.sum()) == 1
    assert advance(env, state, DONE)[1] == pytest.approx(2**-0.5)


def test_a_scale_is_traced(empty):
    state = first(PositionBonus(empty))
    traced = []

    @jax.jit
    def step(env):
        traced.append(env)
        return env.advance(state, DONE, None)[1]

    assert [float(step(PositionBonus(empty, scale))) for scale in (1.0, 3.0)] == [1, 3]
    assert len(traced) == 1


def test_lava_gives_a_penalty_instead_of_termination(empty):
    env = NoDeath(empty, ("lava",), death_cost=-2.0)
    state = first(env)
    state = state.replace(grid=state.grid.at[2, 1].set(LAVA))
    state, reward, terminated, _ = advance(env, state, FORWARD)
    assert (float(reward), bool(terminated), int(state.x)) == (-2, False, 2)
    assert not advance(env, state, FORWARD)[2]  # out of it again
    assert advance(empty, first(env).replace(grid=state.grid), FORWARD)[2]  # without the wrapper it ends


def test_the_lava_penalty_applies_after_any_action_in_lava(empty):
    env = NoDeath(StochasticAction(empty, probability=0.0, random_action=2), ("lava",), death_cost=-2.0)
    state = first(env)
    state = state.replace(grid=state.grid.at[2, 1].set(LAVA))
    state, reward, terminated, _ = advance(
        env, state, jnp.int32(0)
    )  # the action was "left", the executed one "forward"
    assert (float(reward), bool(terminated), int(state.x)) == (-2, False, 2)


def test_a_collision_with_a_ball_costs_as_much_as_in_the_minigrid_example():
    env = NoDeath(make("MiniGrid-Dynamic-Obstacles-5x5-v0"), ("ball",), death_cost=-1.0)
    state = first(env)
    state = state.replace(grid=state.grid.at[2, 1].set(BALL))  # in front of the agent
    for some_env, expected in ((env.env, (-1.0, True)), (env, (-2.0, False))):
        _, reward, terminated, _ = advance(some_env, state, FORWARD)
        assert (float(reward), bool(terminated)) == expected


def test_the_goal_still_ends_an_episode(empty):
    env = NoDeath(empty, ("lava",))
    state = first(env).replace(x=jnp.int32(2), y=jnp.int32(3))
    _, reward, terminated, _ = advance(env, state, FORWARD)
    assert reward == pytest.approx(1 - 0.9 / 100) and terminated


def test_actions_are_executed_with_the_given_probability(empty):
    env = StochasticAction(empty, probability=0.75, random_action=6)
    state = first(env)
    move = jax.jit(jax.vmap(lambda key: env.transition(state, FORWARD, env.noise(key))[0].x == 2))
    moved = move(jax.random.split(KEY, 4000))
    assert abs(float(moved.mean()) - 0.75) < 4 * (0.75 * 0.25 / 4000) ** 0.5


def test_a_random_action_may_be_any(empty):
    drawn = jax.jit(jax.vmap(StochasticAction(empty).noise))(jax.random.split(KEY, 300))[0][1]
    assert set(drawn.tolist()) == set(range(7))


def test_reseeded_obstacles_move_the_same_way_in_every_episode_of_a_seed():
    env = Reseed(make("MiniGrid-Dynamic-Obstacles-5x5-v0"), seeds=(3, 4))
    start = first(env)
    same_start, moves = start.inner, []
    for episode in range(4):
        state = start.replace(inner=same_start)  # so that only what moves by itself can differ
        for _ in range(5):
            state, *_ = advance(env, state, jnp.int32(0))
            moves.append(np.asarray(state.inner.grid))
        start = carried_over(env, state, first(env, make_key(episode)))
    np.testing.assert_array_equal(moves[:10], moves[10:])
    assert not np.array_equal(moves[0], moves[4])
    assert not np.array_equal(moves[:5], moves[5:10])


def test_state_that_the_inner_environment_carries_over_is_kept(empty):
    for wrap in (ActionBonus, PositionBonus, Reseed):
        env = wrap(PositionBonus(empty))
        ended, *_ = advance(env, first(env), DONE)
        fresh = carried_over(env, ended, first(env))
        assert int(ended.inner.counts.sum()) == int(fresh.inner.counts.sum()) == 1, wrap


def test_wrappers_reset_as_often_as_the_level_inside(empty):
    assert empty.reset_every != make("MiniGrid-GoToDoor-5x5-v0").reset_every
    for level in (empty, make("MiniGrid-GoToDoor-5x5-v0")):
        for wrap in (ActionBonus, FullyObs, StochasticAction, Reseed):
            assert wrap(level).reset_every == level.reset_every


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda env: ImgObs(RGBImgObs(OneHotPartialObs(env))), id="images"),
        pytest.param(lambda env: FlatObs(RGBImgPartialObs(env, tile_size=2)), id="flat"),
        pytest.param(lambda env: DirectionObs(DictObservationSpace(SymbolicObs(env))), id="parts"),
        pytest.param(lambda env: NoDeath(ActionBonus(PositionBonus(StochasticAction(env))), ("lava",)), id="rewards"),
    ],
)
def test_wrapped_levels_keep_the_contract(wrap, empty):
    check_env(wrap(empty), steps=8)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda e: ViewSize(e, 4), ValueError, "view_size=4 must be odd, so that it has a middle, from 3 to 31"),
        (lambda e: ViewSize(e, 1), ValueError, "view_size=1 must be odd, so that it has a middle, from 3 to 31"),
        (lambda e: RGBImgObs(e, tile_size=0), ValueError, "tile_size=0 shows nothing"),
        (lambda e: RGBImgPartialObs(e, tile_size=-1), ValueError, "tile_size=-1 shows nothing"),
        (lambda e: DirectionObs(e, kind="compass"), ValueError, "kind='compass' is unknown. Choose one of: slope, ang"),
        (lambda e: OneHotPartialObs(FullyObs(e)), ValueError, r"reads the agent's view .* the image of FullyObs"),
        (lambda e: RGBImgPartialObs(RGBImgObs(e)), ValueError, r"the image of RGBImgObs is uint8\[40, 40, 3\]"),
        (lambda e: FlatObs(e, max_length=10), ValueError, "max_length=10 is too small: .* up to 28 char"),
        (lambda e: FlatObs(make("MiniGrid-LavaGapS5-v0"), max_length=46), ValueError, "have up to 47 characters"),
        (lambda e: FlatObs(make("MiniGrid-GoToDoor-5x5-v0"), max_length=20), ValueError, "have up to 21 characters"),
        (lambda e: FlatObs(SymbolicObs(e)), ValueError, "FlatObs needs a dict with a uint8 image"),
        (lambda e: FlatObs(ImgObs(e)), ValueError, "FlatObs needs a dict with a uint8 image"),
        (lambda e: DictObservationSpace(e, max_words=5), ValueError, "max_words=5 is too small: .* up to 6 words"),
        (lambda e: FullyObs(ImgObs(e)), TypeError, r"write ImgObs\(FullyObs\(...\)\), the other way round"),
        (
            lambda e: FullyObs(make("CartPole-v1")),
            TypeError,
            "FullyObs: CartPole is not a grid environment: wrap a Level",
        ),
        (lambda e: ActionBonus(make("CartPole-v1")), TypeError, "ActionBonus: CartPole is not a grid environment"),
        (lambda e: Reseed(e, seeds=()), ValueError, "first=0 is not an index of the 0 seeds"),
        (lambda e: Reseed(e, seeds=(1, 2), first=2), ValueError, "first=2 is not an index of the 2 seeds"),
        (lambda e: Reseed(e, seeds=(0.5,)), TypeError, r"Reseed.seeds=\(0.5,\) must hold whole numbers"),
        (lambda e: StochasticAction(e, 1.5), ValueError, "probability=1.5 is out of range"),
        (lambda e: StochasticAction(e, random_action=7), ValueError, "random_action=7 is not an action: choose 0 to 6"),
        (lambda e: StochasticAction(make("Pendulum-v1")), TypeError, "needs a Discrete action space; Pendulum has Box"),
        (lambda e: NoDeath(e, ("goal",)), ValueError, "one or more of: wall, floor, door, key, ball, box, lava"),
        (lambda e: NoDeath(e, ("lava", "empty")), ValueError, r"objects=\('lava', 'empty'\) must be one or more"),
        (lambda e: NoDeath(e, ("unseen",)), ValueError, r"objects=\('unseen',\) must"),
        (lambda e: NoDeath(e, ("agent",)), ValueError, r"objects=\('agent',\) must"),
        (lambda e: NoDeath(e, ("laver",)), ValueError, r"objects=\('laver',\) must be"),
        (lambda e: NoDeath(e, ()), ValueError, r"objects=\(\) must"),
        (lambda e: NoDeath(e, "lava"), TypeError, r"NoDeath.objects='lava' is a str: write a tuple"),
    ],
)
@pytest.mark.usefixtures("without_type_checker")
def test_invalid_values_are_refused_at_construction(empty, build, error, message):
    with pytest.raises(error, match=message):
        build(empty)
