"""The compiled program of one member: which state is kept, and what is counted, after a non-finite update."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int

import shoal
from shoal.core.agent import Agent, Buffer, Metrics
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import Number, Struct, hyper, struct
from shoal.rollouts.episodes import EpisodeStats
from shoal.specs.spec import RunSpec
from shoal.training.plan import make_plan
from shoal.training.program import begin, train_chunk
from tiny import FIELDS


@struct
class Visited(Buffer):
    """The weights that an update began with."""

    sum: Float[Array, ""]


@struct
class SteepState(Struct):
    """One weight."""

    age: Int[Array, ""]
    weight: Float[Array, ""]
    visited: Visited


@struct
class Steep(Agent):
    """Descent on exp(4 w), whose derivative 4 exp(4 w) overflows float32 before the value does: at w = 22, not 21."""

    start: Number = hyper(0.0)
    warm_up: Number = hyper(0.0, spans_run=True)
    cool_down: Number = hyper(5.0, spans_run=True)
    other: Number = hyper(0.0)

    def bind(self, env):
        return self

    def init(self, key, env):
        return SteepState(jnp.int32(0), jnp.float32(self.start), Visited(jnp.float32(0)))

    def update(self, state, env, clock):
        loss, slope = jax.value_and_grad(lambda w: jnp.exp(4 * w))(state.weight)
        one_episode = EpisodeStats.of(jnp.array([True]), jnp.array([1.0]), jnp.array([2]))
        visited = Visited(state.visited.sum + state.weight)
        state = SteepState(state.age + 1, state.weight - slope, visited)
        return state, Metrics(one_episode, {"loss": loss})

    def policy_state(self, state):
        return state.weight

    def act(self, state, obs, carry, key, greedy, mask=None):
        return jnp.int32(0), carry

    @property
    def steps_per_update(self):
        return 2


def train(start, updates):
    """A member that began with a weight, and its metrics, after one chunk."""
    agent, env = Steep(start=start), make("CartPole-v1")
    member = begin(agent, env, jnp.int32(0), make_key(0))
    member, total = jax.jit(train_chunk)(member, agent, env, None, jnp.int32(0), jnp.int32(updates))
    return member, total


@pytest.mark.parametrize("updates", [1, 5])
def test_a_gradient_that_overflows_is_undone_although_its_loss_is_finite(updates):
    member, metrics = train(22.0, updates)
    assert np.exp(88) < np.finfo(np.float32).max < 4 * np.exp(88)
    assert not member.alive and member.state.weight == 22.0 and member.state.age == 0
    assert np.isnan(metrics.mean_losses["loss"])


def test_a_replay_buffer_keeps_the_samples_of_an_undone_update():
    member, _ = train(22.0, 1)
    assert member.state.visited.sum == 22.0 and member.state.age == 0


def test_horizon_fields_of_zero_are_set_to_the_length_of_the_run():
    agent: Any = make_plan(RunSpec(agent="steep", env="CartPole-v1", steps=33, seeds=2), agent=Steep()).agent
    assert (agent.warm_up, agent.cool_down, agent.other) == (34.0, 5.0, 0.0)


def test_a_stopped_member_counts_no_further_episodes():
    _, metrics = train(22.0, 5)
    assert metrics.episodes.count == 0 and metrics.episodes.return_sum == 0
    member, metrics = train(0.0, 5)
    assert member.alive and member.state.age == 5 and metrics.episodes.count == 5
    np.testing.assert_allclose(metrics.mean_losses["loss"], np.mean(np.exp(4 * _descent(5))), rtol=1e-6)


def _descent(updates):
    weights = [0.0]
    for _ in range(updates - 1):
        weights.append(weights[-1] - 4 * np.exp(4 * weights[-1]))
    return np.array(weights)


def test_agents_with_equal_static_fields_share_a_program():
    bound = [shoal.PPO(**FIELDS).bind(shoal.make("CartPole-v1")) for _ in range(2)]
    assert jax.tree.structure(bound[0]) == jax.tree.structure(bound[1])
    assert jax.tree.structure(shoal.PPO(**{**FIELDS, "num_steps": 8}).bind(shoal.make("CartPole-v1"))) != (
        jax.tree.structure(bound[0])
    )


@struct
class Constant(Steep):
    """Its loss is 0.1 in every update."""

    def update(self, state, env, clock):
        return state.replace(age=state.age + 1), Metrics(EpisodeStats.zero(), {"loss": jnp.float32(0.1)})


def test_the_mean_loss_of_many_updates_is_exact():
    env = make("Probe-MatchingAction-v0")
    member = begin(Constant(), env, jnp.int32(0), make_key(0))
    chunk = jax.jit(lambda member: train_chunk(member, Constant(), env, None, jnp.int32(0), jnp.int32(10**6)))
    np.testing.assert_allclose(chunk(member)[1].mean_losses["loss"], 0.1, rtol=1e-6)
