"""Raster drawing for pictures of environments: pure functions of NumPy arrays, Pillow underneath."""

from shoal.canvas.board import Board
from shoal.canvas.raster import BLACK, WHITE, Canvas, Color, box, placed

__all__ = ["BLACK", "WHITE", "Board", "Canvas", "Color", "box", "placed"]
