"""MNIST as a bandit: the handwritten digits come from files of your own; nothing is downloaded.

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
    """Name the handwritten digit. The files are those of MNIST's training set, which you bring.

    `path` is the folder that holds `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, each as it is or with
    `.gz`; without it the environment variable `SHOAL_MNIST` is read. They are looked for when the first episode is set
    up, before anything compiles; a folder without them raises ValueError.

    Action: Discrete(10); the digit.

    Observation: Box(28, 28), float32: the digit at the start, zeros after the answer. bsuite reads pixels above 127 as
    negative numbers, so its pictures go from -0.502 to 0.498, and so do these; `signed=False` shows them as brightness,
    from 0 to 1.

    Reward: 1 for the right digit, -1 for a wrong one.
    Start: a uniform picture of the first `fraction` of the set.
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
        """A picture."""
        low, high = (-128, 127) if self.signed else (0, 255)
        return Box(np.float32(low) * PER_LEVEL, np.float32(high) * PER_LEVEL, (SIDE, SIDE))

    def data(self) -> tuple[UInt8[np.ndarray, "N H W"], UInt8[np.ndarray, "N"]]:
        """What the files hold. Raises ValueError where they are missing or are something else."""
        folder = self.path or os.environ.get(VARIABLE, "")
        if not folder:
            raise ValueError(
                f"MNISTBandit needs MNIST's training files: give path=..., or set {VARIABLE}, to the folder that holds "
                f"{IMAGES}.gz and {LABELS}.gz. DigitsBandit-v0 needs no files."
            )
        images, labels = read_mnist(folder)
        count = int(self.fraction * len(labels))
        if not count:
            raise ValueError(f"MNISTBandit.fraction={self.fraction} of {len(labels)} pictures leaves none.")
        return first_of(folder, count)

    def shown(self, pixels: UInt8[Array, "H W"]) -> Float[Array, "H W"]:
        """Pixels by 255, as signed bytes unless told otherwise."""
        numbers = jax.lax.bitcast_convert_type(pixels, jnp.int8) if self.signed else pixels
        return numbers.astype(jnp.float32) * PER_LEVEL


@functools.cache
def read_mnist(folder: str) -> tuple[UInt8[np.ndarray, "N H W"], UInt8[np.ndarray, "N"]]:
    """Pictures and labels of MNIST's training set. Raises ValueError where a file is missing or is none of MNIST's."""
    images, labels = _read_idx(folder, IMAGES, 3), _read_idx(folder, LABELS, 1)
    if images.shape[1:] != (SIDE, SIDE) or len(images) != len(labels) or not len(labels):
        raise ValueError(
            f"the MNIST files in {folder} do not belong together: pictures {list(images.shape)}, labels "
            f"{list(labels.shape)}."
        )
    return images, labels


@functools.cache
def first_of(folder: str, count: int) -> tuple[UInt8[np.ndarray, "N H W"], UInt8[np.ndarray, "N"]]:
    """The first pictures and labels: the same arrays for every asker, of which a program needs one copy only."""
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
