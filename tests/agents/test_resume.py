"""Every agent goes on from a checkpoint with the same bits: optimizers, buffers, priorities, tables, worlds and all."""

import shutil

import jax
import numpy as np
import pytest

import shoal
from agents.test_contract import bound, playable, unbound
from shoal.core.registry import AGENTS, make
from shoal.train import checkpoint
from tiny import SILENT

UPDATES = 6  # with learning before the checkpoint that is left, and after
VARIANTS = {
    "dqn": [{"prioritized": True, "noisy": True, "epsilon_end": 0.05, "n_step": 3}],
    "ppo": [{"memory": "lstm", "memory_size": 8, "num_minibatches": 2, "normalize_observation": True}],
}
CASES = [(name, fields) for name in sorted(AGENTS) for fields in ({}, *VARIANTS.get(name, []))]


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.parametrize(("name", "fields"), CASES, ids=lambda x: x if isinstance(x, str) else "-".join(x))
def test_a_run_that_was_cut_short_ends_with_the_same_bits(name, fields, tmp_path):
    probe = playable(name)
    agent = unbound(name, make(probe), **fields)
    steps = UPDATES * bound(name, make(probe), **fields).steps_per_update
    whole = tmp_path / "whole"
    shoal.train(agent, probe, steps=steps, seeds=2, records=3, evaluations=0, folder=whole, **SILENT)
    cut = shutil.copytree(whole, tmp_path / "cut")
    shutil.rmtree(checkpoint.newest(cut / "checkpoints"))
    (cut / "summary.json").unlink()
    assert checkpoint.newest(cut / "checkpoints").name != checkpoint.newest(whole / "checkpoints").name
    shoal.train(agent, resume=cut, **SILENT)
    ours, theirs = (np.load(checkpoint.newest(folder / "checkpoints") / checkpoint.ARRAYS) for folder in (cut, whole))
    assert ours.files == theirs.files
    for array in ours.files:
        np.testing.assert_array_equal(ours[array], theirs[array], err_msg=array)
