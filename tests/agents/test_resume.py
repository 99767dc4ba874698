"""A run of every agent that is resumed from a checkpoint ends with the same bits as an uninterrupted run.

Compared are weights, optimizer states, replay buffers, priorities, tables and environment states.
"""

import shutil

import jax
import numpy as np
import pytest

import shoal
from learners import VARIANTS, bound, playable, unbound
from shoal.core.registry import AGENTS, make
from shoal.training import checkpoint
from tiny import SILENT

UPDATES = 6  # with learning before the checkpoint that is left, and after
OPTIONS_OF = {
    "dqn": [
        {"prioritized": True, "noisy": True, "epsilon_end": 0.05, "n_step": 3},
        {"prioritized": True, "memory": "lstm", "memory_size": 8, "sequence_length": 10, "burn_in": 5},
    ],
    "sac": [
        {"prioritized": True, "n_step": 3},
        {"memory": "gru", "memory_size": 8, "sequence_length": 10, "burn_in": 5},
    ],
    "ppo": [
        {"memory": "lstm", "memory_size": 8, "num_minibatches": 2, "normalize_observation": True},
        {"bonus": "rnd", "predictor_size": 8},
    ],
}
# `make test` resumes a recurrent, normalizing PPO in test_ppo_memory.py; one of TD3 or TQC is like one of SAC.
SLOW = {*VARIANTS, "ppo", "td3", "tqc"}
CASES = [
    pytest.param(name, fields, marks=[pytest.mark.slow] if name in SLOW or other else [])
    for name in sorted(AGENTS)
    for fields, other in [*[(fields, False) for fields in OPTIONS_OF.get(name, [])], ({}, name in OPTIONS_OF)]
]


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.parametrize(("name", "fields"), CASES, ids=lambda x: x if isinstance(x, str) else "-".join(x))
@pytest.mark.sampled(2)
def test_an_interrupted_run_ends_with_the_same_bits(name, fields, tmp_path):
    probe = playable(name)
    probe = "Probe-Chain-v0" if probe == "Probe-CountedMatching-v0" else probe  # a table learns that one too early
    agent = unbound(name, make(probe), **fields)
    steps = UPDATES * bound(name, make(probe), **fields).steps_per_update
    whole = tmp_path / "whole"
    shoal.train(agent, probe, steps=steps, seeds=2, records=3, evaluations=0, folder=whole, **SILENT)
    cut = shutil.copytree(whole, tmp_path / "cut")
    shutil.rmtree(checkpoint.newest(cut / "checkpoints"))
    (cut / "summary.json").unlink()
    before, after = arrays_of(cut), arrays_of(whole)
    changed = [name for name, array in after.items() if not np.array_equal(array, before[name])]
    assert any("kernel" in name or "search" in name or name.endswith("/q") for name in changed)  # still learning
    shoal.train(agent, resume=cut, **SILENT)
    resumed = arrays_of(cut)
    assert resumed.keys() == after.keys()
    for array in after:
        np.testing.assert_array_equal(resumed[array], after[array], err_msg=array)


def arrays_of(run):
    """Everything in a run's newest checkpoint."""
    with np.load(checkpoint.newest(run / "checkpoints") / "learners.npz") as file:
        return dict(file)
