"""`Puppet`: messages control a frozen agent, whose actions are executed in the inner environment."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from environments import Tally, advance, init, noise, observe
from shoal.agents.ppo import PPO
from shoal.core.agent import Actor
from shoal.core.checks import check_env
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import struct
from shoal.core.wrappers import CheapTalk, Puppet, Trials
from shoal.envs.classic.cartpole import CartPole
from shoal.envs.meta.goals import CartPoleGoal

KEY = jax.random.key(5)


@struct
class Listener(Actor):
    """Pushes right where weights @ observation > 0, or at random when sampling; counts its steps in the carry."""

    def initial_carry(self):
        return jnp.int32(10)

    def act(self, state, obs, carry, key, greedy, mask=None):
        action = (jnp.sum(state * obs) > 0).astype(jnp.int32)
        sampled = jax.random.bernoulli(key).astype(jnp.int32)
        return (action if greedy else sampled), carry + 1


# The victim adds what it sees of x and the first number of the message, and ignores everything else.
WEIGHTS = np.asarray([1.0, 0, 0, 0, 1.0, 0], np.float32)
PUPPET = Puppet(CartPoleGoal(), Listener(), WEIGHTS)


def constant_message(obs, key):
    return jnp.ones(2)


@pytest.mark.parametrize(("x", "message", "action"), [(0.5, -0.4, 1), (0.5, -0.6, 0), (-0.5, 0.6, 1), (-0.5, 3.0, 1)])
def test_the_victim_acts_on_its_observation_and_the_message(x, message, action):
    state = init(PUPPET, KEY)
    inner = state.inner.replace(inner=state.inner.inner.replace(x=jnp.float32(x)))
    after, reward, terminated, truncated, _ = advance(
        PUPPET, state.replace(inner=inner), jnp.asarray([message, -3.0], jnp.float32), None
    )
    alone, *same = advance(PUPPET.env, inner, jnp.int32(action), None)
    jax.tree.map(np.testing.assert_array_equal, after.inner, alone)
    assert same[:3] == [reward, terminated, truncated]
    assert int(after.carry) == 11 and int(after.time) == int(alone.time) == 1


def test_a_puppet_keeps_the_contract():
    check_env(Puppet(CartPole(), Listener(), WEIGHTS), steps=8)


def test_a_rollout_of_a_puppet_without_noise_runs():
    puppet = Puppet(CartPole(), Listener(), WEIGHTS)
    assert noise(puppet, KEY) is None
    played = shoal.rollout(constant_message, puppet, num_steps=3, keep=("obs", "reward"))
    assert played["reward"].tolist() == [1, 1, 1] and played["obs"].shape == (3, 4)


def test_the_exploiter_sees_the_goal_and_sends_bounded_messages():
    obs = observe(PUPPET, init(PUPPET, KEY))
    assert set(obs) == {"observation", "goal"} and obs["observation"].shape == (4,)
    assert repr(PUPPET.action_space) == repr(Box(-np.pi, np.pi, (2,)))
    assert PUPPET.action_mask(init(PUPPET, KEY)) is None


def test_without_parts_the_victim_reads_the_whole_observation():
    puppet = Puppet(CartPole(), Listener(), WEIGHTS)
    state = init(puppet, KEY)
    after, *_ = advance(puppet, state, jnp.asarray([1.0, 0.0]), None)
    pushed, *_ = advance(puppet.env, state.inner, jnp.int32(1), None)
    np.testing.assert_array_equal(after.inner.x_dot, pushed.x_dot)


def test_sampled_actions_use_the_noise():
    puppet = Puppet(CartPole(), Listener(), WEIGHTS, greedy=False)
    state, silence, pushed = init(puppet, KEY), jnp.zeros(2), set()
    for seed in range(8):
        key, inner = sampled = noise(puppet, jax.random.key(seed))
        after, *_ = advance(puppet, state, silence, sampled)
        assert inner is None and (after.inner.x_dot > state.inner.x_dot) == bool(jax.random.bernoulli(key))
        pushed.add(bool(after.inner.x_dot > state.inner.x_dot))
    assert pushed == {False, True}


@pytest.fixture(scope="module")
def victim():
    """A PPO agent of CartPole with messages, bound, with its first weights."""
    env = CheapTalk(CartPole(), hidden=())
    agent = PPO(hidden=(4,), shared=True, num_steps=4, normalize_observation=True).bind(env)
    return agent, agent.policy_state(agent.init(KEY, env))


def test_an_agent_of_shoal_is_a_victim_bound_or_not(victim):
    agent, weights = victim
    puppet = Puppet(CartPoleGoal(), agent, weights)
    unbound = Puppet(CartPoleGoal(), PPO(hidden=(4,), shared=True, num_steps=4, normalize_observation=True), weights)
    assert unbound.actor.observation_space.shape == (6,) and unbound.actor.action_space == Discrete(2)
    state, message = init(puppet, KEY), jnp.asarray([3.0, -3.0])
    both = [advance(each, state, message, None)[0] for each in (puppet, unbound)]
    jax.tree.map(np.testing.assert_array_equal, *both)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda agent, w: Puppet(CartPoleGoal(), "ppo", w), TypeError, "give policy.actor and policy.weights"),
        (lambda agent, w: Puppet(CartPoleGoal(), agent, w, size=3), ValueError, "set size to the numbers in the mess"),
        (lambda agent, w: Puppet(Tally(), agent, w), ValueError, "FlattenObservation around the environment first"),
        (lambda agent, w: Puppet(Trials(CartPole()), agent, w, size=0), ValueError, "at least one number"),
    ],
)
def test_what_is_no_victim_is_refused(victim, make, error, said):
    with pytest.raises(error, match=said):
        make(*victim)


def test_messages_reach_a_victim_that_normalizes_and_never_got_one(victim):
    agent, untrained = victim
    seen = np.random.default_rng(0).normal(size=(20, 6)) * [1, 2, 3, 4, 0, 0]  # messages of 0
    trained = untrained.replace(obs_stats=untrained.obs_stats.update(jnp.asarray(seen, jnp.float32)))
    weights = Puppet(CartPole(), agent, trained).weights
    # A uniform number in [-pi, pi] has the standard deviation pi / sqrt(3).
    np.testing.assert_allclose(weights.obs_stats.std()[4:], np.pi / np.sqrt(3), rtol=1e-5)
    seen = weights.obs_stats.normalize(jnp.asarray([0, 0, 0, 0, 1e-3, 1.0]))[4:]
    np.testing.assert_allclose(seen, np.sqrt(3) / np.pi * np.asarray([1e-3, 1.0]), rtol=1e-5)
    np.testing.assert_array_equal(weights.obs_stats.deviation[:4], trained.obs_stats.deviation[:4])
    of_members = Puppet(CartPole(), agent, jax.tree.map(lambda x: jnp.stack([x, x]), trained)).weights
    np.testing.assert_array_equal(of_members.obs_stats.deviation, [weights.obs_stats.deviation] * 2)
