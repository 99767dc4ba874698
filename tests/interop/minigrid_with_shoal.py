"""A plugin for pytest that lets MiniGrid's own tests run on shoal's environments.

`gymnasium.make("MiniGrid-...")` then makes the one of shoal; ids that shoal does not have are not registered. The names
of tests that fail on the way are those of MiniGrid's functions, so that the caller can count them.
"""

import sys
import types

import gymnasium
import minigrid  # noqa: F401  # registers its ids

from shoal.core.registry import ENVS
from shoal.interop.gymnasium_env import ShoalEnv

# MiniGrid's tests choose the ids whose entry point begins with "minigrid.envs", and those of BabyAI by its folder.
FOLDERS = ("minigrid.envs.babyai", "minigrid.envs")


for name, spec in list(gymnasium.registry.items()):
    entry = spec.entry_point if isinstance(spec.entry_point, str) else ""
    folder = next((each for each in FOLDERS if entry.startswith(each)), None)
    if folder is None:
        continue
    if name not in ENVS:
        del gymnasium.registry[name]
        continue
    module = sys.modules.setdefault(f"{folder}.of_shoal", types.ModuleType(f"{folder}.of_shoal"))
    module.ShoalEnv = ShoalEnv
    gymnasium.registry[name] = gymnasium.envs.registration.EnvSpec(
        id=name, entry_point=f"{folder}.of_shoal:ShoalEnv", kwargs={"env": name}
    )
