"""The MNIST bandit against bsuite's; both read the same files."""

import shutil

import numpy as np
import pytest
from bsuite.environments import mnist
from bsuite.utils import datasets

import mnist_files
from parity.bsuite.replay import assert_replays, play
from shoal.envs.bsuite.mnist import MNISTBandit


@pytest.mark.parametrize("fraction", [1.0, 0.33])
def test_mnist_is_bsuites(fraction, tmp_path, monkeypatch):
    images, _ = mnist_files.write(tmp_path)
    for kind in ("images-idx3", "labels-idx1"):
        shutil.copy(tmp_path / f"train-{kind}-ubyte.gz", tmp_path / f"t10k-{kind}-ubyte.gz")
    load = datasets.load_mnist
    monkeypatch.setattr(datasets, "load_mnist", lambda: load(str(tmp_path)))  # bsuite downloads what is missing
    env, theirs = MNISTBandit(str(tmp_path), fraction), mnist.MNISTBandit(fraction)
    seen = play(env, 600)
    assert_replays(theirs, seen, lambda queue, state: queue.put("randint", state.picture), rtol=1e-6)
    assert 0 < seen.info["total_regret"][-1] < 1200
    assert seen.after.picture.max() == int(fraction * len(images)) - 1
    assert seen.first_obs.min() < -0.4  # bsuite's own reading of bytes above 127


def test_unsigned_pictures_are_the_bytes_as_brightness(tmp_path):
    images, _ = mnist_files.write(tmp_path)
    seen = play(MNISTBandit(str(tmp_path), signed=False), 20)
    np.testing.assert_allclose(seen.first_obs, images[seen.first.picture] / 255, rtol=1e-6)
