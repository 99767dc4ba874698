"""Charts on a page: positions and colors by hand, and that texts are escaped."""

import re
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex

from shoal.reports import markup
from shoal.reports.chart import COLORS, SHADES, chart, shade
from shoal.viz.chart import Band, Dots, Levels, Line, Pieces
from shoal.viz.style import PALETTE


def drawn(mark, **how):
    """The paths of a chart, as lists of points."""
    paths = re.findall(r'<path class="([^"]*)" d="([^"]*)"', chart([mark], "x", "y", about="", **how))
    return {style: [tuple(map(int, at)) for at in re.findall(r"(-?\d+) (-?\d+)", steps)] for style, steps in paths}


def test_a_line_goes_through_its_points_and_leaves_out_nan():
    # x from 0 to 10 is 0 to 2000; y has a margin of 4 % of 0 to 100, so 0 is at 4 / 108 from below
    (points,) = drawn(Line([0, 5, 7, 10], [0.0, 50.0, np.nan, 100.0], "c3")).values()
    assert points == [(0, round(1000 * (1 - 4 / 108))), (1000, 500), (2000, round(1000 * 4 / 108))]


def test_bands_go_around_and_pieces_are_separate():
    band = drawn(Band([0, 10], [0.0, 0.0], [1.0, 1.0]))["band c0"]
    top, below = round(1000 * 0.04 / 1.08), round(1000 * 1.04 / 1.08)
    assert band == [(0, top), (2000, top), (2000, below), (0, below)]
    text = chart([Pieces([0, 5], [0, 1], [5, 10], [0, 1], "v3")], "x", "y", about="")
    assert f'class="piece v3" d="M0 {below}L1000 {below}M1000 {top}L2000 {top}"' in text


def test_a_line_of_one_point_is_a_dot_and_rings_have_holes():
    assert [*drawn(Line([1], [2.0], "c1"))] == ["dot c1"]
    assert [*drawn(Dots([1, 2], [1, 2], "ring c1"))] == ["dot ring c1", "hole ring c1"]


def test_shades_go_from_the_lowest_to_the_highest_score():
    assert shade([0, 5, 10, 99, -3, np.nan], 0, 10).tolist() == [0, 6, 11, 11, 0, -1]
    assert shade([7.0, np.nan], 7, 7).tolist() == [6, -1]


def test_text_in_charts_is_escaped():
    text = chart([Line([0, 1], [0, 1], "c0", "<b>")], "<i>", "<u>", about='"<s>', legend=[("c0", "<q>")], title="<em>")
    assert not re.search(r"<(b|i|u|s|q|em)>", text) and "&lt;em&gt;" in text


def test_levels_go_through_the_whole_area_and_pieces_with_values_have_their_colors():
    text = chart([Levels([5], [1]), Line([0, 10], [0.0, 2.0])], "x", "y", about="")
    assert 'class="level grid" d="M1000 0V1000M0 500H2000"' in text
    pieces = Pieces([0, 5, 7], [0, 1, 1], [5, 7, 10], [0, 1, 1], "slim", [0.0, 10.0, np.nan])
    text = chart([pieces], "x", "y", value_range=(0, 10), value_words="score")
    assert re.findall(r'class="piece ([^"]*)"', text) == ["c6 slim", "v0 slim", "v11 slim"]
    assert 'aria-label="from 0 to 10"' in text and "score: 0" in text


def test_the_style_sheet_has_the_colors_of_figures():
    style = (Path(markup.__file__).parent / "style.css").read_text()
    light = style[: style.index("@media")]
    assert re.findall(r"--c\d: (#\w+)", light) == [*PALETTE] and len(PALETTE) == COLORS
    viridis = colormaps["viridis"](np.linspace(0, 1, SHADES))
    assert re.findall(r"\.v\d+ { --c: (#\w+)", style) == [*map(to_hex, viridis)]
