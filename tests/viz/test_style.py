"""Positions of texts and legends of figures, measured in pixels on the finished figure."""

import itertools

import matplotlib.style
import numpy as np
import pytest

from shoal.viz import heatmap, paint, style
from shoal.viz.curves import learning_curves
from shoal.viz.heatmap import sweep_heatmap
from shoal.viz.run_data import Curve

LONG = "an agent with a long name on FrameStack(StickyActions(MiniGrid-MultiRoom-N6-v0)), by network.width (pooled)"


@pytest.fixture
def figure(monkeypatch):
    """The last figure that was drawn."""
    figures = []
    save = style.save_figure
    for module in (paint, heatmap):
        monkeypatch.setattr(module, "save_figure", lambda figure, out: (figures.append(figure), save(figure, out))[1])
    return lambda: figures[-1]


def make_curves(count, members, shape, label):
    x, rng = np.arange(1, 21) * 1000, np.random.default_rng(0)
    level = {"rising": x / 100, "falling": 200 - x / 100, "noise": 0 * x}[shape]
    return [
        Curve(f"{label} {i}", x, level[:, None] + 9 * i + 100 * (shape == "noise") * rng.standard_normal((20, members)))
        for i in range(count)
    ]


def legend_of(figure):
    (legend,) = [*figure.legends, *filter(None, [figure.axes[0].get_legend()])]
    return legend.get_window_extent()


def dense(x, y):
    """Many points [N, 2] on the line through some points."""
    at = np.linspace(0, len(x) - 1, 2000)
    return np.stack([np.interp(at, range(len(x)), x), np.interp(at, range(len(y)), y)], axis=1)


@pytest.mark.parametrize(
    ("count", "members", "shape", "label", "place"),
    [
        (2, 3, "rising", "gamma", "inside"),
        (2, 3, "falling", "gamma", "inside"),
        (3, 3, "noise", "discount and gamma", "beside"),
        (8, 3, "noise", "network.some_long_hyperparameter 0.0003, env.gravity 9.8, gamma", "below"),
        (2, 1, "noise", "word " * 40, "below"),
    ],
)
def test_a_legend_covers_no_curve_and_nothing_is_cut(count, members, shape, label, place, tmp_path, figure):
    drawn = make_curves(count, members, shape, label)
    learning_curves(drawn, tmp_path / "out.png", title=LONG)
    (axes,), legend = figure().axes, legend_of(figure())
    box = axes.get_window_extent()  # nothing is drawn outside of it
    for curve in drawn:
        for y in [curve.y.min(axis=1), curve.y.mean(axis=1), curve.y.max(axis=1), *curve.y.T]:
            points = axes.transData.transform(dense(curve.x, y))
            inside = (points >= legend.min).all(axis=1) & (points <= legend.max).all(axis=1)
            assert not (inside & (points >= box.min).all(axis=1) & (points <= box.max).all(axis=1)).any()
    found = "below" if legend.y1 < box.y0 else "beside" if legend.x0 > box.x1 else "inside"
    assert found == place
    assert_texts_apart(figure())


def test_a_heatmap_of_long_names_cuts_nothing(tmp_path, figure):
    rows, columns = {"network.a_rather_long_name_of_a_field": [1e-5, 1e-4, 1e-3]}, {"gamma": [0.9, 0.99]}
    sweep_heatmap(
        rows, columns, np.array([[1.0, 2], [np.nan, 4], [5, 6]]), tmp_path / "out.png", LONG, "IQM of 4 seeds"
    )
    assert_texts_apart(figure())


def test_a_style_that_was_set_in_matplotlib_changes_nothing(tmp_path):
    curves = make_curves(2, 3, "noise", "gamma")
    learning_curves(curves, tmp_path / "usual.png")
    with matplotlib.style.context("ggplot"):  # as bsuite's analysis sets it when it is imported
        learning_curves(curves, tmp_path / "other.png")
        assert matplotlib.rcParams["axes.facecolor"] == "#E5E5E5"  # outside of the figure the user's style stays
    assert (tmp_path / "other.png").read_bytes() == (tmp_path / "usual.png").read_bytes()


def assert_texts_apart(figure):
    """No title, label or legend leaves the figure or touches another."""
    axes = figure.axes[0]
    parts = [*figure.texts, axes._left_title, axes.xaxis.label, axes.yaxis.label]
    legends = [*figure.legends, *filter(None, [axes.get_legend()])]
    boxes = [part.get_window_extent() for part in [*parts, *legends]]
    for box in boxes:
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
