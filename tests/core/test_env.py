"""What `Env` derives from the hooks: the clock, the time limit, `step`, and errors for a wrong action."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import OwnLimit, Tally
from shoal.core.env import episode_limit
from shoal.core.registry import make
from shoal.core.spaces import Discrete
from shoal.core.wrappers import Randomize, StickyActions, TimeLimit, Trials
from shoal.core.wrappers.base import Wrapper

KEY = jax.random.key(2)


def test_advance_increments_the_clock_before_the_transition():
    state = Tally().init(KEY)
    for step in (1, 2, 3):
        state, _, _, _, info = Tally().advance(state, jnp.int32(0), jnp.int32(0))
        assert int(state.time) == int(info["time_seen"]) == step


def test_the_time_limit_truncates_and_does_not_terminate():
    env = Tally(max_steps=2)
    state, _, terminated, truncated, _ = env.advance(env.init(KEY), jnp.int32(0), jnp.int32(0))
    assert (bool(terminated), bool(truncated)) == (False, False)
    _, _, terminated, truncated, _ = env.advance(state, jnp.int32(0), jnp.int32(0))
    assert (bool(terminated), bool(truncated)) == (False, True)


def test_both_flags_may_be_true():
    env = Tally(max_steps=1, bonus=40)
    _, _, terminated, truncated, _ = env.advance(env.init(KEY), jnp.int32(0), jnp.int32(0))
    assert bool(terminated) and bool(truncated)


@pytest.mark.parametrize("limit", [2**31, 0, -5, 2.5, float("inf"), float("nan"), np.array([7, 0])])
def test_an_invalid_time_limit_is_refused(limit):
    with pytest.raises(ValueError, match="Tally.max_steps=.* must be a whole number of steps from 1 to 2,147,483,647"):
        Tally(max_steps=limit)


@pytest.mark.parametrize("name", ["MountainCar-v0", "CartPole-v1", "Pendulum-v1", "PlanarReacher-v0"])
def test_the_reward_is_nan_where_the_state_is(name):
    env = make(name)
    action, noise, state = jnp.zeros_like(env.action_space.sample(KEY)), env.noise(KEY), env.init(KEY)
    assert jnp.isfinite(env.advance(state, action, noise)[1])
    numbers = [f.name for f in dataclasses.fields(state) if jnp.issubdtype(getattr(state, f.name).dtype, jnp.floating)]
    for field in set(numbers) - {"torque"}:  # that of a pendulum is overwritten
        broken = state.replace(**{field: jnp.full_like(getattr(state, field), jnp.nan)})
        for advance in (env.advance, jax.jit(env.advance), TimeLimit(env, max_steps=9).advance):
            assert jnp.isnan(advance(broken, action, noise)[1]), field


def test_an_episode_with_a_sampled_constant_that_is_nan_has_the_return_nan():
    """Where JAX traces `sample` its constants are not known, so the constructor does not refuse them."""
    car = make("MountainCar-v0")
    env = Randomize(car, lambda key: car.replace(gravity=jnp.log(-jax.random.uniform(key))))
    assert jnp.isnan(env.advance(jax.jit(env.init)(KEY), jnp.int32(0), env.noise(KEY))[1])


def test_without_a_limit_nothing_is_truncated():
    env = Tally(max_steps=None)
    state = env.init(KEY).replace(time=jnp.int32(10**6))
    assert not bool(env.advance(state, jnp.int32(0), jnp.int32(0))[3])


def test_step_is_noise_then_advance_then_observe():
    env = Tally()
    obs, state = env.reset(KEY)
    jax.tree.map(np.testing.assert_array_equal, obs, env.observe(env.init(KEY)))
    k_step = jax.random.key(9)
    obs, *rest = env.step(k_step, state, jnp.int32(1))
    after, *others = env.advance(state, jnp.int32(1), env.noise(k_step))
    jax.tree.map(np.testing.assert_array_equal, (obs, *rest), (env.observe(after), after, *others))


def test_changing_a_constant_does_not_retrace():
    traces = []

    @jax.jit
    def reward(env):
        traces.append(env)
        return env.step(KEY, env.init(KEY), jnp.int32(1))[2]

    first = float(reward(Tally(bonus=jnp.int32(0))))
    assert float(reward(Tally(bonus=jnp.int32(3)))) == first + 3
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (1.0, "action is of type float, not an array of int32"),
        (3, "action=3 is out of bounds"),
        (jnp.float32(1), "action is float32 with shape"),
        (jnp.array([1]), r"action is int32 with shape \(1,\), not int32 with shape \(\)"),
        (jnp.int32(3), "action=3 is out of bounds"),
        (np.int32(-1), "action=-1 is out of bounds"),
    ],
)
def test_a_wrong_action_is_named_with_its_space(action, says):
    env = Tally()
    with pytest.raises(ValueError, match=f"{says}.*The action space of Tally is Discrete.3"):
        env.step(KEY, env.init(KEY), action)


def test_a_traced_action_of_the_wrong_kind_is_named_while_tracing():
    env = Tally()
    with pytest.raises(ValueError, match="action is float32"):
        jax.jit(lambda a: env.step(KEY, env.init(KEY), a))(1.0)


def test_checking_the_action_adds_nothing_to_the_program():
    env, state = Tally(), Tally().init(KEY)

    def unchecked(action):
        after, *rest = env.advance(state, action, env.noise(KEY))
        return env.observe(after), after, *rest

    checked = jax.make_jaxpr(lambda action: env.step(KEY, state, action))(jnp.int32(1))
    assert str(checked) == str(jax.make_jaxpr(unchecked)(jnp.int32(1)))


def test_the_error_of_a_missing_render_names_the_method_to_define():
    class Blind(Tally):
        render = Tally.__mro__[1].render

    with pytest.raises(NotImplementedError, match=r"Blind has no picture: define render\(state\) -> uint8"):
        Blind().render(Tally().init(KEY))


def test_hooks_that_are_missing_are_named():
    class Unfinished(Tally.__mro__[1]):
        action_space = Discrete(2)

    with pytest.raises(TypeError, match="init"):
        Unfinished()


def test_an_episode_ends_at_the_smaller_of_two_limits():
    freeway = make("MinAtar/Freeway-v1")
    assert [episode_limit(Tally(max_steps=n)) for n in (3, None, np.array([3, 7]))] == [3, None, 7]
    assert episode_limit(freeway) == 2501 and episode_limit(freeway.replace(time_limit=10)) == 11
    assert episode_limit(TimeLimit(freeway, 50)) == 50 and episode_limit(TimeLimit(make("CartPole-v1"), None)) is None
    assert episode_limit(make("bsuite/cartpole/0")) == 1001
    assert episode_limit(Trials(TimeLimit(freeway, 50), episodes=3)) == 150
    assert jax.jit(lambda limit: jnp.int32(episode_limit(Tally(max_steps=limit)) is None))(3)


@pytest.mark.parametrize(
    ("wrap", "limits"),
    [
        (lambda env: env, (3, 5)),
        (Wrapper, (3, 5)),
        (StickyActions, (3, 5)),
        (lambda env: Randomize(env, lambda key: OwnLimit()), (3, 5)),
        (lambda env: StickyActions(TimeLimit(env, 4)), (4, 4)),
        (lambda env: TimeLimit(env, None), None),
    ],
)
def test_a_limit_of_the_state_truncates_each_episode_at_its_own(wrap, limits):
    env = wrap(OwnLimit())
    assert env.limit_range == limits and episode_limit(env) == (limits and limits[1])
    lengths = set()
    for seed in range(20):
        state = env.init(jax.random.key(seed))
        own = int(getattr(state, "inner", state).limit)
        truncated = []
        for _ in range(6):
            state, *_, is_truncated, _ = env.advance(state, jnp.int32(0), env.noise(KEY))
            truncated.append(bool(is_truncated))
        steps = own if limits == (3, 5) else limits[0] if limits else 9
        assert truncated == [step >= steps for step in range(1, 7)]
        lengths.add(own)
    assert lengths == {3, 4, 5}


def test_a_limit_that_the_user_gives_holds_for_every_episode():
    env = OwnLimit(max_steps=2)
    assert env.limit_range == (2, 2) and episode_limit(env) == 2
    state, *_, truncated, _ = env.advance(env.init(KEY).replace(time=jnp.int32(1)), jnp.int32(0), None)
    assert bool(truncated) and int(state.limit) > 2


def test_trials_of_episodes_with_limits_of_their_own_end_with_the_last_one():
    env = Trials(OwnLimit(), episodes=2)
    state = env.init(KEY)
    assert env.limit_range is None and env.longest_episode == 10
    flags = []
    for _ in range(int(state.starts.limit.sum())):
        state, _, terminated, truncated, _ = env.advance(state, jnp.int32(0), None)
        flags.append((bool(terminated), bool(truncated)))
    assert flags == [(False, False)] * (len(flags) - 1) + [(True, False)]
