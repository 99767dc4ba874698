"""What every registered agent must do, on worlds whose values are known by hand.

An agent is found by being registered; `CONTRACT` in its own test file says how to make it learn quickly. A probe that
it cannot play (its `bind` refuses) is left out, but everyone plays some.
"""

import functools
import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.struct import hyper_fields, to_arrays
from shoal.nn.torsos import CNN
from shoal.rollouts.evaluate import evaluate

DISCOUNT = 0.9
UPDATES = 200
IMAGE = {"network": CNN(channels=(4,), hidden=(16,)), "learning_rate": 3e-3}  # a network that fits the small picture


def settings_of(name):
    """How the test file of an agent's module says that it learns a probe within seconds."""
    module = AGENTS[name].cls.__module__.rpartition(".")[2]
    file = Path(__file__).with_name(f"test_{module}.py")
    spec = importlib.util.spec_from_file_location(f"contract_of_{module}", file)
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    return tests.CONTRACT[name]


SETTINGS = {name: settings_of(name) for name in AGENTS}
VALUES = {
    "Probe-ConstantReward-v0": {0.0: 1.0},
    "Probe-ObservationReward-v0": {1.0: 1.0, -1.0: -1.0},
    "Probe-DiscountedReward-v0": {0.0: DISCOUNT, 1.0: 1.0},
    "Probe-TimeLimit-v0": {t / 5: 10.0 for t in range(5)},
    "Probe-Termination-v0": {t / 5: (1 - DISCOUNT ** (5 - t)) / (1 - DISCOUNT) for t in range(5)},
    "Probe-CountedTimeLimit-v0": dict.fromkeys(range(5), 10.0),
    "Probe-Chain-v0": {cell: DISCOUNT ** (3 - cell) for cell in range(4)},
}
# Observations that begin an episode: of what comes later an agent with memory cannot speak without what came before.
BEGINNINGS = {"Probe-ObservationReward-v0": [1.0, -1.0]}
BEST_RETURNS = {
    "Probe-ActionReward-v0": 1.0,
    "Probe-MatchingAction-v0": 1.0,
    "Probe-ContinuousAction-v0": 1.0,
    "Probe-ContinuousMatching-v0": 1.0,
    "Probe-MultiDiscrete-v0": 1.0,
    "Probe-Image-v0": 1.0,
    "Probe-CountedMatching-v0": 1.0,
    "Probe-Chain-v0": 1.0,
    "Probe-Mask-v0": -1.0,
}
TELLING = ("Probe-MatchingAction-v0", "Probe-ContinuousMatching-v0", "Probe-CountedMatching-v0")


def unbound(agent_name, env, **changes):
    """An agent as its contract says; None where it says nothing about such an environment."""
    fields = {key: value for key, value in SETTINGS[agent_name].items() if key not in ("updates", "image", "for_env")}
    if for_env := SETTINGS[agent_name].get("for_env"):  # what it can only be told for each world
        more = for_env(env)
        if more is None:
            return None
        fields |= more
    return AGENTS[agent_name].build(**{**fields, **changes})


def bound(agent_name, env, **changes):
    """The same for an environment; None where the two cannot work together."""
    agent = unbound(agent_name, env, **changes)
    try:
        return agent and to_arrays(agent.bind(env))
    except Unsuited:
        return None


def playable(agent_name):
    """A probe that tells actions apart and that this agent can play, by name."""
    return next(p for p in TELLING if bound(agent_name, make(p)))


def seen(env, obs):
    """A number as an observation of a world: a count, or the one entry of a vector."""
    space = env.observation_space
    return jnp.full(space.shape, obs, space.dtype)


def pairs(probes):
    """All agents and the probes that they can play."""
    return [(name, probe) for name in sorted(AGENTS) for probe in sorted(probes) if bound(name, make(probe))]


