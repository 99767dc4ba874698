"""Wrong kinds of arguments of public functions are refused in words, before pathlib, NumPy or JAX see them."""

import inspect
import json
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.core.kinds import checked_kinds, python_numbers
from shoal.specs.spec import RunSpec
from shoal.studies import runs, sweeps, tune
from shoal.training.jobs import make_job


def plain(whole: int = 1, real: float = 0.5, flag: bool = False, any_: Any = None) -> tuple:
    return whole, real, flag, any_


def several(path: Path | str = "x", fields: Mapping[str, Any] | None = None, names: Sequence[str] = ()) -> tuple:
    return path, fields, names


@pytest.mark.parametrize("number", [3, np.int64(3), np.uint8(3), np.asarray(3), jnp.asarray(3)])
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
    "fields": [[("a", 1)], "a=1", 3, object(), {1: 2}, {None: 2}, {("a", "b"): 2}],
    "names": ["ppo", None, 3, b"x", np.float64(3), [1], [None], ["a", 3], {1}, np.asarray([1])],
}


@pytest.mark.parametrize(("function", "wrong"), [(plain, WRONG), (several, WRONG_SEVERAL)])
def test_another_kind_is_refused_by_the_name_of_the_argument(function, wrong):
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(TypeError, match=rf"^(a name in )?{name}.* is of type .*: it must be "):
                checked_kinds()(function)(**{name: value})
    assert several("x", None, ["a"]) == checked_kinds()(several)(Path("x"), None, ["a"])[0:0] + ("x", None, ["a"])


@pytest.mark.parametrize("number", [0.5, np.nan, np.inf, -np.inf, np.float32("nan"), np.asarray(np.inf)])
def test_a_whole_number_has_no_fraction(number):
    with pytest.raises(ValueError, match="^whole=.* must be a whole number"):
        checked_kinds()(plain)(whole=number)
    assert checked_kinds()(plain)(real=number)[1] is not None


def test_a_path_is_one_that_files_can_have():
    for call in (shoal.load, shoal.report, shoal.load_result, shoal.make, checked_kinds()(several)):
        for odd in ("a\0b", "\ud800"):
            with pytest.raises(ValueError, match="contains a character that no path can contain"):
                call(odd)
        with pytest.raises(ValueError, match="has a name of 300 bytes, and files at most 255"):
            call("é" * 150)


# What no public function takes in the place of its arguments, whatever they are.
NEVER = {"an object": object(), "a class": int, "complex": 1j, "NumPy text": np.asarray("x"), "bytes": b"x"}
FUNCTIONS = [
    *("train", "train_all", "train_suite", "tune", "evolve", "bsuite", "evaluate", "rollout", "record"),
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


def test_numbers_inside_of_lists_and_dicts_become_pythons():
    given = {"a": (np.float32(0.5), [jnp.asarray(3), "log"]), "b": np.asarray([1.0, 2.0])}
    assert repr(python_numbers(given)) == repr({"a": (0.5, [3, "log"]), "b": [1.0, 2.0]})


class Planned(Exception):
    """Raised in the place of the training: the arguments were accepted."""


@pytest.fixture
def plans(monkeypatch, tmp_path):
    """Functions that start runs end where these are planned."""

    def planned(*_args, **_options):
        raise Planned

    monkeypatch.chdir(tmp_path)
    for owner, name in ((runs, "run_job"), (sweeps.Batch, "train"), (tune.Worker, "run")):
        monkeypatch.setattr(owner, name, planned)


SETTINGS = {"preset": None, "progress": False, "check": False, "cache": False}
STARTS = {
    "train": lambda **given: runs.train("ppo", "CartPole-v1", **given, **SETTINGS),
    "train_all": lambda **given: sweeps.train_all("ppo", ["CartPole-v1"], **given, preset=None, check=False),
    "tune": lambda **given: tune.tune("ppo", "CartPole-v1", **{"search": ["clip"], **given}, **SETTINGS),
    "evolve": lambda **given: shoal.evolve("ppo", "CartPole-v1", **{"vary": ["clip"], **given}, **SETTINGS),
}
ODD = [
    *(float("nan"), -float("inf"), -0.0, 10**30, 10**5_000, 1e308, np.longdouble(0.5), np.asarray(np.nan)),
    *(np.ones((1, 1)), jnp.bfloat16(0.5), None, True, "", "x" * 300, [[1, 2], [3]], {1: 1}),
    *(np.timedelta64(1, "s"), shoal.make_key(0), {1}, np.asarray(object())),
]
FORMS = {
    "train": [
        lambda odd: {"fields": {"learning_rate": odd}},
        lambda odd: {"env_fields": {"gravity": odd}, "fields": {"hidden": odd}},
        lambda odd: {"sweep": {"learning_rate": odd}},
        lambda odd: {"sweep": {"learning_rate": [1e-3, odd]}},
        lambda odd: {"settings": odd},
        lambda odd: {"settings": [odd, {"clip": odd}]},
        lambda odd: {"random": odd, "search": {"clip": odd}},
        lambda odd: {"random": 2, "search": {"clip": (odd, 0.3)}},
        lambda odd: {"random": 2, "search": {"clip": (0.1, 0.3, odd)}},
        lambda odd: {"random": 2, "search": odd},
        lambda odd: {"members": {"clip": [odd, odd]}},
        lambda odd: {"init": {"run": "zoo:ppo/CartPole-v1", "member": odd}},
        lambda odd: {"memory_limit_gb": odd, "sinks": odd},
        lambda odd: {"selector": shoal.PBT(quantile=odd), "seeds": 4},
        lambda odd: {"selector": shoal.Halving(brackets=odd), "seeds": 4},
        lambda odd: {"selector": shoal.Slots(settings=odd), "seeds": 4},
    ],
    "train_all": [
        lambda odd: {"members": odd},
        lambda odd: {"settings": odd},
        lambda odd: {"random": odd},
        lambda odd: {"trust_source": odd},
        lambda odd: {"seeds": odd},
    ],
    "tune": [
        lambda odd: {"search": {"clip": (0.1, odd)}},
        lambda odd: {"search": {"num_envs": odd}},
        lambda odd: {"enqueue": [odd]},
        lambda odd: {"memory_limit_gb": odd},
        lambda odd: {"sinks": odd},
    ],
    "evolve": [
        lambda odd: {"vary": odd},
        lambda odd: {"vary": {"clip": (0.1, odd)}},
        lambda odd: {"options": {"vary": odd}},
        lambda odd: {"options": {"shaping": odd}},
    ],
}


@pytest.mark.usefixtures("without_type_checker", "plans")
@pytest.mark.parametrize(("name", "form"), [(name, form) for name, forms in FORMS.items() for form in forms])
def test_odd_values_inside_of_arguments_are_refused_in_words(name, form):
    """The last frame of every error is shoal's own, and no key is missing."""
    for odd in ODD:
        try:
            STARTS[name](**form(odd))
        except Planned:
            continue
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__}: {error} in {frame.filename}:{frame.lineno}"
            assert isinstance(error, (TypeError, ValueError)), where
            assert "/shoal/" in frame.filename, where


