"""Figures of a comparison: what each part draws, read from its chart, and the file for a paper."""

import numpy as np
import pytest
from PIL import Image

import shoal
from folders import write_run
from shoal.ops.aggregates import AGGREGATES
from shoal.viz import comparison, panels
from shoal.viz.chart import Band, Dots, Line, Pieces
from shoal.viz.comparison import (
    PARTS,
    aggregate_charts,
    curve_charts,
    efficiency_chart,
    group_names,
    improvement_chart,
    plot_comparison,
    profile_chart,
)
from shoal.viz.curves import series_style
from shoal.viz.style import save_figure


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Three agents in two environments with six seeds; in the second one runs are longer."""
    root, random = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    folders = [
        write_run(root / f"{agent}-{env}", random.normal(mean, 1, 6), records=records, agent=agent, env=f"e.py:{env}")
        for agent, mean in (("ppo", 3), ("dqn", 2), ("my_agent.py:Mine", 1))
        for env, records in (("One", 6), ("Two", 9))
    ]
    return shoal.compare(folders)


def of_kind(chart, kind):
    return [mark for mark in chart.marks if isinstance(mark, kind)]


def test_aggregates_have_a_row_for_each_group_the_first_one_at_the_top(found):
    charts = aggregate_charts(found, group_names(found))
    assert [chart.title for chart in charts] == [*AGGREGATES]
    assert charts[0].y_names == ["Mine", "dqn", "ppo"] and charts[1].y_names == [" "] * 3
    for chart, name in zip(charts, AGGREGATES, strict=True):
        drawn = {
            int(dot.y[0]): (dot.x[0], piece.x0[0], piece.x1[0], dot.style)
            for dot, piece in zip(of_kind(chart, Dots), of_kind(chart, Pieces), strict=True)
        }
        assert drawn == {2 - g: (*found.aggregates[g][name], f"c{g}") for g in range(3)}


def test_profiles_and_efficiency_are_lines_with_bands(found):
    names = group_names(found)
    charts = profile_chart(found, names), efficiency_chart(found, names)
    for chart, values in zip(charts, (found.profiles[1], found.efficiency), strict=True):
        for line, band, value in zip(of_kind(chart, Line), of_kind(chart, Band), values, strict=True):
            np.testing.assert_array_equal([line.y, band.low, band.high], value)
        assert chart.legend == [("c0", "ppo"), ("c1", "dqn"), ("c2", "Mine")]
    assert charts[1].x_label == "share of the steps in each environment"  # 6,000 and 9,000


def test_improvement_has_a_row_for_each_pair(found):
    chart = improvement_chart(found, ["a", "b", "c"])
    assert chart.y_names == ["b vs. c", "a vs. c", "a vs. b"]
    expected = [found.against(*pair).probability.value for pair in ((1, 2), (0, 2), (0, 1))]
    assert [dot.x[0] for dot in of_kind(chart, Dots)] == expected


def test_pairs_of_values_are_named_without_the_hyperparameter(found):
    assert improvement_chart(found, ["lr=0.1", "lr=0.2", "lr=0.3"]).y_names[-1] == "0.1 vs. 0.2"
    assert improvement_chart(found, ["lr=0.1", "clip=0.2", "lr=0.3"]).y_names[-1] == "lr=0.1 vs. clip=0.2"
    assert improvement_chart(found, ["lr=0.1", "b", "lr=0.3"]).y_names[-1] == "lr=0.1 vs. b"


@pytest.mark.parametrize(("labels", "rows"), [((), [4, 3, 2]), (("x" * 30, "y" * 30, "z" * 30), [4, 2, 2, 2])])
def test_panels_beside_long_names_are_in_more_rows(labels, rows, found, tmp_path, monkeypatch):
    drawn = []

    def draw_panels(charts, out, *_, **how):
        drawn.append((charts, how))
        return out

    monkeypatch.setattr(comparison, "draw_panels", draw_panels)
    plot_comparison(found, tmp_path / "f.png", labels=labels)
    ((charts, how),) = drawn
    assert [len(row) for row in charts] == rows and len(how["heights"]) == len(rows)


def test_each_environment_has_a_panel_of_learning_curves(found):
    charts = curve_charts(found, group_names(found))
    assert [chart.title for chart in charts] == ["One", "Two"]
    assert [line.words for line in of_kind(charts[1], Line)] == ["ppo", "dqn", "Mine"]
    assert of_kind(charts[1], Line)[0].x[-1] == 9000


def test_more_groups_than_colors_are_dashed():
    assert [series_style(number) for number in (0, 7, 8, 15)] == ["c0", "c7", "c0 dashed", "c7 dashed"]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_figure_has_its_width_in_every_format(suffix, found, tmp_path):
    how = {"width": 5.5, "font": "latex", "labels": ["a_b", "b", "c"], "legend": "above"}
    path = plot_comparison(found, tmp_path / f"f.{suffix}", **how)
    if suffix == "png":
        with Image.open(path) as picture:
            assert picture.width == 660 and len(picture.convert("RGB").getcolors(1 << 20)) > 50
    elif suffix == "svg":
        text = path.read_text()
        assert 'width="396pt"' in text and "cmr10" in text and all(f">{env}<" in text for env in ("One", "Two"))
    else:
        assert b"/MediaBox [ 0 0 396 " in path.read_bytes()


def test_no_warning_is_given_and_no_text_is_cut_off(found, tmp_path, recwarn, monkeypatch):
    names = ["a rather long name of an agent", "learning_rate=0.00025", "c"]
    figures = []
    monkeypatch.setattr(
        panels, "save_figure", lambda figure, out: (figures.append(figure), save_figure(figure, out))[1]
    )
    plot_comparison(found, tmp_path / "f.png", width=7, font="latex", labels=names, title="T", legend="above")
    assert not recwarn.list
    (figure,) = figures
    texts = [*figure.texts, *figure.findobj(lambda artist: hasattr(artist, "get_fontsize") and artist.get_text())]
    boxes = [text.get_window_extent() for text in texts if text.get_visible()]
    inside = figure.bbox.padded(2)
    assert len(boxes) > 40 and all(inside.x0 <= box.x0 and box.x1 <= inside.x1 for box in boxes)


def test_parts_and_options_that_do_not_exist_are_refused(found, tmp_path):
    for how, message in (
        ({"show": []}, f"nothing to show: choose among {', '.join(PARTS)}"),
        ({"show": ["curve"]}, "no part 'curve'. Did you mean curves?"),
        ({"legend": "left"}, "legend='left' is unknown. Choose one of below, above, none"),
        ({"width": 0.0}, "width=0 must be from 1 to 40 inches"),
    ):
        with pytest.raises(ValueError, match=message):
            plot_comparison(found, tmp_path / "f.png", **how)
    with pytest.raises(ValueError, match="has no known format"):
        plot_comparison(found, tmp_path / "f.jpg")


def test_a_legend_of_many_groups_has_several_lines(tmp_path):
    entries = [(series_style(i), f"agent{i}") for i in range(8)]
    assert [panels._legend_lines(entries[:count], 7.6) for count in (0, 1, 6, 7)] == [0, 1, 1, 2]


def test_the_curves_of_one_environment_are_beside_the_other_panels(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("shoal.viz.comparison.draw_panels", lambda rows, out, *_, **__: drawn.append(rows) or out)
    folders = [write_run(tmp_path / name, np.arange(6.0), agent=name, env="e.py:One") for name in ("a", "b")]
    plot_comparison(shoal.compare(folders), tmp_path / "f.png")
    assert [[chart.title for chart in row] for row in drawn[0]] == [
        [*AGGREGATES],
        ["performance profile", "sample efficiency", "improvement", "One"],
    ]
