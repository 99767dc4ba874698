"""Draws pictures of environments as NumPy arrays, uint8 [H, W, 3], on the host. Pillow draws the text."""

from shoal.canvas.board import Board
from shoal.canvas.raster import BLACK, WHITE, Canvas, Color, box, text_width, transformed

__all__ = ["BLACK", "WHITE", "Board", "Canvas", "Color", "box", "text_width", "transformed"]
