"""PureJaxRL's own files train on shoal's environments: `SHOAL_TEST_PUREJAXRL=CLONE pytest -m slow FILE`.

They need flax, distrax and flashbax. What else they import (brax, navix, wandb) is not used here, and replaced by
empty modules where it is missing.
"""

import importlib
import os
import re
from pathlib import Path

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from other_libraries import programs_for_legacy_gymnax
from shoal.interop.gymnax import legacy

FOLDER = os.environ.get("SHOAL_TEST_PUREJAXRL")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # their own
    pytest.mark.skipif(not FOLDER, reason="SHOAL_TEST_PUREJAXRL names no clone of PureJaxRL"),
]
ABSENT = ("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training", "navix", "wandb")
Cell = flax.linen.GRUCell


class OldCell:
    """flax's GRUCell before 0.7, for `ppo_rnn.py`: the size is not given, and the first carry comes from the class."""

    def __new__(cls):
        return Cell(features=128)  # the size that the file uses

    @staticmethod
    def initialize_carry(key, batch, size):
        return jnp.zeros((*batch, size))


@pytest.fixture
def its_folder(monkeypatch):
    """PureJaxRL's folder, in whose files `gymnax` is shoal's module, and removed functions are there again."""
    if not hasattr(jax, "tree_map"):  # `dqn.py` calls it
        monkeypatch.setattr(jax, "tree_map", jax.tree.map, raising=False)
    monkeypatch.setattr(flax.linen, "GRUCell", OldCell)
    folder = Path(FOLDER) / "purejaxrl"
    with programs_for_legacy_gymnax(monkeypatch, folder, ABSENT):
        yield folder


def trained(folder, name, **changes):
    """The metrics of a file with the configuration that it has itself, and some changes."""
    module = pytest.importorskip(name, exc_type=ImportError)
    written = re.search(r"    config = \{.*?\n    \}", (folder / f"{name}.py").read_text(), re.DOTALL)[0]
    scope = {}
    exec(written.replace("    config", "config", 1), vars(module), scope)
    out = jax.jit(module.make_train(scope["config"] | {"DEBUG": False} | changes))(jax.random.PRNGKey(0))
    return out["metric" if "metric" in out else "metrics"]


@pytest.mark.parametrize(
    ("name", "steps", "better"), [("ppo", 150_000, 150), ("dqn", 60_000, 30), ("ppo_rnn", 150_000, 100)]
)
def test_its_file_learns_cartpole(its_folder, name, steps, better):
    metrics = trained(its_folder, name, TOTAL_TIMESTEPS=steps)
    returns = np.asarray(metrics["returns" if name == "dqn" else "returned_episode_returns"])
    assert returns[-len(returns) // 20 :].mean() > better


@pytest.mark.parametrize("name", ["ppo_continuous_action", "dpo_continuous_action"])
def test_its_files_for_brax_learn_pendulum(its_folder, name, monkeypatch):
    """They make their environment with a class of Brax's environments, whose place shoal's environment takes."""
    importlib.import_module("wrappers").BraxGymnaxWrapper = lambda env_name: legacy.make(env_name)[0]
    sizes = {"NUM_ENVS": 32, "NUM_STEPS": 64, "NUM_MINIBATCHES": 8, "UPDATE_EPOCHS": 8, "GAMMA": 0.95}
    metrics = trained(its_folder, name, ENV_NAME="Pendulum-v1", TOTAL_TIMESTEPS=600_000, **sizes)
    returns = np.asarray(metrics["returned_episode_returns"])  # [updates, steps, environments]
    assert returns[4:8].mean() < -1000 and returns[-4:].mean() > -500
