"""Experiments: every one can be planned."""

import pytest

from shoal.population.experiments import experiments
from shoal.studies import evolution
from shoal.training.jobs import make_job


class Planned(Exception):
    """Holds the plan of the run that would begin now."""


@pytest.mark.parametrize("name", experiments())
def test_every_experiment_can_be_planned(name, monkeypatch):
    def plan(agent, env, **arguments):
        raise Planned(make_job(agent, env, **arguments).plan())

    monkeypatch.setattr(evolution, "train", plan)
    with pytest.raises(Planned) as planned:
        evolution.evolve(name)
    (made,), sizes = planned.value.args, experiments()[name].sizes
    assert made.members == sizes["candidates"] * sizes["seeds"]
    assert made.expected_updates == made.updates_per_member * sizes["generations"]
