"""Every id: the agent starts in an empty cell."""

import numpy as np
import pytest

from maps import layouts
from shoal.core.registry import ENVS
from shoal.grid.cells import EMPTY

IDS = [name for name in ENVS if name.startswith("MiniGrid-")]
FIRST = {ENVS[name].cls: name for name in reversed(IDS)}.values()  # of each class; compiling all of them takes minutes


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "env_id", [name if name in FIRST else pytest.param(name, marks=pytest.mark.long) for name in IDS]
)
def test_the_agent_starts_in_an_empty_cell(env_id):
    states = layouts(ENVS[env_id].build(), 200)
    np.testing.assert_array_equal(states.grid[np.arange(200), states.x, states.y], EMPTY)
