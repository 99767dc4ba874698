"""Checkpoints: single parts are loaded, and missing or exchanged files are refused."""

import jax
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


# Parts of several processes.


def save_of_processes(path, parts, spec="spec"):
    """Save a checkpoint in which process N writes `parts[N]`."""

    def write_more(folder):
        entries = [checkpoint.write_parts(folder, {"learners": tree}, n) for n, tree in enumerate(parts)]
        return {name: entry for part in entries for name, entry in part.items()}

    checkpoint.save(path, {"run": {"age": np.arange(2)}}, spec, {}, write_more=write_more)


def test_members_that_several_processes_wrote_are_joined_in_the_order_of_the_slots(tmp_path):
    state = {"w": np.arange(48.0).reshape(24, 2), "key": jax.random.split(jax.random.key(0), 24)}
    save_of_processes(
        tmp_path / "step-1", [jax.tree.map(lambda x, n=n: x[2 * n : 2 * n + 2], state) for n in range(12)]
    )
    found = checkpoint.restore(tmp_path / "step-1", "learners", state, "spec")
    np.testing.assert_array_equal(found["w"], state["w"])
    np.testing.assert_array_equal(jax.random.key_data(found["key"]), jax.random.key_data(state["key"]))
    assert checkpoint.table_of(tmp_path / "step-1", "learners")["w"] == [[24, 2], "float64"]


def test_a_damaged_part_of_another_process_is_named(tmp_path):
    save_of_processes(tmp_path / "step-1", [{"w": np.zeros(2)}, {"w": np.ones(2)}])
    file = tmp_path / "step-1" / "learners-1.npz"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(DamagedError, match="learners-1.npz does not match the hash in its manifest"):
        checkpoint.restore(tmp_path / "step-1", "learners", {"w": np.zeros(4)}, "spec")
    file.unlink()
    with pytest.raises(DamagedError, match="it has no learners-1.npz"):
        checkpoint.check(tmp_path / "step-1", "spec")


@pytest.mark.parametrize("other", [{"w": np.zeros((2, 3))}, {"v": np.zeros((4, 2))}, {"w": np.zeros(())}])
def test_parts_that_do_not_fit_together_give_one_line(other, tmp_path):
    save_of_processes(tmp_path / "step-1", [{"w": np.zeros((2, 2))}, other])
    table = checkpoint.table_of(tmp_path / "step-1", "learners")
    like = {name: np.zeros(shape) for name, (shape, _) in table.items()}
    words = "the arrays of its parts learners, learners-1 do not fit together"
    with pytest.raises(DamagedError, match=rf"^[^\n]*step-1 [^\n]*{words}[^\n]*$"):
        checkpoint.restore(tmp_path / "step-1", "learners", like, "spec")


def test_a_process_that_is_lost_while_a_checkpoint_is_written_leaves_the_one_before(saved):
    def write_more(folder):
        checkpoint.write_parts(folder, {"learners": np.zeros(2)})
        raise ConnectionError("process 1 is lost")

    with pytest.raises(ConnectionError, match="^process 1 is lost$"):
        checkpoint.save(saved, PARTS, "spec", {"updates": 8}, write_more=write_more)
    assert [path.name for path in saved.parent.iterdir()] == ["step-1"]
    assert checkpoint.read_about(saved) == {"updates": 7}
