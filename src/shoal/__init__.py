"""Train many reinforcement-learning agents at once: environments, agents and search in one compiled JAX program.

    import shoal
    from shoal import PPO

    result = shoal.train(PPO(learning_rate=1e-3), "CartPole-v1", steps=100_000, seeds=16)
    policy = result.policy("best")
    action = policy(observation)

Names are imported when they are first used, so `import shoal` neither imports JAX nor starts a device. The file
`__init__.pyi` lists them.
"""

import importlib
import re
from typing import Any

with open(f"{__file__}i", encoding="utf-8") as _file:  # pathlib would take a third of the time of `import shoal`
    _STUB = _file.read()
_HOMES = {name: f"shoal.{home}" for home, name in re.findall(r"^from \.(\S+) import (\w+)", _STUB, flags=re.MULTILINE)}


def __getattr__(name: str) -> Any:
    """Import a public name: a function, a class, or the class of a registered agent, also one of a plug-in."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("shoal")
        except PackageNotFoundError:  # on PYTHONPATH, never installed
            return "unknown"
    from shoal.core.aliases import OTHER_NAMES

    if name in OTHER_NAMES:
        raise AttributeError(f"shoal has no {name!r}: {OTHER_NAMES[name]}.")
    if name[:1].isupper():
        from shoal.core.registry import agent_class

        return agent_class(name)
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__"])
