"""All wrappers: the contract, the clock, and that neutral settings change nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import Tally, advance, init, noise, play
from shoal.core.checks import check_env
from shoal.core.registry import make
from shoal.core.spaces import Box
from shoal.core.wrappers import (
    ClipReward,
    FlattenObservation,
    FrameStack,
    HideObservation,
    Randomize,
    ScaleReward,
    StickyActions,
    TimeLimit,
    TransformObservation,
    TransformReward,
)
from shoal.core.wrappers.base import Wrapper, WrapperState
from shoal.envs.classic.cartpole import CartPole

KEY = jax.random.key(3)
ACTIONS = (0, 1, 2, 1, 0)
NOISES = [jnp.int32(bit) for bit in (1, 0, 1, 1, 0)]


def identity(x):
    return x


def total_only(obs):
    return obs["total"]


def some_scaled_tally(key):
    return ScaleReward(Tally(), jax.random.uniform(key))


def same_tally(key):
    return Tally()


def some_tally(key):
    return Tally(bonus=jax.random.randint(key, (), 0, 3))


WRAPPED = {
    "time limit": TimeLimit(Tally(), 3),
    "flatten": FlattenObservation(Tally()),
    "hide": HideObservation(FlattenObservation(Tally()), (0, 3)),
    "hide channels": HideObservation(FrameStack(CartPole(), 2, "last"), (1,)),
    "frame stack": FrameStack(Tally(), 3),
    "frame stack last": FrameStack(CartPole(), 2, "last"),
    "sticky": StickyActions(Tally(), 0.5),
    "observation": TransformObservation(Tally(), identity),
    "reward": TransformReward(Tally(), jnp.sqrt),
    "clip": ClipReward(Tally()),
    "scale": ScaleReward(Tally(), 0.1),
    "randomize": Randomize(Tally(), some_tally),
    "all": FlattenObservation(
        FrameStack(StickyActions(TimeLimit(Randomize(ScaleReward(Tally(), 2.0), some_scaled_tally), 5), 0.3), 2)
    ),
}

NEUTRAL = {
    "none": Wrapper(Tally()),
    "time limit": TimeLimit(Tally(), 7),
    "frame stack": FrameStack(Tally(), 1),
    "sticky": StickyActions(Tally(), 0.0),
    "observation": TransformObservation(Tally(), identity),
    "reward": TransformReward(Tally(), identity),
    "clip": ClipReward(Tally(), -1e9, 1e9),
    "scale": ScaleReward(Tally(), 1.0),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapped_environment_keeps_the_contract(name):
    check_env(WRAPPED[name], steps=16)


@pytest.mark.parametrize("name", NEUTRAL)
def test_a_neutral_wrapper_changes_nothing(name):
    env = NEUTRAL[name]
    noises = [(jnp.float32(0), bit) for bit in NOISES] if name == "sticky" else NOISES
    bare, wrapped = play(Tally(), ACTIONS, NOISES, KEY), play(env, ACTIONS, noises, KEY)
    for (state, obs, *rest), (outer, seen, *same) in zip(bare, wrapped, strict=True):
        inner = outer.inner if isinstance(outer, WrapperState) else outer
        seen = jax.tree.map(lambda x: x[0], seen) if name == "frame stack" else seen
        jax.tree.map(np.testing.assert_array_equal, inner, state)
        jax.tree.map(np.testing.assert_array_equal, seen, obs)
        assert same[:3] == rest[:3]
        assert int(outer.time) == int(inner.time) == int(state.time)


def test_clocks_agree_through_many_wrappers():
    env = WRAPPED["all"]
    state = init(env, KEY)
    for step in range(1, 4):
        state, _, _, _, info = advance(env, state, jnp.int32(1), noise(env, jax.random.key(step)))
        clocks, inner = [], state
        while inner is not None:
            clocks.append(int(inner.time))
            inner = getattr(inner, "inner", None)
        assert clocks == [step] * 4  # frames, sticky actions, randomize, tally
        assert int(info["time_seen"]) == step


@pytest.mark.parametrize("name", ["time limit", "frame stack", "sticky", "clip", "randomize"])
def test_mask_render_and_carry_over_are_forwarded(name):
    env = WRAPPED[name]
    ended = init(env, KEY)
    ended, *_ = advance(env, ended, jnp.int32(2), noise(env, KEY))
    assert env.action_mask(ended).tolist() == [True, True, False]
    assert env.render(ended).shape == (2, 2, 3)
    after = env.carry_over(ended, env.carry_over(ended, init(env, KEY)))
    assert int(getattr(after, "inner", after).episodes) == 1
    assert int(after.time) == 0


def test_limit_revision_and_resets_are_those_of_the_inner_environment():
    assert Wrapper(Tally(max_steps=9)).max_steps == 9
    assert FrameStack(Tally(max_steps=None)).max_steps is None
    assert StickyActions(TimeLimit(Tally(), 4)).max_steps == 4
    assert Wrapper(Tally()).revision == Tally.revision
    assert Wrapper(make("CartPole-v1")).reset_every == 10


def test_time_limit_truncates_at_its_own_number_without_recompiling():
    traces = []

    @jax.jit
    def truncations(env):
        traces.append(env)
        state, flags = env.init(KEY), []
        for bit in NOISES:
            state, _, _, truncated, _ = env.advance(state, jnp.int32(0), bit)
            flags.append(truncated)
        return jnp.stack(flags)

    assert truncations(TimeLimit(Tally(), 3)).tolist() == [False, False, True, True, True]
    assert truncations(TimeLimit(Tally(), 5)).tolist() == [False, False, False, False, True]
    assert len(traces) == 1
    assert truncations(TimeLimit(Tally(max_steps=2))).tolist() == [False] * 5


def test_a_sticky_action_repeats_the_executed_action_but_not_in_the_first_step():
    probabilities = (0.1, 0.1, 0.9, 0.1)
    noises = [(jnp.float32(probability), jnp.int32(0)) for probability in probabilities]
    seen = play(StickyActions(Tally(), 0.5), (1, 2, 0, 2), noises, KEY)
    # First: as given (1). Then 0.1 < 0.5 sticks (1); 0.9 does not (0); 0.1 sticks (0).
    assert [int(state.inner.last) for state, *_ in seen[1:]] == [1, 1, 0, 0]


def test_actions_repeat_with_the_given_probability():
    env = StickyActions(Tally(max_steps=None), 0.25)
    state, *_ = advance(env, init(env, KEY), jnp.int32(0), noise(env, KEY))

    def executed(key):
        return env.advance(state, jnp.int32(1), env.noise(key))[0].inner.last

    last = jax.jit(jax.vmap(executed))(jax.random.split(KEY, 4000))
    # Four standard errors of a share: 4 * sqrt(0.25 * 0.75 / 4000) = 0.027.
    assert abs(float((last == 0).mean()) - 0.25) < 0.027


def test_sticky_action_noise_is_independent_of_the_inner_noise():
    env = StickyActions(Tally())
    probability, bit = jax.jit(jax.vmap(env.noise))(jax.random.split(KEY, 4000))
    assert abs(np.corrcoef(probability, bit)[0, 1]) < 0.06


def test_a_probability_is_checked():
    with pytest.raises(ValueError, match="StickyActions.probability=1.5 is out of range"):
        StickyActions(Tally(), 1.5)


def test_flattening_puts_parts_by_name_and_choices_as_one_hot():
    env = FlattenObservation(Tally())
    state, *_ = env.advance(env.init(KEY).replace(total=jnp.int32(4)), jnp.int32(2), jnp.int32(1))
    # last = 2 of three, one-hot; total = 4 + 2 + 1 = 7, and 8.
    assert env.observe(state).tolist() == [0, 0, 1, 7, 8]
    assert env.observation_space == Box((0, 0, 0, 0, 0), (1, 1, 1, 99, 99), (5,), np.float32)


def test_flattening_a_single_box_keeps_its_dtype():
    env = FlattenObservation(FrameStack(TransformObservation(Tally(), total_only, Box(0, 99, (2,), np.uint8)), 2))
    state = env.init(KEY)
    total = int(state.inner.total)
    assert env.observe(state).tolist() == [total, total + 1] * 2
    assert env.observe(state).dtype == env.observation_space.dtype == jnp.uint8


def test_hidden_components_are_left_out_of_observations_and_space():
    env = HideObservation(CartPole(), (1, 3))
    state, *_ = env.advance(env.init(KEY), jnp.int32(1), None)
    assert env.observe(state).tolist() == [state.x, state.theta]
    low, high = CartPole().observation_space.bounds()
    assert env.observation_space == Box(low[[0, 2]], high[[0, 2]], (2,))
    in_any_order = HideObservation(CartPole(), (3, 1))
    assert in_any_order.observe(state).tolist() == env.observe(state).tolist()


def test_hiding_acts_on_the_last_axis_and_keeps_the_dtype():
    env = HideObservation(FrameStack(CartPole(), 2, "last"), (0,))  # the older of two frames [4, 2]
    state = env.init(KEY)
    np.testing.assert_array_equal(env.observe(state), CartPole().observe(state.inner)[:, None])
    small = TransformObservation(Tally(), total_only, Box(0, 99, (2,), np.uint8))
    assert HideObservation(small, (1,)).observation_space == Box(0, 99, (1,), np.uint8)
    assert HideObservation(small, (1,)).observe(init(small, KEY)).dtype == jnp.uint8


@pytest.mark.parametrize(
    ("env", "components", "kind", "words"),
    [
        (Tally(), (0,), TypeError, "needs observations in a Box with an axis, not Dict.*FlattenObservation"),
        (CartPole(), (4,), ValueError, r"needs numbers from 0 to 3, each at most once, not \(4,\): .* 4 components"),
        (CartPole(), (-1,), ValueError, "numbers from 0 to 3"),
        (CartPole(), (1, 1), ValueError, "each at most once"),
        (CartPole(), (), ValueError, "needs at least 1 number"),
        (CartPole(), (0, 1, 2, 3), ValueError, r"must leave at least 1 of 4 components: \(0, 1, 2, 3\) hides 4"),
    ],
)
def test_components_that_cannot_be_hidden_are_refused(env, components, kind, words):
    with pytest.raises(kind, match=words):
        HideObservation(env, components)


def test_rewards_are_clipped_scaled_and_passed_through():
    rewards = {
        "bare": Tally(),
        "clip": ClipReward(Tally(), 0.0, 6.0),
        "scale": ScaleReward(Tally(), 0.5),
        "function": TransformReward(Tally(), jnp.square),
    }
    got = {name: [row[2] for row in play(env, ACTIONS, NOISES, KEY)[1:]] for name, env in rewards.items()}
    bare = np.asarray(got["bare"])
    assert bare.min() < 6 < bare.max()
    np.testing.assert_allclose(got["clip"], np.clip(bare, 0, 6))
    np.testing.assert_allclose(got["scale"], bare / 2)
    np.testing.assert_allclose(got["function"], bare**2)


def test_randomize_samples_one_environment_for_each_episode():
    env = Randomize(Tally(), some_tally)
    keys = jax.random.split(KEY, 32)
    states = jax.jit(jax.vmap(env.init))(keys)
    assert set(states.env.bonus.tolist()) == {0, 1, 2}
    after, reward, *_ = jax.jit(jax.vmap(lambda s: env.advance(s, jnp.int32(1), jax.random.key(0))))(states)
    np.testing.assert_array_equal(after.env.bonus, states.env.bonus)
    bit = int(Tally().noise(jax.random.key(0)))
    np.testing.assert_array_equal(reward, states.inner.total + 1 + bit + states.env.bonus)


def test_randomize_over_one_environment_plays_like_it():
    env = Randomize(Tally(), same_tally)
    key = jax.random.split(KEY)[1]  # the first half of the key draws the environment
    state, inner = env.init(KEY), Tally().init(key)
    _, after, *rest = env.step(KEY, state, jnp.int32(2))
    _, expected, *same = Tally().step(KEY, inner, jnp.int32(2))
    assert [int(x) for x in jax.tree.leaves(after.inner)] == [int(x) for x in jax.tree.leaves(expected)]
    assert jax.tree.map(float, rest) == jax.tree.map(float, same)


def test_randomize_needs_no_noise_where_the_dynamics_have_none():
    assert Randomize(CartPole(), lambda key: CartPole()).noise(KEY) is None


def test_randomize_refuses_another_kind_of_environment():
    with pytest.raises(ValueError, match="sample must return"):
        Randomize(Tally(), lambda key: CartPole()).init(KEY)


def test_randomize_refuses_a_time_limit_that_it_would_ignore():
    for sample in (
        lambda key: Tally(max_steps=jax.random.randint(key, (), 3, 9)),
        lambda key: Tally(max_steps=3),
        lambda key: Tally(max_steps=None),
    ):
        with pytest.raises(ValueError, match="sample returns an environment with .*max_steps.*give both the same"):
            Randomize(Tally(max_steps=5), sample)
    assert Randomize(Tally(max_steps=5), lambda key: Tally(max_steps=5)).max_steps == 5


@pytest.mark.parametrize("low, high", [(1.0, -1.0), (float("nan"), 1.0), (np.array([0.0, 2.0]), 1.0)])
def test_reversed_reward_bounds_are_refused(low, high):
    with pytest.raises(ValueError, match="ClipReward needs low=.* to be at most high=1|ClipReward needs low=1.0"):
        ClipReward(Tally(), low, high)