def learn(agent_name, env_name):
    """A member trained on a probe: (agent, state, env)."""
    env = make(env_name)
    has_network = "network" in AGENTS[agent_name].cls.__dataclass_fields__
    image = {**IMAGE, **SETTINGS[agent_name].get("image", {})}
    agent = bound(agent_name, env, **(image if env_name == "Probe-Image-v0" and has_network else {}))

    @jax.jit
    def train(key):
        state = agent.init(key, env)
        updates = SETTINGS[agent_name].get("updates", UPDATES)
        return jax.lax.fori_loop(0, updates, lambda i, s: agent.update(s, env, i)[0], state)

    return agent, train(make_key(0)), env


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_everyone_plays_some_probes(name):
    assert sum(name == agent for agent, _ in pairs(BEST_RETURNS)) >= 2


@pytest.mark.parametrize(("name", "probe"), [(n, p) for n, p in pairs(VALUES) if hasattr(AGENTS[n].cls, "value")])
def test_values_are_those_computed_by_hand(name, probe):
    agent, state, env = learn(name, probe)
    remembers = agent.initial_carry() is not None
    known = {obs: VALUES[probe][obs] for obs in BEGINNINGS.get(probe, [0.0])} if remembers else VALUES[probe]
    for obs, expected in known.items():
        value = agent.value(state, seen(env, obs))
        np.testing.assert_allclose(value, expected, atol=0.05 * max(1.0, abs(expected)), err_msg=f"at {obs}")


@pytest.mark.parametrize(("name", "probe"), pairs(BEST_RETURNS))
def test_policies_find_the_best_actions(name, probe):
    agent, state, env = learn(name, probe)
    result = evaluate(agent, state, to_arrays(env), make_key(1), episodes=64, horizon=5)
    np.testing.assert_allclose(result.episode_return, BEST_RETURNS[probe], atol=0.02)


@pytest.mark.parametrize(
    "name", [n for n, p in pairs(["Probe-Memory-v0"]) if bound(n, make(p)).initial_carry() is not None]
)
def test_an_agent_with_memory_answers_what_was_shown_before(name):
    agent, state, env = learn(name, "Probe-Memory-v0")
    result = evaluate(agent, state, to_arrays(env), make_key(1), episodes=64, horizon=5)
    np.testing.assert_array_equal(result.episode_return, 1.0)


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_a_member_among_others_equals_a_member_alone(name):
    # Of four members every second one has other numbers, the least that a search would try.
    env = make(playable(name))
    usual = bound(name, env)
    searched = {name: about.metadata["search"] for name, about in hyper_fields(usual).items()}
    other = to_arrays(usual.replace(**{name: over.low for name, over in searched.items() if over}))

    def train(agent, key):
        state = agent.init(key, env)
        return jax.lax.fori_loop(0, 4, lambda i, s: agent.update(s, env, i)[0], state)

    agents = jax.tree.map(lambda *x: jnp.stack(x), usual, other, usual, other)
    keys = jax.random.split(make_key(0), 2)[jnp.asarray([0, 0, 1, 1])]
    together = _numbers(jax.jit(jax.vmap(train))(agents, keys))
    alone = jax.jit(train)
    for member, agent in ((2, usual), (3, other)):
        for many, one in zip(together, _numbers(alone(agent, keys[member])), strict=True):
            np.testing.assert_allclose(many[member], one, atol=1e-4, rtol=1e-4)
    assert any(not np.allclose(many[2], many[3]) for many in together)  # so the numbers matter


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_an_agent_that_was_not_bound_says_so(name):
    env, agent = make(playable(name)), unbound(name, make(playable(name)))
    uses = {
        "init": (make_key(0), env),
        "update": (None, env, jnp.int32(0)),
        "act": (None, seen(env, 1), None, make_key(0), True),
        "value": (None, seen(env, 1)),
    }
    for hook in (hook for hook in uses if hasattr(agent, hook)):
        with pytest.raises(ValueError, match=r"not bound to an environment: call `agent = agent.bind\(env\)` first"):
            getattr(agent, hook)(*uses[hook])


