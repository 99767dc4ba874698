"""Python code that makes a run again."""

import ast

import pytest

import shoal
from shoal.reports.python_call import in_python, literal
from shoal.specs.spec import RunSpec, resolved
from shoal.training.jobs import make_job


@pytest.mark.parametrize(
    "changes",
    [
        {"fields": {"learning_rate": 0.1, "hidden": [8]}, "env_fields": {"gravity": 5.0}, "evaluations": 0},
        {"sweep": {"clip": [0.1, 0.3]}, "env_sweep": {"gravity": [5, 10]}, "seed": 7, "prng": "threefry2x32"},
        {"points": {"clip": [0.1, 0.3], "env.gravity": [5.0, 9.0]}, "fields": {"target_kl": 0.02}},
    ],
)
def test_the_python_code_of_a_page_makes_the_same_run(changes):
    spec = resolved(RunSpec.from_json({"agent": "ppo", "env": "CartPole-v1", "steps": 512, "seeds": 2, **changes}))
    (call,) = [each for each in ast.walk(ast.parse(in_python(spec, "runs/a"))) if isinstance(each, ast.Call)]
    words = [ast.literal_eval(each) for each in call.args]
    job = make_job(*words, **{each.arg: ast.literal_eval(each.value) for each in call.keywords})
    assert job.spec == spec


def test_a_run_that_no_literals_describe_is_made_again_from_its_spec():
    spec = RunSpec("ppo", "CartPole-v1", selector=shoal.PBT(vary={"clip": (0.1, 0.3)}))
    assert "job_from_spec('runs/x')" in in_python(spec, "runs/x")


def test_literals_of_every_kind_are_python():
    value = {"a": [1, (2.5,)], "b": (float("inf"), "it's"), "c": None}
    for deep in (False, True):
        assert eval(literal(value, deep=deep)) == value
