"""Shapes that pictures of cells are made of: functions from points (x, y) to the mask of the points inside.

Points are those of a square of side 1; x grows to the right, y downwards. `disk`, `rectangle` and the like make shapes;
`SHAPES` are some by name, and `ARROWS` four that point right, down, left and up.
Source: MiniGrid 3.2.0 `utils/rendering.py`.
"""

from collections.abc import Callable
from math import cos, pi, sin

import numpy as np
from jaxtyping import Bool, Float

Points = Float[np.ndarray, "n n"]
Shape = Callable[[Points, Points], Bool[np.ndarray, "n n"]]


def whole(x: Points, y: Points) -> Bool[np.ndarray, "n n"]:
    """All points."""
    return np.ones_like(x, bool)


def rectangle(left: float, right: float, top: float, bottom: float) -> Shape:
    """A rectangle, with its edges."""
    return lambda x, y: (x >= left) & (x <= right) & (y >= top) & (y <= bottom)


def frame(margin: float) -> Shape:
    """A square with its center in the center of the cell, `margin` away from the sides of the cell."""
    return rectangle(margin, round(1 - margin, 2), margin, round(1 - margin, 2))


def disk(center_x: float, center_y: float, radius: float) -> Shape:
    """A disk."""
    return lambda x, y: (x - center_x) * (x - center_x) + (y - center_y) * (y - center_y) <= radius * radius


def bar(x0: float, y0: float, x1: float, y1: float, radius: float) -> Shape:
    """The points at most `radius` away from the line from (x0, y0) to (x1, y1)."""
    # Corners are float32, as in the reference: this decides about points that are exactly on an edge.
    start, end = np.array([x0, y0], np.float32), np.array([x1, y1], np.float32)
    length = np.linalg.norm(end - start)
    ahead = (end - start) / length
    around = rectangle(min(x0, x1) - radius, max(x0, x1) + radius, min(y0, y1) - radius, max(y0, y1) + radius)

    def shape(x: Points, y: Points) -> Bool[np.ndarray, "n n"]:
        along = np.clip((x - start[0]) * ahead[0] + (y - start[1]) * ahead[1], 0, length)
        aside_x, aside_y = x - (start[0] + along * ahead[0]), y - (start[1] + along * ahead[1])
        return around(x, y) & (np.sqrt(aside_x**2 + aside_y**2) <= radius)

    return shape


def triangle(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> Shape:
    """A triangle with these corners."""
    corner = np.array(a, np.float32)
    first, second = np.array(c, np.float32) - corner, np.array(b, np.float32) - corner
    squares = first @ first, first @ second, second @ second
    scale = np.float32(1) / (squares[0] * squares[2] - squares[1] * squares[1])

    def shape(x: Points, y: Points) -> Bool[np.ndarray, "n n"]:
        across, down = x - corner[0], y - corner[1]
        on_first, on_second = (side[0] * across + side[1] * down for side in (first, second))
        u = (squares[2] * on_first - squares[1] * on_second) * scale
        v = (squares[0] * on_second - squares[1] * on_first) * scale
        return (u >= 0) & (v >= 0) & (u + v < 1)

    return shape


def turned(shape: Shape, angle: float) -> Shape:
    """A shape rotated about the center of the square, clockwise, by an angle in radians."""
    across, up = cos(-angle), sin(-angle)

    def turned(x: Points, y: Points) -> Bool[np.ndarray, "n n"]:
        x, y = x - 0.5, y - 0.5
        return shape(0.5 + x * across - y * up, 0.5 + y * across + x * up)

    return turned


def without(outer: Shape, inner: Shape) -> Shape:
    """The points of a shape that are not in another one."""
    return lambda x, y: outer(x, y) & ~inner(x, y)


def _diamond(x: Points, y: Points) -> Bool[np.ndarray, "n n"]:
    return np.abs(x - 0.5) + np.abs(y - 0.5) <= 0.4


def _cross(x: Points, y: Points) -> Bool[np.ndarray, "n n"]:
    return _stripe(x, y) | _stripe(y, x)


def _stripe(along: Points, across: Points) -> Bool[np.ndarray, "n n"]:
    return (np.abs(along - 0.5) <= 0.38) & (np.abs(across - 0.5) <= 0.12)


SHAPES: dict[str, Shape] = {
    "cross": _cross,
    "diamond": _diamond,
    "disk": disk(0.5, 0.5, 0.31),
    "frame": without(frame(0.12), frame(0.25)),
    "ring": without(disk(0.5, 0.5, 0.38), disk(0.5, 0.5, 0.22)),
    "square": frame(0.22),
}
# For things whose state is a direction. MiniGrid draws its agent so, in red.
ARROWS = tuple(turned(triangle((0.12, 0.19), (0.87, 0.5), (0.12, 0.81)), 0.5 * pi * way) for way in range(4))
