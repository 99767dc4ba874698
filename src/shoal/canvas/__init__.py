"""Raster drawing for pictures of environments: pure functions of NumPy arrays, Pillow underneath."""

from shoal.canvas.raster import BLACK, WHITE, Canvas, Color, box, placed

__all__ = ["BLACK", "WHITE", "Canvas", "Color", "box", "placed"]
