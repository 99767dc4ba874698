"""Every id: the agent starts in an empty cell."""

import numpy as np
import pytest

from maps import layouts
from shoal.core.registry import ENVS
from shoal.envs.minigrid.wfc import WFC
from shoal.grid.cells import EMPTY

IDS = [name for name in ENVS if name.startswith("MiniGrid-")]
FIRST = {ENVS[name].cls: name for name in reversed(IDS)}.values()  # of each class; compiling all of them takes minutes


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "env_id", [name if name in FIRST else pytest.param(name, marks=pytest.mark.long) for name in IDS]
)
def test_the_agent_starts_in_an_empty_cell(env_id):
    count = 16 if ENVS[env_id].cls is WFC else 200  # whose generator takes long
    states = layouts(ENVS[env_id].build(), count)
    np.testing.assert_array_equal(states.grid[np.arange(count), states.x, states.y], EMPTY)
