"""Which user environments are checked before a run, and how often."""

import importlib
from types import SimpleNamespace

import jax
import pytest

import shoal
from commands import MY_ENV
from shoal.core.errors import CheckError
from shoal.core.registry import ENVS, make
from shoal.core.wrappers import FrameStack, TransformReward
from shoal.training import own_code
from shoal.training.own_code import check_user_env
from tiny import FIELDS, OPTIONS, SILENT


def halved(reward):
    return reward / 2


@pytest.fixture
def checked(monkeypatch, tmp_path):
    """The names of the classes that `check_env` gets; it checks nothing. Nothing was remembered before."""
    names = []
    monkeypatch.setattr(own_code, "check_env", lambda env: names.append(type(env).__name__))
    monkeypatch.setattr(own_code, "_passed", {})
    monkeypatch.setattr(own_code, "_folder", lambda: tmp_path / "checked")
    return names


@pytest.fixture
def file(tmp_path):
    """A file with an environment of the user's own."""
    file = tmp_path / "own.py"
    file.write_text(MY_ENV)
    return file


def test_an_environment_of_shoal_is_not_checked(checked):
    check_user_env(make("CartPole-v1"))
    check_user_env(FrameStack(make("CartPole-v1"), n=2))
    assert checked == []


def test_a_file_is_checked_once_for_each_content(checked, file, monkeypatch):
    env = make(f"{file}:MyEnv")
    check_user_env(env)
    check_user_env(env.replace(bonus=2.0))  # a constant
    monkeypatch.setattr(own_code, "_passed", {})  # another process
    check_user_env(env)
    assert checked == ["MyEnv"]
    file.write_text(MY_ENV + "\n")
    check_user_env(env)
    assert checked == ["MyEnv", "MyEnv"]


def test_a_change_in_an_imported_file_repeats_the_check(checked, tmp_path, monkeypatch):
    for name, code in (
        ("importer", f"import importer_physics\n{MY_ENV}"),
        (
            "importer_physics",
            "def pull():\n    from importer_package import constants\n\nimport importer_package.constants\n",
        ),
        ("importer_package/__init__", "from . import constants\n"),
        ("importer_package/constants", "GRAVITY = 9.8\n"),
        ("importer_script", "import importer\n"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("importer_script")
    env = make("importer:MyEnv")
    for name in ("importer_physics", "importer_package/__init__", "importer_package/constants"):
        check_user_env(env)
        check_user_env(env)
        (tmp_path / f"{name}.py").write_text((tmp_path / f"{name}.py").read_text() + "# changed\n")
    (tmp_path / "importer_script.py").write_text(
        "# it imports the environment, and the environment does not import it\n"
    )
    check_user_env(env)
    check_user_env(env)
    assert checked == ["MyEnv"] * 4


def test_without_a_cache_another_process_checks_again(checked, file, monkeypatch):
    monkeypatch.setattr(own_code, "_folder", lambda: None)
    env = make(f"{file}:MyEnv")
    for _ in range(2):
        check_user_env(env)
        assert checked == ["MyEnv"]
    monkeypatch.setattr(own_code, "_passed", {})
    check_user_env(env)
    assert checked == ["MyEnv", "MyEnv"]


def test_a_failed_check_is_not_cached(checked, file, monkeypatch):
    def fail(env):
        checked.append("fails")
        raise CheckError("wrong")

    monkeypatch.setattr(own_code, "check_env", fail)
    for _ in range(2):
        with pytest.raises(CheckError):
            check_user_env(make(f"{file}:MyEnv"))
    assert checked == ["fails", "fails"]


def test_a_user_environment_inside_a_wrapper_is_checked(checked, file):
    check_user_env(FrameStack(make(f"{file}:MyEnv"), n=2))
    check_user_env(TransformReward(make("CartPole-v1"), function=halved))
    assert checked == ["MyEnv", "TransformReward"]


def test_check_results_are_cached_beside_the_compiled_programs(tmp_path, monkeypatch):
    settings = {"jax_compilation_cache_dir": str(tmp_path), "jax_enable_compilation_cache": True}
    monkeypatch.setattr(own_code, "jax", SimpleNamespace(config=SimpleNamespace(values=settings)))
    assert own_code._folder() == tmp_path / "checked"
    settings["jax_enable_compilation_cache"] = False
    assert own_code._folder() is None


def test_train_checks_user_environments_by_default(tmp_path, file):
    file.write_text(MY_ENV.replace("bonus: Number = 1.0", "bonus = 1.0"))
    env = ENVS[f"{file}:MyEnv"].build()
    options = {"fields": FIELDS, "preset": None, "folder": tmp_path / "run", **OPTIONS, **SILENT}
    with pytest.raises(CheckError, match=r"own.py:11: MyEnv.bonus has no type"):
        shoal.train("ppo", env, **options)
    assert not (tmp_path / "run").exists()
    with jax.numpy_dtype_promotion("standard"):
        assert shoal.train("ppo", env, check=False, **options).summary["steps_per_member"] == 256
