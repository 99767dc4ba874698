"""Names: they are found by lookup, by module path and by file; errors suggest the nearest names."""

import sys
from pathlib import Path

import pytest

from shoal.core.errors import UnknownNameError
from shoal.core.names import ranges
from shoal.core.registry import AGENTS, ENVS, Registry, make
from shoal.core.struct import Number, Struct, struct
from shoal.envs.classic.cartpole import CartPole

USER_FILE = """
from shoal.core.struct import Number, struct
from shoal.envs.classic.cartpole import CartPole

@struct
class Heavy(CartPole):
    mass_cart: Number = 9.0
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An importable package with one module in it; the module's text is returned for writing."""
    (tmp_path / "things").mkdir()
    (tmp_path / "things" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "things" / "one.py"
    for name in [name for name in sys.modules if name == "things" or name.startswith("things.")]:
        del sys.modules[name]


def test_make_builds_a_registered_name_with_its_preset_and_fields():
    assert make("CartPole-v1").max_steps == 500
    env = make("CartPole-v0", gravity=5.0)
    assert isinstance(env, CartPole)
    assert (env.max_steps, env.gravity) == (200, 5.0)
    assert make("CartPole-v0", max_steps=7).max_steps == 7


def test_the_error_of_an_unknown_name_suggests_the_nearest():
    with pytest.raises(
        UnknownNameError, match="env 'CartPol-v1' is not registered. Did you mean CartPole-v1.*`shoal envs`"
    ):
        make("CartPol-v1")
    with pytest.raises(ValueError, match="agent 'nonsense-xyz' is not registered. `shoal agents`"):
        AGENTS["nonsense-xyz"]


def test_the_error_of_an_unknown_field_suggests_the_nearest():
    with pytest.raises(TypeError, match="CartPole-v1 has no field 'gravty'. Did you mean gravity"):
        make("CartPole-v1", gravty=3.0)


def test_a_registry_is_a_sorted_mapping_of_names():
    assert "CartPole-v1" in ENVS and "nothing" not in ENVS
    assert list(ENVS) == sorted(ENVS) and len(ENVS) == len(list(ENVS))


def test_a_class_is_found_by_module_and_by_file(tmp_path):
    assert isinstance(make("shoal.envs.classic.cartpole:CartPole"), CartPole)
    file = tmp_path / "my_env.py"
    file.write_text(USER_FILE)
    heavy = make(f"{file}:Heavy", gravity=1.0)
    assert (heavy.mass_cart, heavy.gravity) == (9.0, 1.0)
    assert type(make(f"{file}:Heavy")) is type(heavy)


def test_the_error_of_a_wrong_path_says_what_to_write(tmp_path):
    file = tmp_path / "my_env.py"
    file.write_text(USER_FILE)
    with pytest.raises(UnknownNameError, match="Did you mean Heavy"):
        make(f"{file}:Hevy")
    with pytest.raises(FileNotFoundError, match="my_env.py:MyEnv"):
        make(f"{tmp_path}/absent.py:Heavy")
    with pytest.raises(ValueError, match="module 'no_such_module' cannot be found"):
        make("no_such_module:Heavy")
    with pytest.raises(UnknownNameError, match="the name is BabyAI-GoToLocal-v0. If published is a preset, train with"):
        make("BabyAI-GoToLocal-v0:published")
    with pytest.raises(ValueError, match="os.path:join is no environment: name a class that has @struct above it"):
        make("os.path:join")


def test_a_file_that_failed_is_loaded_again_after_a_repair(tmp_path):
    file = tmp_path / "mended_env.py"
    file.write_text("raise OSError('broken')\n")
    with pytest.raises(ImportError, match="mended_env.py:1: OSError: broken"):
        make(f"{file}:Heavy")
    file.write_text(USER_FILE)
    assert make(f"{file}:Heavy").mass_cart == 9.0


def test_a_name_belongs_to_one_class():
    registry = Registry("thing", "shoal.envs")

    @registry.register("a", x=2)
    @struct
    class First(Struct):
        x: Number = 1

    registry.register("b")(First)
    registry.register("a", x=3)(First)
    assert registry["a"].build().x == 3 and registry["b"].build().x == 1

    @struct
    class Second(Struct):
        x: Number = 1

    with pytest.raises(
        ValueError, match=r"thing 'a' is already registered, by .*First. Choose another name for .*Second"
    ):
        registry.register("a")(Second)


def test_modules_below_the_package_are_discovered_and_failures_are_tried_again(package):
    package.write_text("raise OSError('half written')\n")
    registry = Registry("thing", "things")
    for _ in range(2):
        with pytest.raises(OSError, match="half written"):
            registry["x"]
    package.write_text("found = True\n")
    with pytest.raises(UnknownNameError):
        registry["x"]
    assert sys.modules["things.one"].found


def test_an_alias_finds_a_name_and_is_not_listed():
    registry = Registry("world", "shoal.envs")
    registry._discovered = True

    @registry.register("Flat-v1", aliases=("Flat-misc",), size=2)
    @struct
    class Flat(Struct):
        size: Number = 1

    assert "Flat-misc" in registry and registry["Flat-misc"].name == "Flat-v1"
    assert registry["Flat-misc"].build().size == 2
    assert list(registry) == ["Flat-v1"] and registry.aliases == {"Flat-misc": "Flat-v1"}
    with pytest.raises(UnknownNameError, match="Did you mean Flat-v1"):
        registry["Flat-mist"]
    with pytest.raises(ValueError, match="world 'Flat-misc' is already registered"):
        registry.register("Flat-misc")(CartPole)
    with pytest.raises(ValueError, match="world 'Flat-misc' is already registered"):
        registry.register("Round-v1", aliases=("Flat-misc",))(CartPole)


def test_names_that_differ_only_in_a_final_number_are_grouped():
    names = ["a/b/0", "a/b/1", "a/b/10", "a/b/2", "a/c/4", "Plain-v0", "x/y"]
    gathered = ranges(names)
    assert gathered == {
        "a/b/0-10": ["a/b/0", "a/b/1", "a/b/2", "a/b/10"],
        "a/c/4": ["a/c/4"],
        "Plain-v0": ["Plain-v0"],
        "x/y": ["x/y"],
    }


def test_a_file_without_a_class_name_offers_environments_not_states(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = """
@struct
class NavState(State):
    place: int


@struct
class LongState(NavState):
    more: int


@struct
class Nav(Env):
    wind: float = 0.0
"""
    Path("nav.py").write_text(text)
    with pytest.raises(ValueError, match=r"name the class in it, nav\.py:Nav\.$"):
        ENVS["nav.py"]
