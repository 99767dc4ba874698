"""Wrong kinds of arguments of public functions are refused in words, before pathlib, NumPy or JAX see them."""

import inspect
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.core.kinds import checked_kinds


def plain(whole: int = 1, real: float = 0.5, flag: bool = False, any_: Any = None) -> tuple:
    return whole, real, flag, any_


def several(path: Path | str = "x", fields: Mapping[str, Any] | None = None, names: Sequence[str] = ()) -> tuple:
    return path, fields, names


@pytest.mark.parametrize("number", [3, np.int64(3), np.uint8(3), np.asarray(3)])
def test_numbers_of_numpy_become_pythons(number):
    whole, real, _, kept = checked_kinds()(plain)(number, number, any_=number)
    assert (whole, real) == (3, 3) and type(whole) is type(real) is int and kept is number
    assert checked_kinds()(plain)(flag=np.bool_(True))[2] is True
    assert type(checked_kinds()(plain)(real=np.float32(0.5))[1]) is float


WRONG = {
    "whole": [None, "3", [3], np.asarray([3]), {}, object(), True, int, b"3", 1j, np.asarray("3")],
    "real": [None, "3", [3], np.asarray([3.0]), {}, object(), 1j],
    "flag": [None, 1, 0, "yes", [], np.asarray([True])],
}
WRONG_SEVERAL = {
    "path": [None, 3, np.nan, [], b"x", object(), ("x",), True],
    "fields": [[("a", 1)], "a=1", 3, object()],
    "names": ["ppo", None, 3, b"x", np.float64(3), [1], [None], ["a", 3], {1}, np.asarray([1])],
}


@pytest.mark.parametrize(("function", "wrong"), [(plain, WRONG), (several, WRONG_SEVERAL)])
def test_another_kind_is_refused_by_the_name_of_the_argument(function, wrong):
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(TypeError, match=rf"^{name}=.* is of type .*: it must be "):
                checked_kinds()(function)(**{name: value})
    assert several("x", None, ["a"]) == checked_kinds()(several)(Path("x"), None, ["a"])[0:0] + ("x", None, ["a"])


@pytest.mark.parametrize("number", [0.5, np.nan, np.inf, -np.inf, np.float32("nan"), np.asarray(np.inf)])
def test_a_whole_number_has_no_fraction(number):
    with pytest.raises(ValueError, match="^whole=.* must be a whole number"):
        checked_kinds()(plain)(whole=number)
    assert checked_kinds()(plain)(real=number)[1] is not None


def test_no_path_contains_nul():
    for call in (shoal.load, shoal.report, shoal.load_result, checked_kinds()(several)):
        with pytest.raises(ValueError, match="contains the character NUL"):
            call("a\0b")


# What no public function takes in the place of its arguments, whatever they are.
NEVER = {"an object": object(), "a class": int, "complex": 1j, "NumPy text": np.asarray("x"), "bytes": b"x"}
FUNCTIONS = [
    *("train", "train_all", "train_suite", "tune", "evolve", "bsuite", "reproduce", "evaluate", "rollout", "record"),
    *("load", "load_result", "export", "export_config", "compare", "report", "render", "animate", "track", "preset"),
    *("record_bot", "save_demonstrations", "load_demonstrations", "check_env", "check_agent", "check_level"),
]


@pytest.mark.usefixtures("without_type_checker")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_public_function_lets_a_wrong_kind_through(name, tmp_path, monkeypatch):
    """The last frame of every error is shoal's own."""
    monkeypatch.chdir(tmp_path)
    function = getattr(shoal, name)
    good = {"agent": "ppo", "env": "CartPole-v1", "envs": ["CartPole-v1"], "policy": "zoo:ppo/CartPole-v1"}
    good |= {
        "run": "nothing",
        "folder": "nothing",
        "a": "nothing",
        "b": "nothing",
        "what": "nothing",
        "path": "nothing",
    }
    parameters = inspect.signature(function).parameters.values()
    parameters = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    needed = {each.name: good.get(each.name, "nothing") for each in parameters if each.default is each.empty}
    for parameter in parameters:
        if parameter.annotation is Any and parameter.name not in ("env", "agent"):
            continue
        for kind, value in NEVER.items():
            with pytest.raises(Exception) as caught:  # noqa: PT011  # the next lines say which
                function(**{**needed, parameter.name: value})
            frame = traceback.extract_tb(caught.value.__traceback__)[-1]
            where = f"{parameter.name}={kind}: {caught.type.__name__}: {caught.value} in {frame.filename}"
            assert issubclass(caught.type, (TypeError, ValueError, OSError, AssertionError)), where
            assert "/shoal/" in frame.filename, where
    assert list(tmp_path.iterdir()) == []


def test_a_function_may_check_an_argument_itself():
    assert checked_kinds("whole")(plain)("words of its own")[0] == "words of its own"


@pytest.mark.parametrize("number", [2.0, np.float64(2), np.asarray(2.0)])
def test_a_whole_number_written_as_a_real_one_becomes_an_integer(number):
    whole = checked_kinds()(plain)(whole=number)[0]
    assert whole == 2 and type(whole) is int


@pytest.mark.parametrize("number", [2**63, 1e30, -(10**5_000)], ids=["one", "real", "long"])
def test_a_whole_number_fits_in_64_bits(number):
    with pytest.raises(ValueError, match="^whole=.{,45} does not fit in 64 bits"):
        checked_kinds()(plain)(whole=number)
