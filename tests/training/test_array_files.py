"""The .npz files that checkpoints consist of, and their hashes."""

import hashlib

import jax.numpy as jnp
import numpy as np

from shoal.training.array_files import write_arrays
from shoal.training.reading import read_arrays

ARRAYS = {
    "state/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "state/every other": np.arange(12).reshape(3, 4)[:, ::2],
    "columns first": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "a number": np.float32(0.5),
    "empty": np.zeros((2, 0), np.uint8),
    "flags": np.array([True, False]),
    "half": jnp.arange(3, dtype=jnp.float16),
}


def test_numpy_and_the_library_read_the_arrays_that_were_written(tmp_path):
    write_arrays(tmp_path / "a.npz", ARRAYS)
    with np.load(tmp_path / "a.npz") as file:
        by_numpy = dict(file)
    for found in (by_numpy, read_arrays(tmp_path / "a.npz")):
        assert list(found) == list(ARRAYS)
        for name, array in ARRAYS.items():
            assert found[name].shape == array.shape and found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], np.asarray(array))


def test_the_hash_is_of_the_content_of_the_file(tmp_path):
    arrays = {**ARRAYS, "many pieces": np.arange(2**20)}
    digest = write_arrays(tmp_path / "a.npz", arrays)
    assert digest == hashlib.sha256((tmp_path / "a.npz").read_bytes()).hexdigest()


def test_equal_arrays_make_equal_files(tmp_path):
    assert write_arrays(tmp_path / "a.npz", ARRAYS) == write_arrays(tmp_path / "b.npz", ARRAYS)
