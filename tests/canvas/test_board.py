"""Drawing a board of cells: shapes stay inside their cell, and pictures fit the requested size."""

import numpy as np
import pytest

from shoal.canvas import Board

GROUND, RED = (200, 210, 220), (200, 30, 40)


def cells_changed(draw):
    board = Board(3, 4, ground=GROUND)
    before = board.pixels()
    draw(board)
    changed = np.argwhere((board.pixels() != before).any(axis=-1)) // board.cell
    return {tuple(cell) for cell in changed.tolist()}


@pytest.mark.parametrize(
    "draw",
    [
        lambda board: board.tile((1, 2), RED),
        lambda board: board.tile((1, 2), RED, 0.2),
        lambda board: board.disk((1, 2), RED),
        lambda board: board.letter((1, 2), "S"),
        lambda board: board.flag((1, 2), RED),
        lambda board: board.person((1, 2), RED),
        lambda board: board.person((1, 2), RED, 0.5),
    ],
)
def test_a_shape_drawn_in_a_cell_changes_no_other_cell(draw):
    assert cells_changed(draw) == {(1, 2)}


def test_a_tile_fills_its_cell():
    board = Board(3, 4, ground=GROUND)
    board.tile((1, 2), RED)
    assert (board.pixels()[64:128, 128:192] == RED).all()


@pytest.mark.parametrize("rows, columns, cell", [(3, 4, 64), (20, 10, 38), (255, 255, 4)])
def test_cells_shrink_so_that_a_picture_fits(rows, columns, cell):
    board = Board(rows, columns, ground=GROUND)
    assert board.cell == cell and board.pixels().shape == (rows * cell, columns * cell, 3)
