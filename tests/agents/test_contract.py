"""Contract tests of every registered agent: `check_agent`, and probe environments whose values are known by hand.

The tests run for every registered agent. `CONTRACT` in the agent's own test file has the settings with which it learns
a probe quickly. Probes that an agent cannot play (its `bind` refuses them) are left out, but every agent plays some.
Probes with the same observation and action spaces share one compiled program, because compilation takes most time.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import Several
from learners import RELATIVES, bound, everyone, playable, settings_of, unbound
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import to_arrays
from shoal.nn.torsos import CNN
from shoal.rollouts.checks import check_agent
from shoal.rollouts.evaluate import evaluate

DISCOUNT = 0.9
UPDATES = 200
IMAGE = {"network": CNN(channels=(4,), hidden=(16,)), "learning_rate": 3e-3}  # a network that fits the small picture

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
ALONE = ("Probe-MultiDiscrete-v0", "Probe-Image-v0", "Probe-Mask-v0", "Probe-Memory-v0")
# Probes that share a program, and the space that all their observations lie in.
GROUPS = {
    "numbers": (
        (
            "Probe-ConstantReward-v0",
            "Probe-ObservationReward-v0",
            "Probe-DiscountedReward-v0",
            "Probe-ActionReward-v0",
            "Probe-MatchingAction-v0",
            "Probe-TimeLimit-v0",
            "Probe-Termination-v0",
        ),
        Box(-1.0, 2.0, (1,)),
    ),
    "dials": (("Probe-ContinuousAction-v0", "Probe-ContinuousMatching-v0"), Box(-1.0, 1.0, (1,))),
    "counts": (("Probe-CountedTimeLimit-v0", "Probe-Chain-v0", "Probe-CountedMatching-v0"), Discrete(5)),
    **{probe: ((probe,), None) for probe in ALONE},
}


# What `make test` plays, where it is not "numbers"; the wider ones compile as much again for each agent. Other agents
# with choices know values by hand; that a time limit bootstraps for SAC is tested in its own file.
FIRST = {"ppo": ("numbers", "dials"), "sac": ("dials",), "td3": ("dials",)}


def everyone_s_lessons():
    """(agent, whether its wider lessons are meant) as pytest parameters: those and relatives are slow."""
    return [
        pytest.param(name, wider, id=f"{name}-wider" if wider else name, marks=[pytest.mark.slow] if slow else [])
        for name in sorted(AGENTS)
        for wider, slow in ((False, name in RELATIVES), (True, True))
    ]


@functools.cache
def lessons(name, group):
    """{probe: (agent, environment)} of a group, without those that the agent cannot play.

    Probes that share a program are values of one class, for one agent; but each alone where an agent is told something
    else for each of them.
    """
    probes, space = GROUPS[group]
    worlds, settings = {probe: make(probe) for probe in probes}, settings_of(name)
    if space is not None and "for_env" not in settings:
        several = Several.of(tuple(worlds.values()), space)
        agent = bound(name, several)
        return {probe: (agent, several.only(i)) for i, probe in enumerate(probes)} if agent else {}
    has_network = group == "Probe-Image-v0" and "network" in AGENTS[name].cls.__dataclass_fields__
    image = {**IMAGE, **settings.get("image", {})} if has_network else {}
    pairs = {probe: (bound(name, world, **image), to_arrays(world)) for probe, world in worlds.items()}
    return {probe: pair for probe, pair in pairs.items() if pair[0]}


@functools.cache
def learned(name, group):
    """{probe: (values of all observations that are asked for, returns of 64 greedy episodes)} after training."""
    lesson, asked = jax.jit(learn), jnp.asarray(observations(group))
    updates = settings_of(name).get("updates", UPDATES)
    return {probe: lesson(agent, env, asked, updates) for probe, (agent, env) in lessons(name, group).items()}


def learn(agent, env, asked, updates):
    """Train a member: (its values of the observations that are asked for, returns of greedy episodes)."""
    state = agent.init(make_key(0), env)
    state = jax.lax.fori_loop(0, updates, lambda i, s: agent.update(s, env, i)[0], state)
    space = env.observation_space
    see = jax.vmap(lambda obs: jnp.full(space.shape, obs, space.dtype))
    values = jax.vmap(lambda obs: agent.value(state, obs))(see(asked)) if hasattr(agent, "value") else None
    return values, evaluate(agent, state, env, make_key(1), episodes=64, horizon=5).episode_return


def observations(group):
    """Those that the values of a group's probes are known for, as numbers."""
    return sorted({obs for probe in GROUPS[group][0] for obs in VALUES.get(probe, {0.0: 0.0})})


def probes_of(name, known, groups=tuple(GROUPS)):
    """(probe, group) of those that are known and that an agent can play."""
    return [(probe, group) for group in groups for probe in lessons(name, group) if probe in known]


def taught(name, wider):
    """The first groups of probes, or those beyond; an agent that can play none of the first begins with the others."""
    first = FIRST.get(RELATIVES.get(name, name), ("numbers",))
    beyond = [group for group in GROUPS if group not in first]
    return beyond if wider or not any(lessons(name, group) for group in first) else first


@pytest.mark.parametrize("name", everyone())
def test_an_agent_keeps_the_contract(name):
    env = make(playable(name))
    check_agent(unbound(name, env), env)


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_every_agent_can_play_some_probes(name):
    assert len(probes_of(name, BEST_RETURNS)) >= 2


def test_every_probe_is_in_a_group():
    assert sorted(probe for probes, _ in GROUPS.values() for probe in probes) == sorted(
        {*VALUES, *BEST_RETURNS, "Probe-Memory-v0"}
    )


@pytest.mark.parametrize(("name", "wider"), everyone_s_lessons())
def test_values_are_those_computed_by_hand(name, wider, subtests):
    for probe, group in probes_of(name, VALUES, taught(name, wider)) if hasattr(AGENTS[name].cls, "value") else []:
        with subtests.test(probe):
            values = dict(zip(observations(group), np.asarray(learned(name, group)[probe][0]), strict=True))
            remembers = lessons(name, group)[probe][0].initial_carry() is not None
            for obs in BEGINNINGS.get(probe, [0.0]) if remembers else VALUES[probe]:
                expected = VALUES[probe][obs]
                np.testing.assert_allclose(
                    values[obs], expected, atol=0.05 * max(1.0, abs(expected)), err_msg=f"at {obs}"
                )


@pytest.mark.parametrize(("name", "wider"), everyone_s_lessons())
def test_policies_find_the_best_actions(name, wider, subtests):
    for probe, group in probes_of(name, BEST_RETURNS, taught(name, wider)):
        with subtests.test(probe):
            np.testing.assert_allclose(learned(name, group)[probe][1], BEST_RETURNS[probe], atol=0.02)


@pytest.mark.slow  # PPO with either cell is trained on the same probe in its own tests
def test_recurrent_agents_solve_the_memory_probe(subtests):
    probe = "Probe-Memory-v0"
    agents = {name: lessons(name, probe)[probe][0] for name in sorted(AGENTS) if lessons(name, probe)}
    remembering = [name for name, agent in agents.items() if agent.initial_carry() is not None]
    assert remembering
    for name in remembering:
        with subtests.test(name):
            np.testing.assert_array_equal(learned(name, probe)[probe][1], 1.0)
