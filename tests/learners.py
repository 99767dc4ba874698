"""Registered agents with the settings of their test files, with which they learn a probe within seconds."""

import functools
import importlib.util
from pathlib import Path

import pytest

from shoal.core.errors import Unsuited
from shoal.core.registry import AGENTS, make
from shoal.core.struct import to_arrays

ACTION_PROBES = ("Probe-MatchingAction-v0", "Probe-ContinuousMatching-v0", "Probe-CountedMatching-v0")
# Agents that are another agent with other settings or one other step: `make test` checks only the other agent.
VARIANTS = {
    "a2c": "ppo",
    "rl2": "ppo",
    "c51": "dqn",
    "iqn": "dqn",
    "rainbow": "dqn",
    "redq": "sac",
    "droq": "sac",
    "ddpg": "td3",
    "fasttd3": "td3",
    "double-q": "q-learning",
    "expected-sarsa": "q-learning",
    "sarsa": "q-learning",
}
NO_FIELDS = ("updates", "image", "for_env")  # keys of `CONTRACT` that are not fields of the agent


def all_agents():
    """Names of all agents as pytest parameters; variants are slow."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in VARIANTS else []) for name in sorted(AGENTS)]


@functools.cache
def settings_of_file(file):
    """`CONTRACT` of the test file of a module with agents."""
    spec = importlib.util.spec_from_file_location(f"contract_of_{file}", Path(__file__).parent / "agents" / file)
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    return tests.CONTRACT


def settings_of(agent_name):
    """The settings in the test file of an agent's module with which it learns a probe within seconds."""
    module = AGENTS[agent_name].cls.__module__.rpartition(".")[2]
    return settings_of_file(f"test_{module}.py")[agent_name]


def unbound(agent_name, env, **changes):
    """An agent with the settings of `CONTRACT`; None where these do not cover the environment."""
    settings = settings_of(agent_name)
    fields = {key: value for key, value in settings.items() if key not in NO_FIELDS}
    if for_env := settings.get("for_env"):  # fields that depend on the environment
        extra = for_env(env)
        if extra is None:
            return None
        fields |= extra
    return AGENTS[agent_name].build(**{**fields, **changes})


def bound(agent_name, env, **changes):
    """The same agent bound to an environment; None where `bind` refuses it."""
    agent = unbound(agent_name, env, **changes)
    try:
        return agent and to_arrays(agent.bind(env))
    except Unsuited:
        return None


@functools.cache
def playable(agent_name):
    """The name of a probe whose reward depends on the action and that this agent can play."""
    return next(p for p in ACTION_PROBES if bound(agent_name, make(p)))
