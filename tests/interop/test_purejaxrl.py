"""PureJaxRL's own files train on shoal's environments: `SHOAL_TEST_PUREJAXRL=CLONE pytest -m slow FILE`.

They need flax, distrax and flashbax. What else they import (brax, navix, wandb) is not used here, and replaced by
empty modules.
"""

import importlib
import os
import re
import sys
import types
from pathlib import Path

import jax
import numpy as np
import pytest

FOLDER = os.environ.get("SHOAL_TEST_PUREJAXRL")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="SHOAL_TEST_PUREJAXRL names no clone of PureJaxRL"),
]
PARTS = ("wrappers", "wrappers.purerl", "environments", "environments.spaces", "environments.environment")
ABSENT = ("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training", "navix", "wandb")


class Empty(types.ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


@pytest.fixture
def its_folder(monkeypatch):
    """PureJaxRL's folder, in whose files `gymnax` is shoal's module."""
    monkeypatch.setitem(sys.modules, "gymnax", importlib.import_module("shoal.interop.gymnax.legacy"))
    for part in PARTS:
        monkeypatch.setitem(sys.modules, f"gymnax.{part}", importlib.import_module(f"shoal.interop.gymnax.{part}"))
    for name in ABSENT:
        monkeypatch.setitem(sys.modules, name, Empty(name))
    folder = Path(FOLDER) / "purejaxrl"
    monkeypatch.syspath_prepend(folder)
    if not hasattr(jax, "tree_map"):  # `dqn.py` calls it, and JAX has removed it
        monkeypatch.setattr(jax, "tree_map", jax.tree.map, raising=False)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield folder
    for name in ("ppo", "dqn", "wrappers"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("name", "steps", "better"), [("ppo", 150_000, 150), ("dqn", 60_000, 30)])
def test_its_file_learns_cartpole(its_folder, name, steps, better):
    module = pytest.importorskip(name, exc_type=ImportError)
    written = re.search(r"    config = \{.*?\n    \}", (its_folder / f"{name}.py").read_text(), re.DOTALL)[0]
    scope = {}
    exec(written.replace("    config", "config", 1), vars(module), scope)
    config = scope["config"] | {"TOTAL_TIMESTEPS": steps, "DEBUG": False}
    metrics = jax.jit(module.make_train(config))(jax.random.PRNGKey(0))["metrics"]
    returns = np.asarray(metrics["returned_episode_returns"] if name == "ppo" else metrics["returns"])
    assert returns[-len(returns) // 20 :].mean() > better
