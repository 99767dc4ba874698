"""`first_seed`: a run of later seeds has the members that a larger run has for them."""

import dataclasses
import json

import numpy as np
import pytest

import shoal
from shoal.specs.options import MOST_SEEDS, OPTIONS
from shoal.specs.spec import RunSpec
from shoal.training.plan import make_plan
from tiny import SILENT

RUN = {
    "agent": "q-learning",
    "env": "FrozenLake-v1",
    "fields": {"num_steps": 250},
    "steps": 2_000,
    "records": 4,
    "evaluations": 2,
    "eval_episodes": 5,
    **SILENT,
}


def test_later_seeds_are_the_members_of_a_larger_run(tmp_path):
    whole = shoal.train(**RUN, seeds=5, folder=tmp_path / "whole")
    later = shoal.train(**RUN, seeds=2, first_seed=3, folder=tmp_path / "later")
    for name, curve in later.curves.items():
        if curve.ndim == 2:
            np.testing.assert_array_equal(curve, whole.curves[name][:, 3:], err_msg=name)
    assert later.members == whole.members[3:] == [{"seed": 3}, {"seed": 4}]
    assert [member["name"] for member in later.summary["per_member"]] == ["seed=3", "seed=4"]
    assert shoal.verify(later.folder).outcome == "verified"
    pair = shoal.compare(later, whole).against(0, 1)
    assert pair.pairs == 2 and pair.difference.value == 0
    assert ">4<" in shoal.report(later.folder).read_text()


def test_every_setting_has_these_seeds():
    spec = RunSpec("q-learning", "FrozenLake-v1", sweep={"learning_rate": [0.1, 0.2]}, seeds=2, first_seed=7)
    assert make_plan(spec).roster.seed_index.tolist() == [7, 8, 7, 8]


def test_a_run_without_it_has_the_same_spec_as_before(tmp_path):
    spec = RunSpec("q-learning", "FrozenLake-v1")
    assert OPTIONS["first_seed"].metadata["is_omitted"] and "first_seed" not in json.dumps(spec.to_json())
    assert dataclasses.replace(spec, first_seed=3).to_json()["first_seed"] == 3


def test_seeds_beyond_32_bits_are_refused():
    assert RunSpec("q-learning", "FrozenLake-v1", first_seed=MOST_SEEDS - 1).seed_indices[-1] == 2**31 - 1
    with pytest.raises(ValueError, match="first_seed=2147483647 and seeds=2 .* the largest number is 2,147,483,647"):
        RunSpec("q-learning", "FrozenLake-v1", first_seed=MOST_SEEDS - 1, seeds=2)


def test_a_selector_that_numbers_the_seeds_itself_refuses_it():
    evolve = shoal.Evolve(vary=(("learning_rate", 0.01, 0.5),), seeds=1)
    spec = RunSpec("q-learning", "FrozenLake-v1", seeds=4, first_seed=4, selector=evolve)
    with pytest.raises(ValueError, match="first_seed=4: the selector Evolve numbers the seeds itself"):
        make_plan(spec)
