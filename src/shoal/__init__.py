"""Train reinforcement-learning agents by the thousand: environments, agents and search in one compiled JAX program.

    import shoal
    from shoal import PPO

    result = shoal.train(PPO(learning_rate=1e-3), "CartPole-v1", steps=100_000, seeds=16)
    policy = result.policy("best")
    action = policy(observation)

Names are imported when they are first used, so `import shoal` neither imports JAX nor starts a device.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.agents.ppo import PPO as PPO
    from shoal.agents.presets import preset as preset
    from shoal.core.agent import Agent as Agent
    from shoal.core.checks import check_env as check_env
    from shoal.core.env import Env as Env
    from shoal.core.env import State as State
    from shoal.core.keys import make_key as make_key
    from shoal.core.registry import make as make
    from shoal.core.registry import register as register
    from shoal.core.struct import hyper as hyper
    from shoal.core.struct import static as static
    from shoal.core.struct import struct as struct
    from shoal.grid.checks import check_level as check_level
    from shoal.studies.runs import train as train
    from shoal.training.comparison import compare as compare
    from shoal.training.host import prepare as prepare
    from shoal.training.playing import evaluate as evaluate
    from shoal.training.playing import record as record
    from shoal.training.playing import rollout as rollout
    from shoal.training.policy import Policy as Policy
    from shoal.training.result import Result as Result
    from shoal.training.result import load as load
    from shoal.training.result import load_result as load_result
    from shoal.viz.gif import animate as animate

_HOME = {
    "shoal.agents.presets": ("preset",),
    "shoal.core.agent": ("Agent", "Metrics"),
    "shoal.core.checks": ("check_env",),
    "shoal.core.env": ("Env", "State"),
    "shoal.core.keys": ("make_key",),
    "shoal.core.registry": ("make", "register"),
    "shoal.core.spaces": ("Box", "Dict", "Discrete", "MultiDiscrete", "Tuple"),
    "shoal.core.struct": ("Number", "hyper", "static", "struct"),
    "shoal.grid.checks": ("check_level",),
    "shoal.studies.runs": ("train",),
    "shoal.training.comparison": ("compare",),
    "shoal.training.host": ("prepare",),
    "shoal.training.playing": ("evaluate", "record", "rollout"),
    "shoal.training.policy": ("Policy",),
    "shoal.training.result": ("Result", "load", "load_result"),
    "shoal.viz.gif": ("animate",),
}
_HOME_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name: a function, a building block, or an agent's class."""
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("shoal")
        except PackageNotFoundError:  # on PYTHONPATH, never installed
            return "unknown"
    if name[:1].isupper():
        from shoal.core.registry import agent_class

        return agent_class(name)
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOME_OF, "PPO", "__version__"])
