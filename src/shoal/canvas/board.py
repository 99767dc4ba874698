"""Draws grids of square cells with tiles, letters, flags and people. A cell is (row, column) from the top left."""

from typing import Any

import numpy as np
from jaxtyping import UInt8

from shoal.canvas.raster import BLACK, Canvas, Color, Real, box, transformed

MAX_SIDE, CELL = 768, 64  # pixels: the longest side of a picture, and the side of a cell in a small grid
SKIN: Color = (240, 205, 170)


class Board:
    """A picture of `rows` x `columns` cells on a background (`ground`) of one color, with thin lines between the cells.

    board = Board(2, 3, ground=(225, 240, 250))
    board.tile((1, 2), (40, 60, 110))
    board.person((0, 0), (200, 60, 60))
    picture = board.pixels()  # uint8 [128, 192, 3]
    """

    def __init__(self, rows: int, columns: int, *, ground: Color, lines: Color | None = None) -> None:
        """`lines` is the color of the lines between cells; by default a little darker than the ground."""
        self.cell = max(4, min(CELL, MAX_SIDE // max(rows, columns)))
        self.canvas = Canvas(columns * self.cell, rows * self.cell, window=(0, rows, columns, 0), background=ground)
        lines = lines or _darker(ground)
        for row in range(1, rows):
            self.canvas.line([(0, row), (columns, row)], lines, 0)
        for column in range(1, columns):
            self.canvas.line([(column, 0), (column, rows)], lines, 0)

    def tile(self, cell: tuple[Any, Any], color: Color, margin: Real = 0.0) -> None:
        """Fill a cell with a color, except for a border of width `margin` (as a fraction of the cell's side)."""
        row, column = cell
        self.canvas.polygon(box(column + margin, row + 1 - margin, column + 1 - margin, row + margin), color)

    def disk(self, cell: tuple[Any, Any], color: Color, radius: Real = 0.36) -> None:
        """Draw a disk in the middle of a cell; `radius` is a fraction of the cell's side."""
        row, column = cell
        self.canvas.circle((column + 0.5, row + 0.5), radius, color)

    def letter(self, cell: tuple[Any, Any], letter: str, color: Color = BLACK) -> None:
        """Draw a letter in the middle of a cell."""
        row, column = cell
        self.canvas.text((column + 0.5, row + 0.5), letter, color, size=0.5 * self.cell, anchor="mm")

    def flag(self, cell: tuple[Any, Any], color: Color) -> None:
        """Draw a flag in a cell; environments mark goals with it."""
        row, column = cell
        self.canvas.line([(column + 0.35, row + 0.85), (column + 0.35, row + 0.15)], (90, 70, 50), 0.06)
        flag = [(column + 0.38, row + 0.15), (column + 0.82, row + 0.32), (column + 0.38, row + 0.5)]
        self.canvas.polygon(flag, color)

    def person(self, cell: tuple[Any, Any], color: Color, scale: Real = 1.0) -> None:
        """Draw a person in a cell: a head, and a coat of the given color. `scale` is relative to the usual size."""
        row, column = cell
        center = (column + 0.5, row + 0.5)
        coat = np.array([(-0.12, -0.08), (0.12, -0.08), (0.24, 0.36), (-0.24, 0.36)])
        self.canvas.polygon(transformed(coat * scale, center), color)
        self.canvas.circle((center[0], center[1] - 0.18 * scale), 0.17 * scale, SKIN)

    def pixels(self) -> UInt8[np.ndarray, "H W 3"]:
        """A copy of the picture drawn so far."""
        return self.canvas.pixels()


def _darker(color: Color) -> Color:
    red, green, blue = (int(0.86 * channel) for channel in color)
    return red, green, blue
