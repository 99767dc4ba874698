"""The Python interface: public names, signatures and help."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import shoal
from shoal.core.env import Env
from shoal.core.registry import AGENTS


def test_the_signature_of_train_lists_all_arguments():
    kinds = {parameter.kind for parameter in inspect.signature(shoal.train).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds and "eval_episodes" in inspect.signature(shoal.train).parameters


def test_no_package_has_the_name_of_a_public_function():
    rooms = {folder.name for folder in Path(shoal.__file__).parent.iterdir()}
    assert not rooms & set(dir(shoal))
    assert inspect.isfunction(shoal.train) and inspect.isfunction(shoal.rollout)


def test_public_names_exist_and_unknown_ones_do_not():
    for name in dir(shoal):
        assert getattr(shoal, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'PPOO'"):
        shoal.PPOO  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        shoal.trian  # noqa: B018


def test_every_public_name_is_on_the_page_of_the_api():
    page = (Path(__file__).parents[1] / "docs" / "api.md").read_text()
    assert sorted(re.findall(r"^::: shoal\.(\w+)$", page, re.MULTILINE)) == sorted({*dir(shoal)} - {"__version__"})


def test_every_public_class_and_function_has_a_docstring_of_its_own():
    for name in dir(shoal):
        found = getattr(shoal, name)
        if isinstance(found, type) or inspect.isfunction(found):
            text = vars(found).get("__doc__") or "" if isinstance(found, type) else found.__doc__ or ""
            assert len(text) > 20 and not text.startswith(f"{name}("), name  # dataclass writes the signature


def test_every_agent_and_wrapper_is_listed():
    from shoal.core import wrappers
    from shoal.grid import wrappers as level_wrappers

    shown = set(dir(shoal))
    assert {entry.cls.__name__ for entry in AGENTS.values() if entry.cls.__module__.startswith("shoal.")} <= shown
    for package in (wrappers, level_wrappers):
        made = {name: x for name, x in vars(package).items() if isinstance(x, type) and issubclass(x, Env)}
        assert made and set(made) <= shown and all(getattr(shoal, name) is cls for name, cls in made.items())


def test_every_public_name_is_found_where_the_stub_says():
    tree = ast.parse(Path(shoal.__file__).with_suffix(".pyi").read_text())
    froms = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    homes = {name.name: f"shoal.{node.module}" for node in froms for name in node.names}
    assert homes and {*homes} == {*dir(shoal)} - {"__version__"}
    for name, module in homes.items():
        assert getattr(shoal, name) is getattr(importlib.import_module(module), name)
