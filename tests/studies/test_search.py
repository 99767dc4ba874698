"""Search spaces of studies: from fields to Optuna's distributions, and from a trial's parameters to fields."""

import json

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from shoal.core.registry import AGENTS, make
from shoal.specs.settings import AgentEnv
from shoal.studies.search import read_space


@pytest.fixture(scope="module")
def dqn():
    return AgentEnv(AGENTS["dqn"].build(), make("CartPole-v1"))


SEARCH = {
    "learning_rate": (1e-4, 1e-1, "log"),
    "env.max_steps": (10, 17),
    "batch_size": [16, 32, 64],
    "optimizer": None,  # a number in the program, which has names
    "hidden": [[64, 64], [128]],
    "num_steps": (13, 15),
}


def test_every_kind_of_field_gets_its_distribution(dqn):
    space = read_space(dqn, SEARCH)
    assert space.distributions == {
        "learning_rate": FloatDistribution(1e-4, 1e-1, log=True),
        "env.max_steps": IntDistribution(10, 17),
        "batch_size": CategoricalDistribution([16, 32, 64]),
        "optimizer": CategoricalDistribution(["adam", "sgd"]),
        "hidden": CategoricalDistribution(["64,64", "128"]),
        "num_steps": IntDistribution(13, 15),
    }
    assert [each.path for each in space.static] == ["hidden", "num_steps"] and space.shape_count == 6
    assert space.shapes[4] == {"hidden": (128,), "num_steps": 14}
    params = {"learning_rate": 0.01, "env.max_steps": 12, "batch_size": 32, "optimizer": "sgd", "hidden": "128"}
    assert space.group_of({**params, "num_steps": 14}) == 4
    values = space.values({**params, "num_steps": 14})
    assert values == {**params, "optimizer": 1, "hidden": (128,), "num_steps": 14}
    assert space.params({"hidden": (128,), "optimizer": "sgd", "num_steps": 14}) == {
        "hidden": "128",
        "optimizer": "sgd",
        "num_steps": 14,
    }


def test_a_space_is_read_from_its_description_in_a_file(dqn):
    space = read_space(dqn, SEARCH)
    again = read_space(dqn, json.loads(json.dumps(space.described())))
    assert again == space


def test_a_range_near_1_is_searched_by_the_logarithm_of_its_distance_from_1(dqn):
    space = read_space(dqn, {"discount": (0.9, 0.999, "near1")})
    (dimension,) = space.dimensions
    assert (dimension.distribution.low, dimension.distribution.high) == (1 - 0.999, 1 - 0.9)
    assert dimension.distribution.log and dimension.described() == {"low": 0.9, "high": 0.999, "scale": "near1"}
    assert read_space(dqn, space.described()) == space
    np.testing.assert_allclose(
        [space.values({"discount": x})["discount"] for x in dimension.grid()[::2]], [0.999, 0.99, 0.9]
    )
    assert all(
        space.values(space.params({"discount": x})) == {"discount": pytest.approx(x)} for x in (0.9, 0.97, 0.999)
    )
    with pytest.raises(ValueError, match=r"discount=0.5 is not a number from 0.9 to 0.999"):
        space.params({"discount": 0.5})


def test_by_default_all_declared_ranges_of_the_agent_are_searched(dqn):
    paths = [*read_space(dqn, None).distributions]
    assert "learning_rate" in paths and "batch_size" in paths and not any(path.startswith("env.") for path in paths)
    assert "learning_rate" not in read_space(dqn, None, {"learning_rate"}).distributions


def test_a_grid_has_the_values_of_lists_and_five_of_a_range(dqn):
    space = read_space(dqn, {"learning_rate": (1e-4, 1.0, "log"), "num_steps": (13, 15), "env.max_steps": (10, 18)})
    grid = space.grid()
    np.testing.assert_allclose(grid["learning_rate"], [1e-4, 1e-3, 1e-2, 1e-1, 1.0])
    assert grid["learning_rate"][0] == 1e-4 and grid["learning_rate"][-1] == 1.0
    assert grid["num_steps"] == [13, 14, 15] and grid["env.max_steps"] == [10, 12, 14, 16, 18]


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"gama": (0, 1)}, "no field 'gama'"),
        ({"num_steps": None}, "num_steps declares no choices"),
        ({}, "the search is empty"),
        ({"batch_size": [16, 16]}, "batch_size has a value twice"),
        ({"num_steps": (1.5, 3)}, "num_steps shapes the program, so it needs a list of values"),
        ({"learning_rate": [-1.0, 0.1]}, "learning_rate cannot be -1.0: "),
        ({"learning_rate": {"lower": 1}}, "learning_rate needs low and high"),
        ("learning_rate", "must be a list or a mapping"),
    ],
)
def test_wrong_searches_are_refused(search, message, dqn):
    with pytest.raises((ValueError, TypeError), match=message):
        read_space(dqn, search)
