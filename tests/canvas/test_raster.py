"""The drawing kit: areas, positions and colors computed by hand."""

import math
import subprocess
import sys

import numpy as np
import pytest

from shoal.canvas import BLACK, Canvas, box, transformed

RED = (200, 30, 40)


def ink(picture):
    """How much of a black-on-white picture is covered, in pixels."""
    return ((255 - picture[..., 0].astype(float)) / 255).sum()


def test_a_box_covers_exactly_its_pixels():
    canvas = Canvas(12, 8)
    canvas.polygon(box(2, 3, 7, 5), RED)
    expected = np.full((8, 12, 3), 255, np.uint8)
    expected[3:5, 2:7] = RED
    np.testing.assert_array_equal(canvas.pixels(), expected)


def test_y_points_up_if_the_window_is_defined_that_way():
    canvas = Canvas(10, 10, window=(-1, -1, 1, 1))
    canvas.polygon(box(0, 0, 1, 1), BLACK)
    expected = np.full((10, 10, 3), 255, np.uint8)
    expected[:5, 5:] = 0
    np.testing.assert_array_equal(canvas.pixels(), expected)


def test_a_circle_has_the_area_and_center_of_a_circle():
    canvas = Canvas(100, 80, window=(0, 0, 50, 40))
    canvas.circle((20, 15), 10, BLACK)
    picture = canvas.pixels()
    assert ink(picture) == pytest.approx(math.pi * 20**2, rel=0.001)  # radius 10 units = 20 pixels
    rows, columns = np.nonzero(picture[..., 0] < 128)
    assert columns.mean() + 0.5 == pytest.approx(40, abs=0.01)
    assert rows.mean() + 0.5 == pytest.approx(80 - 30, abs=0.01)


def test_edges_are_smooth():
    canvas = Canvas(40, 40)
    canvas.polygon([(5, 5), (35, 12), (12, 35)], BLACK)
    picture = canvas.pixels()
    area = abs(30 * 30 - 7 * 7) / 2  # half the cross product of the two sides from (5, 5)
    assert ink(picture) == pytest.approx(area, rel=0.002)
    assert len(np.unique(picture)) > 4


def test_a_concave_polygon_is_filled_correctly():
    canvas = Canvas(20, 20)
    canvas.polygon([(2, 2), (18, 2), (18, 18), (14, 18), (14, 6), (6, 6), (6, 18), (2, 18)], BLACK)  # an upturned U
    assert ink(canvas.pixels()) == 16 * 16 - 8 * 12
    assert (canvas.pixels()[6:18, 6:14] == 255).all()


def test_an_edge_at_half_a_pixel_is_half_covered():
    canvas = Canvas(10, 4)
    canvas.polygon(box(2.5, 0, 7, 4), BLACK)
    np.testing.assert_array_equal(canvas.pixels()[1, :, 0], [255, 255, 128, 0, 0, 0, 0, 255, 255, 255])


@pytest.mark.parametrize("end", [(40, 0), (0, 40), (24, 32)])
def test_a_line_is_as_wide_as_asked(end):
    canvas = Canvas(60, 60)
    canvas.line([(10, 10), (10 + end[0], 10 + end[1])], BLACK, width=4)
    expected = 40 * 4 + math.pi * 2**2  # its length times its width, and the two round ends
    np.testing.assert_allclose(ink(canvas.pixels()), expected, rtol=0.005)


def test_corners_of_a_line_are_not_drawn_twice():
    once, twice = Canvas(40, 40), Canvas(40, 40)
    once.line([(5, 5.3), (35, 5.3)], BLACK, width=1)
    twice.line([(5, 5.3), (20, 5.3), (35, 5.3)], BLACK, width=1)
    np.testing.assert_array_equal(once.pixels(), twice.pixels())


def test_shapes_outside_the_canvas_are_clipped():
    canvas = Canvas(20, 20)
    canvas.circle((0, 10), 5, BLACK)
    canvas.circle((200, -50), 5, BLACK)
    canvas.line([(-10, 40), (30, 40)], BLACK, width=2)
    assert ink(canvas.pixels()) == pytest.approx(math.pi * 25 / 2, rel=0.005)


def test_drawing_goes_on_over_a_copy_of_a_picture():
    first = Canvas(6, 4, background=RED).pixels()
    canvas = Canvas(6, 4, background=first)
    canvas.polygon(box(0, 0, 6, 4), BLACK)
    assert (canvas.pixels() == 0).all()
    assert (first == RED).all()


def test_text_is_drawn_at_the_given_position():
    canvas = Canvas(100, 30)
    canvas.text((50, 15), "step 12", size=14, anchor="mm")
    rows, columns = np.nonzero(canvas.pixels()[..., 0] < 128)
    assert 8 <= rows.min() < rows.max() <= 22
    assert columns.min() + columns.max() == pytest.approx(100, abs=4)


def test_an_arrow_ends_where_its_arc_ends():
    canvas = Canvas(100, 100, window=(-1, -1, 1, 1))
    canvas.arrow_arc((0, 0), 0.6, start=0.0, sweep=math.pi / 2, fill=BLACK, width=0.03)
    dark = canvas.pixels()[..., 0] < 128
    assert dark[49, 80]  # (0.6, 0), the start: row 50 is y = 0
    assert dark[20, 49]  # (0, 0.6), the end
    assert not dark[52:].any()  # a quarter turn upwards leaves nothing below
    assert dark[:50, :49].any() and not dark[:50, :40].any()  # the head goes on to the left, 5 widths long


def test_transformed_rotates_before_it_moves():
    np.testing.assert_allclose(transformed([(1, 0), (0, 2)], at=(10, 20), angle=math.pi / 2), [(10, 21), (8, 20)])


def test_a_canvas_without_pixels_is_refused():
    with pytest.raises(ValueError, match=r"window=\(0, 0, 0, 1\) shows nothing"):
        Canvas(10, 10, window=(0, 0, 0, 1))


def test_importing_the_canvas_does_not_import_pillow():
    program = "import sys, shoal.canvas; sys.exit('PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
