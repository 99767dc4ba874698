"""Tiles: the picture of each cell, drawn once with NumPy and kept in an atlas from which larger pictures are composed.

A tile is drawn at three times its size, as a sequence of strokes (a shape and a color), made lighter if the agent sees
the cell, and averaged down to its size. Shapes are masks of points. The result equals MiniGrid 3.2.0 byte for byte
(`core/grid.py` `render_tile`, `core/world_object.py` and `utils/rendering.py`).
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import cos, pi, sin
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt8, UInt16

from shoal.grid.cells import (
    CLOSED,
    COLOR_BITS,
    COLOR_SHIFT,
    COLORS,
    OBJECT_BITS,
    OBJECTS,
    OPEN,
    STATE_BITS,
    STATE_SHIFT,
    STATES,
)

Points = Float[np.ndarray, "n n"]
Shape = Callable[[Points, Points], Bool[np.ndarray, "n n"]]
Paint = tuple[float, float, float]  # red, green, blue; fractions are cut off
Stroke = tuple[Shape, Paint]

PAINTS: dict[str, Paint] = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "purple": (112, 39, 195),
    "yellow": (255, 255, 0),
    "grey": (100, 100, 100),
}
BLACK, LAVA_ORANGE = (0.0, 0.0, 0.0), (255.0, 128.0, 0.0)
FINENESS = 3  # points per pixel, in each direction
LINE = 0.031  # width of the lines between cells
LIGHT = 0.3  # how far a cell that the agent sees is mixed with white

# The code of a tile: bits 0-8 are those of a packed cell; bits 9-11 are 0 for no agent, or 1-4 for an agent that faces
# right, down, left, up; bit 12 is whether the tile is highlighted.
LOOKS_BITS, AGENT_SHIFT, HIGHLIGHT_SHIFT, CODES = 0x1FF, 9, 12, 1 << 13


class Atlas(NamedTuple):
    """All different tiles of one size, and for each code the index of its tile."""

    tiles: UInt8[np.ndarray, "N size size 3"]
    number: UInt16[np.ndarray, "8192"]


class CellStyle(NamedTuple):
    """The drawn properties of a cell. Lava and empty cells have no color, and only doors have a state."""

    name: str
    color: str = "red"
    state: str = "open"


@lru_cache(maxsize=8)
def atlas(size: int) -> Atlas:
    """The atlas of tiles of `size` x `size` pixels. Codes that look the same share a tile."""
    numbers: dict[tuple[CellStyle, int, bool], int] = {}
    drawn = []
    codes = np.zeros(CODES, np.uint16)
    for code in range(CODES):
        agent, highlight = code >> AGENT_SHIFT & 7, bool(code >> HIGHLIGHT_SHIFT)
        what = _style(code & LOOKS_BITS), min(agent, 4), highlight
        if what not in numbers:
            numbers[what] = len(drawn)
            drawn.append(tile(*what, size))
        codes[code] = numbers[what]
    return Atlas(np.stack(drawn), codes)


def tile(style: CellStyle, agent: int, highlight: bool, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """Draw one tile. `agent` is 0 if there is no agent in the cell, otherwise the agent's direction plus 1."""
    fine = _drawn(style, size)
    if agent:
        fine = np.where(_agent(agent - 1, size)[..., None], _bytes(PAINTS["red"]), fine)
    if highlight:
        fine = (fine + LIGHT * (255 - fine)).astype(np.uint8)
    return fine.reshape(size, FINENESS, size, FINENESS, 3).mean(axis=3).mean(axis=1).astype(np.uint8)


@lru_cache(maxsize=64)
def _drawn(style: CellStyle, size: int) -> UInt8[np.ndarray, "n n 3"]:
    x, y = _points(size)
    fine = np.zeros((*x.shape, 3), np.uint8)
    for shape, paint in (*_lines(), *_strokes(style)):
        fine[shape(x, y)] = _bytes(paint)
    return fine


@lru_cache(maxsize=4)
def _agent(direction: int, size: int) -> Bool[np.ndarray, "n n"]:
    triangle = _triangle((0.12, 0.19), (0.87, 0.5), (0.12, 0.81))
    return _turned(triangle, 0.5 * pi * direction)(*_points(size))


def _points(size: int) -> tuple[Points, Points]:
    n = size * FINENESS
    y, x = np.meshgrid(*[(np.arange(n) + 0.5) / n] * 2, indexing="ij")
    return x, y


def _bytes(paint: Paint) -> UInt8[np.ndarray, "3"]:
    return np.asarray(paint).astype(np.uint8)


def _style(cell: int) -> CellStyle:
    name = OBJECTS[min(cell & int(OBJECT_BITS), len(OBJECTS) - 1)]
    color = COLORS[(cell >> int(COLOR_SHIFT) & int(COLOR_BITS)) % len(COLORS)]
    state = STATES[(cell >> int(STATE_SHIFT) & int(STATE_BITS)) % len(STATES)]
    if name in ("unseen", "empty", "agent", "lava"):
        return CellStyle("empty" if name != "lava" else name)
    return CellStyle(name, color, state if name == "door" else "open")


