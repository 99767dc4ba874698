"""Checkpoints: single parts are loaded, and missing or exchanged files are refused."""

import numpy as np
import pytest

from shoal.core.errors import CheckpointError, DamagedError
from shoal.training import checkpoint

PARTS = {"learners": {"buffer": np.arange(1000.0)}, "policies": {"w": np.arange(3, dtype=np.float32)}}


@pytest.fixture
def saved(tmp_path):
    checkpoint.save(tmp_path / "step-1", PARTS, "spec", {"updates": 7})
    return tmp_path / "step-1"


@pytest.mark.parametrize("part", PARTS)
def test_one_part_is_loaded_without_the_others(part, saved):
    (other,) = set(PARTS) - {part}
    checkpoint.file_of(saved, other).unlink()
    (name,) = PARTS[part]
    np.testing.assert_array_equal(checkpoint.restore(saved, part, PARTS[part], "spec")[name], PARTS[part][name])
    assert checkpoint.read_about(saved) == {"updates": 7}
    with pytest.raises(DamagedError, match=f"{other}.npz"):
        checkpoint.restore(saved, other, PARTS[other], "spec")


def test_a_part_that_was_never_saved_is_named(saved):
    with pytest.raises(CheckpointError, match="step-1 holds learners, policies, and no critics"):
        checkpoint.restore(saved, "critics", {}, "spec")


def test_another_file_of_the_same_size_is_refused(saved):
    file = checkpoint.file_of(saved, "policies")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamagedError, match="policies.npz does not match the hash in its manifest"):
        checkpoint.restore(saved, "policies", PARTS["policies"], "spec")
