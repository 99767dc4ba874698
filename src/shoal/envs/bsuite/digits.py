"""MNIST's task with drawn digits, for users who do not have MNIST's files.

The pictures are not photographs of handwriting. Each digit consists of a few strokes (`STROKES` below), which are
bent, rotated, slanted, moved and drawn with pens of several widths. The random generator has a fixed seed, so everyone
gets the same pictures. The task is much easier than MNIST, and its scores say nothing about MNIST.
"""

import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from shoal.core.registry import env
from shoal.core.spaces import Box
from shoal.core.struct import static, struct
from shoal.envs.bsuite.image_bandit import CLASSES, PER_LEVEL, ImageBandit
from shoal.envs.checks import check_range

SIDE = 16
SEED = 7


@env("DigitsBandit-v0")
@struct
class DigitsBandit(ImageBandit):
    """Say which digit a picture shows. The pictures are drawn from a few strokes for each digit; they are not MNIST's.

    Action: Discrete(10); the digit.

    Observation: Box(16, 16), float32: the digit at the start, brightness from 0 to 1; zeros after the answer.

    Reward: 1 for the right digit, -1 for a wrong one.
    Start: one of `count` pictures, uniformly. All digits are equally frequent (up to one picture).
    End: terminated after one step.
    Source: the rules are those of bsuite's MNIST bandit; the pictures are our own.
    """

    count: int = static(2000)

    def __post_init__(self) -> None:
        check_range(self, "count", low=CLASSES, high=100_000, whole=True)

    @property
    def observation_space(self) -> Box:
        """A picture [16, 16]."""
        return Box(0, 1, (SIDE, SIDE))

    def data(self) -> tuple[UInt8[np.ndarray, "N H W"], UInt8[np.ndarray, "N"]]:
        """Pictures [count, 16, 16] and their digits [count]: 0, 1, ..., 9, 0, 1, ..."""
        return draw_digits(self.count)

    def shown(self, pixels: UInt8[Array, "H W"]) -> Float[Array, "H W"]:
        """Pixels divided by 255: brightness from 0 to 1."""
        return pixels.astype(jnp.float32) * PER_LEVEL


@functools.lru_cache(maxsize=4)
def draw_digits(count: int) -> tuple[UInt8[np.ndarray, "N H W"], UInt8[np.ndarray, "N"]]:
    """Pictures [count, 16, 16] and their digits [count]. A larger `count` only adds pictures at the end."""
    random = np.random.RandomState(SEED)
    labels = (np.arange(count) % CLASSES).astype(np.uint8)
    return np.stack([_draw_digit(int(label), random) for label in labels]), labels


def _draw_digit(digit: int, random: np.random.RandomState) -> UInt8[np.ndarray, "H W"]:
    """One picture: the distorted strokes of a digit in the unit square, y downwards, drawn with a random pen width."""
    angle, slant, stretch, size = random.uniform([-0.2, -0.25, 0.85, 0.62], [0.2, 0.25, 1.15, 0.8])
    shift, width = random.uniform(-0.06, 0.06, 2), random.uniform(0.045, 0.085)
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    frame = size * rotation @ np.array([[stretch * 0.75, slant], [0.0, 1.0]])
    center = (np.arange(SIDE) + 0.5) / SIDE
    pixels = np.stack(np.meshgrid(center, center), axis=-1)
    distance = np.full((SIDE, SIDE), np.inf)
    for stroke in STROKES[digit]:
        points = np.asarray(stroke) - 0.5 + random.uniform(-0.03, 0.03, (len(stroke), 2))
        points = points @ frame.T + 0.5 + shift
        for start, end in zip(points[:-1], points[1:], strict=True):
            distance = np.minimum(distance, _distance_to_segment(pixels, start, end))
    ink = np.clip(0.5 + (width - distance) * SIDE, 0, 1)
    grain = random.uniform(0.85, 1.0, (SIDE, SIDE))
    return np.rint(255 * ink * grain).astype(np.uint8)


def _distance_to_segment(pixels: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    along = end - start
    part = np.clip((pixels - start) @ along / max(float(along @ along), 1e-9), 0, 1)
    return np.linalg.norm(pixels - start - part[..., None] * along, axis=-1)


def _arc(x: float, y: float, wide: float, high: float, begin: float, finish: float) -> list[tuple[float, float]]:
    """Nine points on an ellipse from angle `begin` to `finish`, in turns, clockwise from the right."""
    turns = (begin + (finish - begin) * i / 8 for i in range(9))
    return [(x + wide * math.cos(2 * math.pi * t), y + high * math.sin(2 * math.pi * t)) for t in turns]


STROKES: tuple[Any, ...] = (
    [_arc(0.5, 0.5, 0.36, 0.5, 0, 1)],
    [[(0.3, 0.2), (0.55, 0.0), (0.55, 1.0)]],
    [[*_arc(0.5, 0.27, 0.36, 0.27, 0.5, 1.08), (0.12, 1.0), (0.9, 1.0)]],
    [_arc(0.45, 0.25, 0.35, 0.25, 0.58, 1.25), _arc(0.45, 0.74, 0.4, 0.26, 0.75, 1.42)],
    [[(0.65, 1.0), (0.65, 0.0), (0.1, 0.68), (0.92, 0.68)]],
    [[(0.85, 0.0), (0.22, 0.0), (0.17, 0.45), *_arc(0.47, 0.69, 0.39, 0.31, 0.66, 1.42)]],
    [[(0.7, 0.0), (0.3, 0.35), (0.14, 0.7)], _arc(0.5, 0.71, 0.36, 0.29, 0, 1)],
    [[(0.1, 0.0), (0.9, 0.0), (0.4, 1.0)]],
    [_arc(0.5, 0.24, 0.3, 0.24, 0, 1), _arc(0.5, 0.74, 0.37, 0.26, 0, 1)],
    [_arc(0.5, 0.29, 0.36, 0.29, 0, 1), [(0.86, 0.3), (0.7, 0.7), (0.4, 1.0)]],
)