NUMBERS = [np.float64(0.25), np.float16(0.25), np.longdouble(0.25), np.asarray(0.25), jnp.asarray(0.25)]


@pytest.mark.usefixtures("without_type_checker", "plans")
@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_of_numpy_work_where_pythons_do(number):
    whole = np.asarray(np.asarray(number).item() * 12).astype(int)[()]  # 3
    for name, arguments in (
        ("train", {"fields": {"clip": number, "num_steps": np.asarray(8)}, "seeds": whole, "memory_limit_gb": number}),
        ("train", {"sweep": {"clip": [number, 0.5]}, "env_sweep": {"gravity": range(5, 8)}}),
        ("train", {"members": {"clip": [number, 0.5]}}),
        ("train", {"random": whole, "search": {"clip": (number, 0.5)}}),
        ("train", {"selector": shoal.PBT(quantile=number, every=np.asarray(3)), "seeds": 4}),
        ("tune", {"search": {"clip": (number, 0.5), "num_envs": [whole + 1, 8]}, "enqueue": [{"clip": number}]}),
        ("evolve", {"vary": {"clip": (0.1, number)}, "options": {"sigma": number, "generations": whole}}),
    ):
        with pytest.raises(Planned):
            STARTS[name](**arguments)


def test_a_range_becomes_a_list_in_the_file_of_a_run():
    spec = RunSpec("ppo", "CartPole-v1", env_sweep={"gravity": range(5, 7)}, sweep={"clip": {0.1}})
    assert json.loads(json.dumps(spec.to_json()))["env_sweep"] == {"gravity": [5, 6]}


class Both(NamedTuple):
    """A field that holds a number, and values that it cannot hold."""

    agent: str
    field: str
    odd: Any


@pytest.mark.parametrize(
    "case",
    [
        *(Both("dqn", "optimizer", odd) for odd in (3, -1, 0.5, np.inf, True, np.asarray(7))),
        *(Both("ppo", "learning_rate", odd) for odd in (np.ones((1, 1)) / 2, np.timedelta64(3, "s"))),
        *(Both("ppo", "num_epochs", odd) for odd in (2**31, np.timedelta64(3, "s"), np.asarray([3]))),
    ],
)
def test_a_field_for_one_number_takes_nothing_else(case):
    with pytest.raises((TypeError, ValueError), match=case.field):
        make_job(case.agent, "CartPole-v1", preset=None, fields={case.field: case.odd}).plan()


@pytest.mark.usefixtures("without_type_checker")
def test_a_field_takes_an_array_without_axes():
    assert type(shoal.PPO(num_envs=np.asarray(3), hidden=[np.int64(8)]).num_envs) is int
    assert shoal.PPO(num_envs=np.asarray(4)).num_envs == 4


@pytest.mark.usefixtures("without_type_checker")
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Acrobot-v1", {"torques": jnp.asarray(0.5)}),
        ("FrozenLake-v1", {"success_rate": np.timedelta64(1, "s")}),
        ("MiniGrid-Empty-8x8-v0", {"size": 2**31}),
    ],
)
def test_odd_fields_of_environments_are_refused_in_words(name, fields):
    with pytest.raises((TypeError, ValueError)) as caught:
        shoal.make(name, **fields)
    assert "/shoal/" in traceback.extract_tb(caught.value.__traceback__)[-1].filename


def test_short_floats_fit_in_fields_of_environments():
    assert shoal.make("FourRooms-Image-v0", goal_row=jnp.bfloat16(2), goal_column=3).goal_column == 3
