"""MNIST as a bandit. The user provides MNIST's files; nothing is downloaded.

Source: bsuite 0.3.6 `environments/mnist.py` and `utils/datasets.py`, step for step.
"""

import functools
import gzip
import os
import zlib
from pathlib import Path

import jax.lax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from shoal.core.spaces import Box
from shoal.core.struct import static, struct
from shoal.envs.bsuite.experiments import experiment
from shoal.envs.bsuite.image_bandit import PER_LEVEL, ImageBandit
from shoal.envs.checks import check_range

VARIABLE = "SHOAL_MNIST"
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
SIDE = 28


@experiment("mnist", aliases={0: "MNISTBandit-bsuite"})
@struct
class MNISTBandit(ImageBandit):
    """Say which handwritten digit a picture shows. You provide the files of MNIST's training set.

    `path` is the folder that holds `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, each as it is or with
    `.gz`; if `path` is empty, the environment variable `SHOAL_MNIST` is used. The files are read when the first episode
    is prepared, before anything is compiled; if they are missing, ValueError is raised.

    Action: Discrete(10); the digit.

    Observation: Box(28, 28), float32: the digit at the start, zeros after the answer. bsuite reads pixels above 127 as
    negative numbers, so its pictures range from -0.502 to 0.498, and so do these; with `signed=False` they are
    brightness, from 0 to 1.

    Reward: 1 for the right digit, -1 for a wrong one.
    Start: a uniformly random picture of the first `fraction` of the set.
    End: terminated after one step.
    Differences from bsuite: nothing is downloaded.
    """

    path: str = static("", help="folder of MNIST's training files; empty: the variable SHOAL_MNIST")
    fraction: float = static(1.0)
    signed: bool = static(True, choices=(True, False))

    def __post_init__(self) -> None:
        check_range(self, "fraction", low=0, high=1)

    @property
    def observation_space(self) -> Box:
        """A picture [28, 28]."""
        low, high = (-128, 127) if self.signed else (0, 255)
        return Box(np.float32(low) * PER_LEVEL, np.float32(high) * PER_LEVEL, (SIDE, SIDE))

    def data(self) -> tuple[UInt8[np.ndarray, "N H W"], UInt8[np.ndarray, "N"]]:
        """Pictures [N, 28, 28] and labels [N] of the files. Raises ValueError if a file is missing or not MNIST's."""
        folder = self.path or os.environ.get(VARIABLE, "")
        if not folder:
            raise ValueError(
                f"MNISTBandit needs MNIST's training files: give path=..., or set {VARIABLE}, to the folder with "
                f"{IMAGES}.gz and {LABELS}.gz. DigitsBandit-v0 needs no files."
            )
        images, labels = read_mnist(folder)
        count = int(self.fraction * len(labels))
        if not count:
            raise ValueError(f"MNISTBandit.fraction={self.fraction} of {len(labels)} pictures leaves none.")
        return first_of(folder, count)

    def shown(self, pixels: UInt8[Array, "H W"]) -> Float[Array, "H W"]:
        """Pixels divided by 255; with `signed`, pixels are read as int8 first."""
        numbers = jax.lax.bitcast_convert_type(pixels, jnp.int8) if self.signed else pixels
        return numbers.astype(jnp.float32) * PER_LEVEL


@functools.cache
def read_mnist(folder: str) -> tuple[UInt8[np.ndarray, "N H W"], UInt8[np.ndarray, "N"]]:
    """Pictures [N, 28, 28] and labels [N] in a folder. Raises ValueError if a file is missing or not MNIST's."""
    images, labels = _read_idx(folder, IMAGES, 3), _read_idx(folder, LABELS, 1)
    if images.shape[1:] != (SIDE, SIDE) or len(images) != len(labels) or not len(labels):
        raise ValueError(
            f"the MNIST files in {folder} do not fit together: pictures {list(images.shape)}, labels "
            f"{list(labels.shape)}."
        )
    return images, labels


@functools.cache
def first_of(folder: str, count: int) -> tuple[UInt8[np.ndarray, "N H W"], UInt8[np.ndarray, "N"]]:
    """The first `count` pictures and labels. Cached: a program that uses them twice then holds one copy only."""
    images, labels = read_mnist(folder)
    return images[:count], labels[:count]


def _read_idx(folder: str, name: str, dimensions: int) -> np.ndarray:
    """An array of bytes in the IDX format: a magic number, the sizes, the bytes."""
    found = [path for path in (Path(folder) / f"{name}.gz", Path(folder) / name) if path.is_file()]
    if not found:
        raise ValueError(f"{folder} holds neither {name}.gz nor {name}: give MNISTBandit the folder of MNIST's files.")
    try:
        raw = found[0].read_bytes()
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        magic, *sizes = np.frombuffer(raw, ">u4", 1 + dimensions).tolist()
        if magic != 0x0800 + dimensions:
            raise ValueError(f"magic number {magic}")
        return np.frombuffer(raw, np.uint8, offset=4 * (1 + dimensions)).reshape(sizes)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{found[0]} is not {name} of MNIST, or is damaged: {error}.") from error