@functools.cache
def begun(name):
    """(agent, env, a new member, one update as a compiled function, a list with an entry for every trace of it)."""
    env = make(playable(name))
    traces = []

    @jax.jit
    def one_update(agent, env, state, clock):
        traces.append(1)
        return agent.update(state, env, clock)[0]

    agent = bound(name, env)
    return agent, to_arrays(env), jax.jit(agent.init)(make_key(0), env), one_update, traces


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_a_copy_differs_from_its_original_by_its_key_alone(name):
    agent, env, original, one_update, _ = begun(name)

    def after_two_updates(state):
        clock = jnp.int32(0)
        return _numbers(one_update(agent, env, one_update(agent, env, state, clock), clock))

    def equal(state, other):
        return [np.array_equal(x, y, equal_nan=True) for x, y in zip(state, other, strict=True)]

    expected = after_two_updates(original)
    assert all(equal(_numbers(agent.reseed(original, make_key(7))), _numbers(original)))
    assert all(equal(after_two_updates(agent.reseed(original, original.key)), expected))
    assert not all(equal(after_two_updates(agent.reseed(original, make_key(7))), expected))


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_a_member_that_enters_late_learns_as_one_from_the_start(name):
    # At another time of the run it fills other rows of a buffer, and in another order: what it learns is the same.
    agent, env, start, one_update, _ = begun(name)

    def policy_after(updates, clock):
        state = start
        for i in range(updates):
            state = one_update(agent, env, state, jnp.int32(clock + i))
        return _numbers(agent.policy_state(state))

    for early, late in zip(policy_after(8, 0), policy_after(8, 3), strict=True):
        np.testing.assert_array_equal(early, late)


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_changing_numbers_never_recompiles(name):
    agent, env, state, one_update, traces = begun(name)
    one_update(agent, env, state, jnp.int32(0))
    for field, description in hyper_fields(agent).items():
        low = description.metadata["search"].low if description.metadata["search"] else description.default
        one_update(to_arrays(agent.replace(**{field: low})), env, state, jnp.int32(0))
    assert len(traces) == 1


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_keys_are_never_used_twice(name):
    env = make(playable(name))
    agent = bound(name, env)
    with jax.debug_key_reuse(True):
        state = jax.jit(agent.init)(make_key(0), env)
        jax.jit(agent.update)(state, env, jnp.int32(0))


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_the_policy_alone_acts_like_the_whole_state(name):
    env = make(playable(name))
    agent = bound(name, env)

    @jax.jit
    def train(key):  # until weights and their targets differ
        state = agent.init(key, env)
        return jax.lax.fori_loop(0, 20, lambda i, s: agent.update(s, env, i)[0], state)

    state = train(make_key(0))
    if hasattr(agent, "value"):
        assert jnp.array_equal(*(agent.value(known, seen(env, 1)) for known in (state, agent.policy_state(state))))
    for greedy in (True, False):
        whole = agent.act(state, seen(env, 1), agent.initial_carry(), make_key(1), greedy)
        part = agent.act(agent.policy_state(state), seen(env, 1), agent.initial_carry(), make_key(1), greedy)
        assert jnp.array_equal(whole[0], part[0])


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", sorted(AGENTS))
def test_the_state_keeps_its_structure(name, x64):
    # So that a loop of updates can carry it, and what is summed over them; also where JAX has 64 bits.
    env = make(playable(name))
    with jax.enable_x64(x64):
        agent = bound(name, env)
        before = jax.eval_shape(agent.init, make_key(0), to_arrays(env))
        after, metrics = jax.eval_shape(agent.update, before, to_arrays(env), jnp.int32(0))
        policy = jax.eval_shape(agent.policy_state, before)
    assert jax.tree.structure(before) == jax.tree.structure(after)
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert (old.shape, old.dtype) == (new.shape, new.dtype)
    for leaf in jax.tree.leaves((policy, metrics.episodes, metrics.losses)):
        assert leaf.dtype.itemsize <= 4 or jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _numbers(tree):
    return [x for x in jax.tree.leaves(tree) if not jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)]
