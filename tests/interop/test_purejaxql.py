"""purejaxql's own files train on shoal's environments: `SHOAL_TEST_PUREJAXQL=CLONE pytest -m slow FILE`.

They need flax, chex and optax. What else they import for their command line and logs (hydra, omegaconf, safetensors,
wandb) is replaced by empty modules where it is missing.
"""

import os
from pathlib import Path

import jax
import numpy as np
import pytest
import yaml

from other_libraries import programs_for_legacy_gymnax

FOLDER = os.environ.get("SHOAL_TEST_PUREJAXQL")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # their own
    pytest.mark.skipif(not FOLDER, reason="SHOAL_TEST_PUREJAXQL names no clone of purejaxql"),
]
ABSENT = ("hydra", "omegaconf", "safetensors", "safetensors.flax", "wandb")


@pytest.mark.parametrize(
    ("name", "config", "changes", "better"),
    [
        ("pqn_gymnax", "pqn_cartpole", {"TOTAL_TIMESTEPS": 200_000}, 300),
        ("pqn_rnn_gymnax", "pqn_rnn_cartpole", {"TOTAL_TIMESTEPS": 60_000, "NUM_EPOCHS": 2}, 60),
        ("pqn_minatar", "pqn_minatar", {"TOTAL_TIMESTEPS": 60_000, "ENV_NAME": "Breakout-MinAtar"}, 0.5),
    ],
)
def test_its_file_learns(monkeypatch, name, config, changes, better):
    """With its own configuration; the return is that of its own test without exploration, during training."""
    folder = Path(FOLDER) / "purejaxql"
    chosen = yaml.safe_load((folder / "config" / "alg" / f"{config}.yaml").read_text()) | changes
    chosen |= {
        "TEST_INTERVAL": 1.0,
        "TOTAL_TIMESTEPS_DECAY": chosen["TOTAL_TIMESTEPS"],
        "WANDB_MODE": "disabled",
        "TEST_NUM_ENVS": 8,
    }
    with programs_for_legacy_gymnax(monkeypatch, folder, ABSENT):
        module = pytest.importorskip(name, exc_type=ImportError)
        out = jax.jit(jax.vmap(module.make_train(chosen)))(jax.random.split(jax.random.PRNGKey(0), 1))
    returns = np.asarray(out["metrics"]["test/returned_episode_returns"])[0]  # [updates]
    assert returns[-1] > better and returns[-1] > 1.5 * returns[0]