# The strokes of each object.


def _lines() -> list[Stroke]:
    return [(_rectangle(0, LINE, 0, 1), PAINTS["grey"]), (_rectangle(0, 1, 0, LINE), PAINTS["grey"])]


def _strokes(style: CellStyle) -> list[Stroke]:
    paint = PAINTS[style.color]
    if style.name == "empty":
        return []
    if style.name == "door":
        return _door(paint, style.state)
    if style.name == "lava":
        return [(_whole, LAVA_ORANGE), *_waves()]
    if style.name == "floor":
        return [(_rectangle(LINE, 1, LINE, 1), _dimmed(paint, 0.5))]
    if style.name == "key":
        return _key(paint)
    if style.name == "ball":
        return [(_disk(0.5, 0.5, 0.31), paint)]
    if style.name == "box":
        return _box(paint)
    return [(_whole, paint)]  # walls and goals


def _door(paint: Paint, state: str) -> list[Stroke]:
    if state == STATES[OPEN]:
        return [(_rectangle(0.88, 1, 0, 1), paint), (_rectangle(0.92, 0.96, 0.04, 0.96), BLACK)]
    if state == STATES[CLOSED]:
        frames = [(_frame(0.04), BLACK), (_frame(0.08), paint), (_frame(0.12), BLACK)]
        return [(_whole, paint), *frames, (_disk(0.75, 0.5, 0.08), paint)]
    return [(_whole, paint), (_frame(0.06), _dimmed(paint, 0.45)), (_rectangle(0.52, 0.75, 0.5, 0.56), paint)]


def _key(paint: Paint) -> list[Stroke]:
    stem, teeth = _rectangle(0.5, 0.63, 0.31, 0.88), ((0.59, 0.66), (0.81, 0.88))
    return [
        (stem, paint),
        *[(_rectangle(0.38, 0.5, top, bottom), paint) for top, bottom in teeth],
        (_disk(0.56, 0.28, 0.19), paint),
        (_disk(0.56, 0.28, 0.064), BLACK),
    ]


def _box(paint: Paint) -> list[Stroke]:
    return [(_frame(0.12), paint), (_frame(0.18), BLACK), (_rectangle(0.16, 0.84, 0.47, 0.53), paint)]


def _waves() -> Iterator[Stroke]:
    for i in range(3):
        crest, trough = 0.3 + 0.2 * i, 0.4 + 0.2 * i
        for left, right, start, end in (
            (0.1, 0.3, crest, trough),
            (0.3, 0.5, trough, crest),
            (0.5, 0.7, crest, trough),
            (0.7, 0.9, trough, crest),
        ):
            yield _bar(left, start, right, end, 0.03), BLACK


def _dimmed(paint: Paint, by: float) -> Paint:
    red, green, blue = paint
    return by * red, by * green, by * blue


# Shapes: functions from points (x, y) of the unit square to the mask of the points inside.


def _whole(x: Points, y: Points) -> Bool[np.ndarray, "n n"]:
    return np.ones_like(x, bool)


def _rectangle(left: float, right: float, top: float, bottom: float) -> Shape:
    return lambda x, y: (x >= left) & (x <= right) & (y >= top) & (y <= bottom)


def _frame(margin: float) -> Shape:
    return _rectangle(margin, round(1 - margin, 2), margin, round(1 - margin, 2))


def _disk(center_x: float, center_y: float, radius: float) -> Shape:
    return lambda x, y: (x - center_x) * (x - center_x) + (y - center_y) * (y - center_y) <= radius * radius


def _bar(x0: float, y0: float, x1: float, y1: float, radius: float) -> Shape:
    # Corners are float32, as in the reference: this decides about points that are exactly on an edge.
    start, end = np.array([x0, y0], np.float32), np.array([x1, y1], np.float32)
    length = np.linalg.norm(end - start)
    ahead = (end - start) / length
    around = _rectangle(min(x0, x1) - radius, max(x0, x1) + radius, min(y0, y1) - radius, max(y0, y1) + radius)

    def shape(x: Points, y: Points) -> Bool[np.ndarray, "n n"]:
        along = np.clip((x - start[0]) * ahead[0] + (y - start[1]) * ahead[1], 0, length)
        aside_x, aside_y = x - (start[0] + along * ahead[0]), y - (start[1] + along * ahead[1])
        return around(x, y) & (np.sqrt(aside_x**2 + aside_y**2) <= radius)

    return shape


def _triangle(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> Shape:
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


def _turned(shape: Shape, angle: float) -> Shape:
    """A shape rotated about the center of the square, clockwise, by an angle in radians."""
    across, up = cos(-angle), sin(-angle)

    def turned(x: Points, y: Points) -> Bool[np.ndarray, "n n"]:
        x, y = x - 0.5, y - 0.5
        return shape(0.5 + x * across - y * up, 0.5 + y * across + x * up)

    return turned
