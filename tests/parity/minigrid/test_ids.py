"""The ids are those that MiniGrid registers with Gymnasium, without its BabyAI levels."""

import gymnasium

from parity.minigrid.reference import MiniGridEnv
from shoal.core.registry import ENVS


def test_ids_are_minigrids():
    assert MiniGridEnv.__module__ == "minigrid.minigrid_env"  # its import registers
    registered = {name for name in gymnasium.registry if name.startswith("MiniGrid-")}
    assert {name for name in ENVS if name.startswith("MiniGrid-")} == registered and len(registered) == 82
