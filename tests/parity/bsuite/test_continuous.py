"""Cart-poles and mountain car: one step from injected states, whole episodes in float64, and the clock."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bsuite.environments import cartpole, mountain_car
from bsuite.experiments.cartpole_swingup.cartpole_swingup import CartpoleSwingup as TheirSwingup

from parity.bsuite.replay import assert_replays, play
from shoal.core.keys import make_key
from shoal.envs.bsuite.cartpole import BsuiteCartpole, steps_to_exceed
from shoal.envs.bsuite.cartpole_swingup import CartpoleSwingup
from shoal.envs.bsuite.mountain_car import BsuiteMountainCar

pytestmark = pytest.mark.sampled

SWINGUP = {"height_threshold": 0.3, "x_reward_threshold": 0.7, "move_cost": 0.2}
PAIRS = {
    "cartpole": (lambda: BsuiteCartpole(), lambda: cartpole.Cartpole(), 0.0),
    "another cartpole": (
        lambda: BsuiteCartpole(height_threshold=0.5, x_threshold=2.0, timescale=0.02, max_time=1.0, init_range=0.2),
        lambda: cartpole.Cartpole(height_threshold=0.5, x_threshold=2.0, timescale=0.02, max_time=1.0, init_range=0.2),
        0.0,
    ),
    # Counts as upright wherever it points, so that rewards are earned at random.
    "rewarding swingup": (
        lambda: CartpoleSwingup(height_threshold=-1.0),
        lambda: TheirSwingup(height_threshold=-1.0),
        np.pi,
    ),
    "swingup": (lambda: CartpoleSwingup(**SWINGUP), lambda: TheirSwingup(**SWINGUP), np.pi),
}


def reset_by_injection(theirs, offset):
    """bsuite draws through a closure that keeps the first generator, so starts are put into the state instead."""

    def put(queue, state):
        numbers = [float(state.x), float(state.x_dot), float(state.theta) - offset, float(state.theta_dot)]
        waiting = iter(numbers)
        theirs._init_fn = lambda: next(waiting)

    return put


@pytest.mark.parametrize("name", PAIRS)
def test_episodes_in_float64_equal_bsuites_with_their_counters(name):
    make_ours, make_theirs, offset = PAIRS[name]
    with jax.enable_x64(True):
        seen = play(make_ours(), 6_000)
    theirs = make_theirs()
    assert_replays(theirs, seen, reset_by_injection(theirs, offset), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("name", ["cartpole", "swingup"])
def test_one_float32_step_from_anywhere_equals_bsuites(name):
    make_ours, make_theirs, _ = PAIRS[name]
    env, theirs = make_ours(), make_theirs()
    rng = np.random.default_rng(0)
    low, high = [-3.2, -3, 0, -6], [3.2, 3, 2 * np.pi, 6]
    states = rng.uniform(low, high, (3_000, 4))
    states[:1000, 2] = rng.uniform(-0.6, 0.6, 1000) % (2 * np.pi)  # near upright
    states[:500, [0, 3]] *= 0.2  # near the middle, and slow
    states = states.astype(np.float32)
    actions, times = rng.integers(0, 3, 3_000), rng.integers(0, 1000, 3_000)

    def step(numbers, time, action):
        x, x_dot, theta, theta_dot = numbers
        state = env.init(make_key(0)).replace(x=x, x_dot=x_dot, theta=theta, theta_dot=theta_dot, time=time)
        state, reward, terminated, _, _ = env.advance(state, action, None)
        return env.observe(state), reward, terminated, jnp.stack([state.x, state.theta, state.theta_dot])

    ours = jax.jit(jax.vmap(step))(states, jnp.asarray(times, jnp.int32), jnp.asarray(actions, jnp.int32))
    obs, reward, done, after = map(np.asarray, ours)
    rewards, compared = [], 0
    for i in range(3_000):
        theirs.reset()
        theirs._state = cartpole.CartpoleState(*states[i].astype(float), time_elapsed=times[i] * 0.01)
        timestep = theirs.step(actions[i])
        x, theta, theta_dot = after[i]
        height = getattr(theirs, "_height_threshold")  # noqa: B009
        margins = [abs(abs(x) - limit) for limit in (3.0, getattr(theirs, "_x_reward_threshold", 3.0))]
        margins += [abs(np.cos(theta) - height), abs(abs(theta_dot) - getattr(theirs, "_theta_dot_threshold", 1e9))]
        if min(margins) < 1e-5:
            continue
        compared += 1
        np.testing.assert_allclose(obs[i], timestep.observation[0], rtol=1e-5, atol=3e-6)
        np.testing.assert_allclose(reward[i], timestep.reward, rtol=1e-6)
        assert done[i] == timestep.last()
        rewards.append(timestep.reward)
    assert compared > 2_950 and 0.03 < np.mean(np.array(rewards) > 0.5) < 0.97


@pytest.mark.parametrize("make_theirs, env", [(cartpole.Cartpole, BsuiteCartpole()), (TheirSwingup, CartpoleSwingup())])
def test_the_clock_ends_an_episode_on_the_step_that_bsuites_float64_clock_does(make_theirs, env):
    theirs = make_theirs()
    theirs.reset()
    steps, last = 0, False
    while not last:
        theirs._state = cartpole.CartpoleState(0, 0, 0, 0, theirs._state.time_elapsed)
        timestep = theirs.step(1)
        steps, last = steps + 1, timestep.last()
    assert steps == env.longest_episode == 1001
    still = jax.jit(env.init)(make_key(0)).replace(x=jnp.float32(0), x_dot=jnp.float32(0), theta=jnp.float32(0))
    still = still.replace(theta_dot=jnp.float32(0))
    push = jax.jit(lambda state: env.advance(state, jnp.int32(1), None))
    for time, expected in ((999, False), (1000, True)):
        state, reward, terminated, truncated, _ = push(still.replace(time=jnp.int32(time)))
        assert bool(terminated) == expected and not truncated and reward == 1
    np.testing.assert_allclose(env.observe(state)[5], timestep.observation[0, 5], rtol=1e-6)
    assert env.observation_space.contains(env.observe(state))


def test_other_clocks_are_counted_as_bsuite_adds_them_up():
    # By hand: 0.5 + 0.5 = 1.0 is not more than 1.0; ten times 0.1 is 0.9999999999999999 in float64.
    assert steps_to_exceed(1.0, 0.5) == 3 and steps_to_exceed(1.0, 0.1) == 11 and steps_to_exceed(0.3, 0.1) == 3


def test_mountain_car_is_bsuites_in_float64_with_its_counter():
    with jax.enable_x64(True):
        seen = play(BsuiteMountainCar(), 12_000, policy=lambda state, action: jnp.where(state.velocity > 0, 2, action))
        short = play(BsuiteMountainCar(episode_steps=37), 2_000)
    start = lambda queue, state: queue.put("uniform", float(state.position))  # noqa: E731
    assert_replays(mountain_car.MountainCar(), seen, start, rtol=1e-6, atol=1e-6)
    assert_replays(mountain_car.MountainCar(37), short, start, rtol=1e-6, atol=1e-6)
    reached = seen.obs[seen.done][:, 0] >= 0.5
    assert reached.sum() > 3


def test_one_float32_step_of_the_mountain_car_equals_bsuites():
    env, theirs = BsuiteMountainCar(), mountain_car.MountainCar()
    rng = np.random.default_rng(0)
    states = rng.uniform([-1.2, -0.07], [0.6, 0.07], (2_000, 2)).astype(np.float32)
    states[:200, 0] = -1.19  # runs into the wall
    actions, times = rng.integers(0, 3, 2_000), rng.integers(0, 1000, 2_000)

    def step(position, velocity, time, action):
        state = env.init(make_key(0)).replace(position=position, velocity=velocity, time=time)
        state, reward, terminated, _, _ = env.advance(state, action, None)
        return env.observe(state), reward, terminated

    columns = (*states.T, jnp.asarray(times, jnp.int32), jnp.asarray(actions, jnp.int32))
    obs, reward, done = map(np.asarray, jax.jit(jax.vmap(step))(*columns))
    for i in range(2_000):
        theirs.reset()
        theirs._position, theirs._velocity, theirs._timestep = float(states[i, 0]), float(states[i, 1]), int(times[i])
        timestep = theirs.step(actions[i])
        np.testing.assert_allclose(obs[i], timestep.observation[0], rtol=1e-6, atol=1e-6)
        assert reward[i] == timestep.reward
        assert done[i] == timestep.last() or abs(obs[i, 0] - 0.5) < 1e-6
