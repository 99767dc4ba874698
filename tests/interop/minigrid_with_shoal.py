"""A plugin for pytest with which MiniGrid's own tests run on shoal's environments; see test_minigrid_suite.py.

`gymnasium.make("MiniGrid-...")` then makes that of shoal. Ids that shoal does not have are removed.
"""

import sys
import types

import gymnasium
import minigrid  # noqa: F401  # registers its ids
from gymnasium.envs.registration import EnvSpec, WrapperSpec

from shoal.core.registry import ENVS
from shoal.interop.gymnasium_env import ShoalEnv

TEXTS = WrapperSpec("TextMissions", "shoal.interop.missions:TextMissions", {})
# The tests choose ids by the beginning of their entry points, so these modules seem to be MiniGrid's.
FOLDERS = ("minigrid.envs.babyai", "minigrid.envs.wfc", "minigrid.envs")

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
    gymnasium.registry[name] = EnvSpec(
        id=name, entry_point=f"{folder}.of_shoal:ShoalEnv", kwargs={"env": name}, additional_wrappers=(TEXTS,)
    )
