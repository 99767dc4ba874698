"""Pictures of small mazes, drawn on the host."""

import numpy as np
from jaxtyping import Bool, UInt8

from shoal.canvas import Canvas, Color, box

WALL_COLOR, FLOOR_COLOR, OBSERVED_COLOR = (64, 68, 82), (246, 246, 242), (255, 241, 204)
GOAL_COLOR, AGENT_COLOR = (92, 176, 106), (52, 101, 196)
GRAY = (150, 150, 150)


def maze_picture(
    walls: Bool[np.ndarray, "H W"],
    agent: tuple[int, int],
    goal: tuple[int, int],
    observed: Bool[np.ndarray, "H W"] | None = None,
    cell: int = 28,
) -> UInt8[np.ndarray, "_ _ 3"]:
    """Dark walls, a blue agent and a green goal, each at (row, column); cells that are `observed` are tinted."""
    rows, columns = walls.shape
    canvas = Canvas(columns * cell, rows * cell, window=(0, rows, columns, 0), background=FLOOR_COLOR)
    for row, column in np.ndindex(rows, columns):
        if walls[row, column]:
            _fill(canvas, row, column, WALL_COLOR)
        elif observed is not None and observed[row, column]:
            _fill(canvas, row, column, OBSERVED_COLOR)
    _fill(canvas, *goal, GOAL_COLOR, inset=0.1)
    canvas.circle((agent[1] + 0.5, agent[0] + 0.5), 0.32, AGENT_COLOR)
    return canvas.pixels()


def _fill(canvas: Canvas, row: int, column: int, color: Color, inset: float = 0.0) -> None:
    canvas.polygon(box(column + inset, row + inset, column + 1 - inset, row + 1 - inset), color)
