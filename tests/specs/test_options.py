"""The options of a run: what follows from their one declaration."""

import inspect

import pytest

import shoal
from shoal.cli.train import train_parser
from shoal.core.struct import Struct
from shoal.specs.options import GIVEN, OPTIONS, RunOptions
from shoal.specs.spec import RunSpec
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
