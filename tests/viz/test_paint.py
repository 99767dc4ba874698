"""Charts painted with matplotlib: styles, colors of values, levels and legends."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from shoal.viz import paint
from shoal.viz.chart import Chart, Dots, Levels, Line, Pieces
from shoal.viz.style import PALETTE


@pytest.fixture
def axes_of(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(paint, "save_figure", lambda figure, out: figures.append(figure) or out)

    def axes_of(*marks, **how):
        paint.draw(Chart(marks, "x", "y", **how), tmp_path / "out.png")
        return figures[-1].axes

    return axes_of


def test_styles_have_the_same_colors_as_on_a_page_and_thin_lines_are_no_lines_of_a_legend(axes_of):
    marks = [Line([0, 1], [0, np.nan], "c3"), Line([0, 1], [0, 1], "thin c1"), Dots([1], [1], "c2 cross", "last")]
    (axes,) = axes_of(*marks, legend=[("c3", "a"), ("c2 cross dotted", "b")])
    line, dots = axes.lines
    assert (line.get_color(), dots.get_color(), dots.get_marker()) == (PALETTE[3], PALETTE[2], "x")
    assert line.get_xdata().tolist() == [0] and line.get_marker() == "."  # a point without a neighbor
    assert to_hex(axes.collections[0].get_color()[0]) == PALETTE[1]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]


def test_pieces_have_the_colors_of_their_values_and_gray_if_they_have_none(axes_of):
    pieces = Pieces([0, 1, 2], [0, 0, 0], [1, 2, 3], [0, 0, 0], "", [0.0, 10.0, np.nan])
    axes, bar = axes_of(pieces, value_range=(0, 10), value_words="score")
    colors = [*map(to_hex, axes.collections[0].get_color())]
    assert colors == ["#440154", "#fde725", paint.UNKNOWN.lower()] and bar.get_ylabel() == "score"  # viridis


def test_the_axes_have_the_ticks_and_limits_of_the_chart(axes_of):
    (axes,) = axes_of(Line([1, 1000], [5, 5]), Levels(y=[6.0], style="c6 dashed"), log_x=True, x_names=())
    assert axes.get_xscale() == "log"
    np.testing.assert_allclose(np.log10(axes.get_xlim()), (-0.04 * 3, 1.04 * 3))  # with a margin of 4 %
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "3", "10", "30", "100", "300", "1k"]
    assert axes.lines[-1].get_ydata()[0] == 6 and axes.lines[-1].get_linestyle() == "--"
