"""The options of a run: what follows from their one declaration."""

import inspect

import pytest

import shoal
from shoal.cli.train import train_parser
from shoal.cli.tune import tune_parser
from shoal.core.struct import Struct
from shoal.specs.options import GIVEN, OF_COMMAND, OF_STUDY, OPTIONS, RunOptions, StudyOptions
from shoal.specs.spec import RunSpec
from shoal.studies.study import StudySpec
from shoal.training.shapes import FILES


@pytest.mark.parametrize("name", GIVEN)
def test_an_option_is_a_parameter_a_flag_and_a_key_of_the_spec(name):
    parameter = inspect.signature(shoal.train).parameters[name]
    assert parameter.default is None and parameter.kind is inspect.Parameter.KEYWORD_ONLY
    allowed = parameter.annotation
    assert allowed == OPTIONS[name].type | None
    flags = train_parser().parse_args(["ppo", "CartPole-v1"]).__dict__
    assert flags[name] is None
    assert name in FILES["spec.json"]
    assert name in RunSpec("ppo", "CartPole-v1").to_json() or OPTIONS[name].metadata["is_omitted"]


def test_train_has_no_option_of_a_run_that_the_class_lacks():
    others = {"agent", "env", "fields", "sweep", "env_fields", "env_sweep", "settings", "random", "search", "members"}
    others |= {"init", "found", "selector", "preset"}  # what is trained
    others |= {"name", "root", "folder", "resume", "trust_source", "figures", "progress", "sinks", "track", "cache"}
    others |= {"check", "devices", "memory_limit_gb"}  # of the command, not of the run
    assert {*inspect.signature(shoal.train).parameters} == others | {*GIVEN}


@pytest.mark.parametrize("name", OF_STUDY)
def test_an_option_of_a_study_is_a_parameter_a_flag_and_a_key_of_its_description(name):
    assert inspect.signature(shoal.tune).parameters[name].default is None
    assert vars(tune_parser().parse_args(["ppo", "CartPole-v1"]))[name] is None
    spec = StudySpec("s", RunSpec("ppo", "CartPole-v1"), {}).to_json()
    assert [*spec] == ["name", "run", "search", *OF_STUDY]


@pytest.mark.parametrize("wrong", [{"trials": 0}, {"parallel": 0}, {"fresh_seeds": -1}, {"trials": 2**63}])
def test_options_of_a_study_out_of_bounds_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        StudyOptions(**wrong)


@pytest.mark.parametrize("name", OF_COMMAND)
def test_an_option_of_a_command_is_a_keyword_of_python(name):
    functions = (shoal.train, shoal.tune, shoal.train_suite)
    known = {parameter for function in functions for parameter in inspect.signature(function).parameters}
    assert name in known or name in ("dry_run", "distributed")  # of the command line only


@pytest.mark.parametrize("name", [name for name, field in OPTIONS.items() if field.type is int])
def test_numbers_out_of_bounds_are_refused_by_name(name):
    least, most = OPTIONS[name].metadata["least"], OPTIONS[name].metadata["most"]
    outside = [bound + step for bound, step in ((least, -1), (most, 1)) if bound is not None]
    for wrong in [*outside, 2**70]:
        with pytest.raises(ValueError, match=name):
            RunOptions(**{name: wrong})
    for right in [bound for bound in (least, most) if bound is not None]:
        assert getattr(RunOptions(**{name: right}), name) == right


def test_a_spec_is_a_value_and_no_struct():
    assert issubclass(RunSpec, RunOptions) and not issubclass(RunSpec, Struct)
