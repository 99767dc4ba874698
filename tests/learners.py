"""Registered agents with the settings of their test files, with which they learn a probe within seconds."""

import functools
import importlib.util
from pathlib import Path

import pytest

from shoal.core.errors import Unsuited
from shoal.core.registry import AGENTS, make
from shoal.core.struct import to_arrays

TELLING = ("Probe-MatchingAction-v0", "Probe-ContinuousMatching-v0", "Probe-CountedMatching-v0")
# Agents that are another one with other settings, or with one step of its own: `make test` checks the other one.
RELATIVES = {
    "a2c": "ppo",
    "rl2": "ppo",
    "c51": "dqn",
    "ddpg": "td3",
    "double-q": "q-learning",
    "expected-sarsa": "q-learning",
    "sarsa": "q-learning",
}
NO_FIELDS = ("updates", "image", "for_env")  # what `CONTRACT` says beside fields of the agent


def everyone():
    """Names of all agents as pytest parameters; relatives are slow."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in RELATIVES else []) for name in sorted(AGENTS)]


@functools.cache
def settings_of_file(file):
    """`CONTRACT` of the test file of a module with agents."""
    spec = importlib.util.spec_from_file_location(f"contract_of_{file}", Path(__file__).parent / "agents" / file)
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    return tests.CONTRACT


def settings_of(agent_name):
    """How the test file of an agent's module says that it learns a probe within seconds."""
    module = AGENTS[agent_name].cls.__module__.rpartition(".")[2]
    return settings_of_file(f"test_{module}.py")[agent_name]


def unbound(agent_name, env, **changes):
    """An agent as its contract says; None where it says nothing about such an environment."""
    settings = settings_of(agent_name)
    fields = {key: value for key, value in settings.items() if key not in NO_FIELDS}
    if for_env := settings.get("for_env"):  # what it can only be told for each world
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


@functools.cache
def playable(agent_name):
    """A probe that tells actions apart and that this agent can play, by name."""
    return next(p for p in TELLING if bound(agent_name, make(p)))
