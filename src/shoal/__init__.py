"""Train reinforcement-learning agents by the thousand: worlds, learning rule and search in one compiled JAX program.

    import shoal
    from shoal import PPO

    result = shoal.train(PPO(learning_rate=1e-3), "CartPole-v1", steps=100_000, seeds=16)
    policy = result.policy("best")
    action = policy(observation)

Names are loaded when they are first used, so that importing the package neither wakes a device nor imports JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.agents.ppo import PPO as PPO
    from shoal.api import compare as compare
    from shoal.api import evaluate as evaluate
    from shoal.api import load as load
    from shoal.api import load_result as load_result
    from shoal.api import preset as preset
    from shoal.api import record as record
    from shoal.api import register as register
    from shoal.api import rollout as rollout
    from shoal.api import train as train
    from shoal.core.agent import Agent as Agent
    from shoal.core.checks import check_env as check_env
    from shoal.core.env import Env as Env
    from shoal.core.env import State as State
    from shoal.core.keys import make_key as make_key
    from shoal.core.registry import make as make
    from shoal.core.struct import hyper as hyper
    from shoal.core.struct import static as static
    from shoal.core.struct import struct as struct
    from shoal.grid.checks import check_level as check_level
    from shoal.training.host import prepare as prepare
    from shoal.training.policy import Policy as Policy
    from shoal.training.result import Result as Result
    from shoal.viz.gif import animate as animate

_HOME = {
    "shoal.api": ("train", "load", "load_result", "evaluate", "rollout", "record", "compare", "preset", "register"),
    "shoal.training.host": ("prepare",),
    "shoal.core.agent": ("Agent", "Metrics"),
    "shoal.core.checks": ("check_env",),
    "shoal.grid.checks": ("check_level",),
    "shoal.core.env": ("Env", "State"),
    "shoal.core.keys": ("make_key",),
    "shoal.core.registry": ("make",),
    "shoal.core.spaces": ("Box", "Dict", "Discrete", "MultiDiscrete", "Tuple"),
    "shoal.core.struct": ("Number", "hyper", "static", "struct"),
    "shoal.training.policy": ("Policy",),
    "shoal.training.result": ("Result",),
    "shoal.viz.gif": ("animate",),
}
_HOME_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name: a function of the facade, a building block, or an agent's class."""
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("shoal")
        except PackageNotFoundError:  # on PYTHONPATH, never installed
            return "unknown"
    if name[:1].isupper():
        from shoal.api import agent_class

        return agent_class(name)
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOME_OF, "PPO", "__version__"])
