"""Every registered environment keeps the contract, by being registered."""

import pytest

from shoal.core.checks import check_env
from shoal.core.registry import ENVS


@pytest.mark.parametrize("name", ENVS)
def test_a_registered_environment_keeps_the_contract(name):
    check_env(ENVS[name].build())
