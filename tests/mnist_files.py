"""Write files in MNIST's format with random pictures, because the real files may not be distributed here."""

import gzip
from pathlib import Path

import numpy as np

COUNT = 50


def write(folder, count=COUNT, seed=0):
    """The two files of a training set; returns (pictures, labels)."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, 28, 28), np.uint8)
    labels = rng.integers(0, 10, count).astype(np.uint8)
    for name, array, magic in (("train-images-idx3-ubyte", images, 2051), ("train-labels-idx1-ubyte", labels, 2049)):
        header = np.array([magic, *array.shape], ">u4").tobytes()
        (Path(folder) / f"{name}.gz").write_bytes(gzip.compress(header + array.tobytes()))
    return images, labels
