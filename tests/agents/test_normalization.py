"""Observation normalization of every agent with a network: learning does not depend on the scale of observations."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from shoal.agents.normalization import normalized
from shoal.core.env import Env, State
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS
from shoal.core.spaces import Box, Dict, Discrete
from shoal.core.struct import Number, static, static_fields, struct, to_arrays
from shoal.core.wrappers import TransformObservation
from shoal.ops.running import RunningStats
from shoal.rollouts.demonstrations import Demonstrations
from shoal.training import checkpoint


@struct
class DriftState(State):
    """A position, and the sums of all observations of all episodes."""

    place: Float[Array, "2"]
    total: Float[Array, "2"]
    squares: Float[Array, "2"]


@struct
class Drift(Env):
    """A point moves by noise and, less, by the action; the reward is highest at the origin.

    Observations are `offset + scale * place`. The state keeps the sums of observations, so that a test can check what
    a rollout collected.
    """

    scale: Number = 1.0
    offset: Number = 0.0
    max_steps: Number | None = 5
    is_box: bool = static(False)

    @property
    def observation_space(self):
        return Box(-np.inf, np.inf, (2,))

    @property
    def action_space(self):
        return Box(-1.0, 1.0, (1,)) if self.is_box else Discrete(2)

    def init(self, key):
        return DriftState(jnp.int32(0), jax.random.normal(key, (2,), jnp.float32), *jnp.zeros((2, 2), jnp.float32))

    def noise(self, key):
        return jax.random.normal(key, (2,), jnp.float32)

    def transition(self, state, action, noise):
        seen, push = self.observe(state), 0.1 * jnp.sum(action.astype(jnp.float32))
        place = 0.5 * state.place + noise + push
        state = state.replace(place=place, total=state.total + seen, squares=state.squares + seen**2)
        return state, -jnp.sum(jnp.abs(place)), jnp.bool_(False), {}

    def observe(self, state):
        return (self.offset + self.scale * state.place).astype(jnp.float32)

    def carry_over(self, ended, fresh):
        return fresh.replace(total=ended.total, squares=ended.squares)


UPDATES, MEMBERS = 4, 2
SCALES, OFFSETS = np.float32([1, 1000]), np.float32([0, 500])  # of the two members
PLACES = np.random.default_rng(0).normal(size=(32, 2)).astype(np.float32)
ACTIONS = (PLACES[:, 0] < 0).astype(np.int32)
RATE = {"learning_rate": 0.02, "hidden": (8,)}
ROLLOUT = RATE | {"num_envs": 2, "num_steps": 8, "num_minibatches": 2, "horizon": 1e4}
REPLAY = RATE | {"num_envs": 2, "num_steps": 8, "buffer_size": 128, "batch_size": 8, "learning_starts": 8}
CASES = {  # one for each class of agents: (fields, whether actions lie in a box)
    "ppo": (ROLLOUT, False),
    "rl2": (ROLLOUT | {"memory_size": 4}, True),
    "pqn": (ROLLOUT, False),
    "dqn": (REPLAY | {"target_period": 16, "horizon": 1e4}, False),
    "sac": (REPLAY, True),
    "td3": (REPLAY, True),
    "crossq": (REPLAY, True),
    "tqc": (REPLAY, True),
    "droq": (REPLAY, True),
    "fasttd3": (REPLAY | {"v_min": -100.0, "v_max": 100.0}, True),
    "bc": (RATE | {"batch_size": 8, "num_batches": 4, "horizon": 1e4}, False),
    "es": (RATE | {"population_size": 8, "sigma": 0.5}, False),
}
SLOW = ("ppo", "es", "rl2", "pqn", "td3", "crossq", "tqc", "droq", "fasttd3")  # the first two have tests of their own


def cases(*without):
    """The names of cases, as pytest parameters."""
    marks = {name: pytest.mark.slow for name in SLOW}
    return [pytest.param(name, marks=marks.get(name, ())) for name in CASES if name not in without]


@functools.cache
def learned(name):
    """(agents, envs, fresh states, states after some updates) of two members, whose observations differ in scale.

    Both start with statistics of some observations; without these, the first updates would use the wrong scale.
    """
    fields, is_box = CASES[name]
    env_states = [
        Drift(float(scale), float(offset), is_box=is_box) for scale, offset in zip(SCALES, OFFSETS, strict=True)
    ]
    shown = [Demonstrations(world.offset + world.scale * PLACES, ACTIONS) for world in env_states]
    more = {"demonstrations": shown[0]} if name == "bc" else {}
    one = AGENTS[name].build(normalize_observation=True, **fields, **more).bind(env_states[0])
    agents = [one.replace(demonstrations=seen) if name == "bc" else one for seen in shown]
    agent, env = (jax.tree.map(lambda *x: jnp.stack(x), *map(to_arrays, values)) for values in (agents, env_states))

    @jax.jit
    @jax.vmap
    def train(agent, env):
        fresh = agent.init(make_key(0), env)
        if name != "bc":
            fresh = fresh.replace(obs_stats=fresh.obs_stats.update(env.offset + env.scale * PLACES))
        return fresh, jax.lax.fori_loop(0, UPDATES, lambda i, s: agent.update(s, env, i)[0], fresh)

    return agent, env, *train(agent, env)


def policies_of(agent, state):
    """The policy states of all members."""
    return jax.vmap(type(agent).policy_state)(agent, state)


@functools.cache
def answers_of(name):
    """A compiled function: policies [M] -> outputs at the same positions, observed by each at its own scale."""

    @jax.jit
    @jax.vmap
    def answers(agent, env, policy):
        obs = env.offset + env.scale * PLACES
        carry = agent.initial_carry()
        acts = jax.vmap(lambda obs: agent.act(policy, obs, carry, make_key(0), True)[0])(obs)
        return acts, agent.value(policy, obs) if hasattr(agent, "value") else acts

    return answers


@pytest.mark.parametrize("name", cases())
def test_learning_does_not_depend_on_the_scale_of_observations(name):
    agent, env, fresh, state = learned(name)
    acts, values = answers_of(name)(agent, env, policies_of(agent, state))
    np.testing.assert_allclose(acts[1], acts[0], atol=2e-2)
    np.testing.assert_allclose(values[1], values[0], atol=2e-2)
    before = answers_of(name)(agent, env, policies_of(agent, fresh))
    assert not all(np.allclose(old, new, atol=0.1) for old, new in zip(before, (acts, values), strict=True))


@pytest.mark.parametrize("name", cases("bc", "es"))  # es: see test_es.py
def test_observation_statistics_include_every_collected_observation(name):
    agent, env, fresh, state = learned(name)
    world = jax.tree.map(np.asarray, state.env_states.state)  # leaves [M, E, ...]
    steps = UPDATES * agent.steps_per_update
    prior = np.float64(OFFSETS[:, None, None] + SCALES[:, None, None] * PLACES)
    count = steps + len(PLACES)
    mean = (world.total.sum(1) + prior.sum(1)) / count
    np.testing.assert_array_equal(state.obs_stats.count, count)
    np.testing.assert_allclose(state.obs_stats.mean, mean, rtol=1e-3, atol=1e-3)
    variance = (world.squares.sum(1, dtype=np.float64) + (prior**2).sum(1)) / count - mean**2
    np.testing.assert_allclose(jax.vmap(RunningStats.std)(state.obs_stats), np.sqrt(variance), rtol=1e-3)


def test_bc_takes_observation_statistics_from_the_demonstrations():
    _, _, fresh, state = learned("bc")
    shown = OFFSETS[:, None, None] + SCALES[:, None, None] * PLACES
    for stats in (fresh.obs_stats, state.obs_stats):  # which learning does not change
        np.testing.assert_allclose(stats.mean, shown.mean(1), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(jax.vmap(RunningStats.std)(stats), shown.std(1), rtol=1e-4)


@pytest.mark.parametrize("name", [param for param in cases() if "buffer_size" in CASES[param.values[0]][0]])
def test_a_replay_buffer_holds_observations_without_normalization(name):
    _, _, _, state = learned(name)
    stored = np.asarray(state.replay.observed.obs)[:, : UPDATES * 8]
    world = jax.tree.map(np.asarray, state.env_states.state)
    np.testing.assert_allclose(stored.sum((1, 2)), world.total.sum(1), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("name", cases())
def test_a_saved_policy_normalizes_with_the_statistics_of_its_training(name, tmp_path):
    agent, env, fresh, state = learned(name)
    policy = policies_of(agent, state)
    checkpoint.save(tmp_path / "policy", {checkpoint.POLICIES: policy}, "spec", {})
    loaded = checkpoint.restore(tmp_path / "policy", checkpoint.POLICIES, jax.eval_shape(lambda: policy), "spec")
    known = [state, loaded]
    if name != "es":  # whose search begins with no policy
        begun = jax.vmap(type(agent).with_policy)(agent, fresh, loaded)
        known.append(policies_of(agent, begun))
    expected = answers_of(name)(agent, env, policy)
    for other in known:
        for mine, theirs in zip(answers_of(name)(agent, env, other), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(loaded.obs_stats.mean, state.obs_stats.mean)


@pytest.mark.parametrize("name", ["dqn", "sac", "td3", "pqn", "bc"])
def test_policies_without_statistics_have_the_same_leaves_as_before(name):
    fields, is_box = CASES[name]
    more = {"demonstrations": Demonstrations(PLACES, ACTIONS)} if name == "bc" else {}
    env = to_arrays(Drift(is_box=is_box))
    agent = AGENTS[name].build(**fields, **more).bind(env)
    table = checkpoint.leaf_table(jax.eval_shape(lambda: agent.policy_state(agent.init(make_key(0), env))))
    before = {"sac": "actor critics log_alpha", "td3": "actor critics", "bc": "weights"}.get(name, "age weights")
    assert {leaf.split("/")[0] for leaf in table} == set(before.split())


@struct
class Parts(TransformObservation):
    """`Drift` with a choice beside its numbers, which are in a Dict."""

    function: Callable = static(lambda obs: {"choice": (obs[0] > 0).astype(jnp.int32), "numbers": obs})
    space: Any = static(Dict({"choice": Discrete(2), "numbers": Box(-np.inf, np.inf, (2,))}))


@pytest.mark.parametrize("name", [param for param in cases() if param.values[0] != "bc"])
def test_the_numbers_of_a_dict_are_normalized_and_its_choices_are_not(name):
    fields, is_box = CASES[name]
    env = Parts(Drift(1000.0, 500.0, is_box=is_box))
    agent = to_arrays(AGENTS[name].build(normalize_observation=True, **fields).bind(env))
    env = to_arrays(env)
    state = agent.init(make_key(0), env)
    state, metrics = jax.jit(type(agent).update)(agent, state, env, jnp.int32(0))
    stats = state.obs_stats
    assert stats.mean["choice"] is None and np.all(np.abs(stats.mean["numbers"] - 500) < 1000)
    assert np.all(np.abs(stats.std()["numbers"]) > 300)
    seen = normalized(stats, {"choice": jnp.int32(1), "numbers": stats.mean["numbers"] + stats.std()["numbers"]})
    assert seen["choice"] == 1 and seen["choice"].dtype == jnp.int32
    np.testing.assert_allclose(seen["numbers"], 1, rtol=1e-4)
    obs, _ = env.reset(make_key(1))
    action, _ = agent.act(state, obs, agent.initial_carry(), make_key(2), True)
    assert np.isfinite(np.asarray(action)).all() and all(np.isfinite(float(x)) for x in metrics.losses.values())


def test_every_agent_with_a_network_declares_normalize_observation_alike():
    fields = {name: static_fields(AGENTS[name].cls) for name in AGENTS}
    able = {name: known["normalize_observation"] for name, known in fields.items() if "network" in known}
    assert (
        len(able) > 5
        and len({(field.default, *sorted(map(str, field.metadata.items()))) for field in able.values()}) == 1
    )
