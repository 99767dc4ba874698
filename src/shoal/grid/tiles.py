"""Tiles: the picture of each cell, drawn once with NumPy and kept in an atlas from which larger pictures are composed.

A tile is drawn at three times its size, as a sequence of strokes (a shape and a color), made lighter if the agent sees
the cell, and averaged down to its size. The result equals MiniGrid 3.2.0 byte for byte (`core/grid.py` `render_tile`,
`core/world_object.py`). A kind that a level declares is its picture in the color of the cell.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, UInt8, UInt16

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
from shoal.grid.new_kinds import NewKind
from shoal.grid.shapes import ARROWS, Points, Shape, bar, disk, frame, rectangle, whole

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
    picture: Shape | None = None  # of a kind that a level declares, in this state


@lru_cache(maxsize=8)
def atlas(size: int, kinds: tuple[NewKind, ...] = ()) -> Atlas:
    """The atlas of tiles of `size` x `size` pixels. Codes that look the same share a tile.

    `kinds` are those that the level declares.
    """
    numbers: dict[tuple[CellStyle, int, bool], int] = {}
    drawn = []
    codes = np.zeros(CODES, np.uint16)
    for code in range(CODES):
        agent, highlight = code >> AGENT_SHIFT & 7, bool(code >> HIGHLIGHT_SHIFT)
        what = _style(code & LOOKS_BITS, kinds), min(agent, 4), highlight
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
    return ARROWS[direction](*_points(size))


def _points(size: int) -> tuple[Points, Points]:
    n = size * FINENESS
    y, x = np.meshgrid(*[(np.arange(n) + 0.5) / n] * 2, indexing="ij")
    return x, y


def _bytes(paint: Paint) -> UInt8[np.ndarray, "3"]:
    return np.asarray(paint).astype(np.uint8)


def _style(cell: int, kinds: tuple[NewKind, ...]) -> CellStyle:
    new = next((kind for kind in kinds if kind.code == cell & int(OBJECT_BITS)), None)
    name = OBJECTS[min(cell & int(OBJECT_BITS), len(OBJECTS) - 1)]
    color = COLORS[(cell >> int(COLOR_SHIFT) & int(COLOR_BITS)) % len(COLORS)]
    number = cell >> int(STATE_SHIFT) & int(STATE_BITS)
    if new is not None:
        return CellStyle(new.name, color, picture=new.picture_of(number))
    state = STATES[number % len(STATES)]
    if name in ("unseen", "empty", "agent", "lava"):
        return CellStyle("empty" if name != "lava" else name)
    return CellStyle(name, color, state if name == "door" else "open")


# The strokes of each object.


def _lines() -> list[Stroke]:
    return [(rectangle(0, LINE, 0, 1), PAINTS["grey"]), (rectangle(0, 1, 0, LINE), PAINTS["grey"])]


def _strokes(style: CellStyle) -> list[Stroke]:
    paint = PAINTS[style.color]
    if style.picture is not None:
        return [(style.picture, paint)]
    if style.name == "empty":
        return []
    if style.name == "door":
        return _door(paint, style.state)
    if style.name == "lava":
        return [(whole, LAVA_ORANGE), *_waves()]
    if style.name == "floor":
        return [(rectangle(LINE, 1, LINE, 1), _dimmed(paint, 0.5))]
    if style.name == "key":
        return _key(paint)
    if style.name == "ball":
        return [(disk(0.5, 0.5, 0.31), paint)]
    if style.name == "box":
        return _box(paint)
    return [(whole, paint)]  # walls and goals


def _door(paint: Paint, state: str) -> list[Stroke]:
    if state == STATES[OPEN]:
        return [(rectangle(0.88, 1, 0, 1), paint), (rectangle(0.92, 0.96, 0.04, 0.96), BLACK)]
    if state == STATES[CLOSED]:
        frames = [(frame(0.04), BLACK), (frame(0.08), paint), (frame(0.12), BLACK)]
        return [(whole, paint), *frames, (disk(0.75, 0.5, 0.08), paint)]
    return [(whole, paint), (frame(0.06), _dimmed(paint, 0.45)), (rectangle(0.52, 0.75, 0.5, 0.56), paint)]


def _key(paint: Paint) -> list[Stroke]:
    stem, teeth = rectangle(0.5, 0.63, 0.31, 0.88), ((0.59, 0.66), (0.81, 0.88))
    return [
        (stem, paint),
        *[(rectangle(0.38, 0.5, top, bottom), paint) for top, bottom in teeth],
        (disk(0.56, 0.28, 0.19), paint),
        (disk(0.56, 0.28, 0.064), BLACK),
    ]


def _box(paint: Paint) -> list[Stroke]:
    return [(frame(0.12), paint), (frame(0.18), BLACK), (rectangle(0.16, 0.84, 0.47, 0.53), paint)]


def _waves() -> Iterator[Stroke]:
    for i in range(3):
        crest, trough = 0.3 + 0.2 * i, 0.4 + 0.2 * i
        for left, right, start, end in (
            (0.1, 0.3, crest, trough),
            (0.3, 0.5, trough, crest),
            (0.5, 0.7, crest, trough),
            (0.7, 0.9, trough, crest),
        ):
            yield bar(left, start, right, end, 0.03), BLACK


def _dimmed(paint: Paint, by: float) -> Paint:
    red, green, blue = paint
    return by * red, by * green, by * blue
