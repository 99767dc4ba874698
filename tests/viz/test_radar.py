"""The radar chart: its axes, values and texts, read from SVG and from pixels."""

import matplotlib.style
import numpy as np
import pytest
from PIL import Image

from shoal.envs.bsuite.scores import TAGS
from shoal.viz import radar as module
from shoal.viz.radar import radar

SCORES = dict(zip(TAGS, (0.9, 0.0, 0.5, 0.25, float("nan"), 1.0, 0.75), strict=True))


def test_all_seven_tags_are_written_with_their_scores(tmp_path):
    words = radar({"ppo": SCORES}, tmp_path / "radar.svg", "ppo on bsuite").read_text()
    for text in ("Basic", "Credit Assignment", "Exploration", "Generalization", "Memory", "not run", "Noise", "Scale"):
        assert text in words, text
    assert "0.90" in words and "ppo on bsuite" in words and "nan" not in words


def test_the_polygon_has_the_scores_for_radii_and_never_collapses(tmp_path, monkeypatch):
    drawn = []
    rings = module._rings
    monkeypatch.setattr(module, "_rings", lambda axes: (drawn.append(axes), rings(axes)))
    radar({"ppo": SCORES, "dqn": dict.fromkeys(TAGS, 0.5)}, tmp_path / "radar.png")
    first, second = (line.get_ydata() for line in drawn[0].get_lines())
    np.testing.assert_allclose(first, [0.9, 0.05, 0.5, 0.25, 0.05, 1.0, 0.75, 0.9])
    np.testing.assert_allclose(second, 0.5)
    np.testing.assert_allclose(drawn[0].get_lines()[0].get_xdata()[:-1], np.arange(7) * 2 * np.pi / 7)
    assert [text.get_text() for text in drawn[0].get_legend().get_texts()] == ["ppo", "dqn"]
    with Image.open(tmp_path / "radar.png") as picture:
        assert min(picture.size) > 600


def test_a_style_that_was_set_in_matplotlib_changes_nothing(tmp_path):
    plain = radar({"ppo": SCORES}, tmp_path / "plain.png").read_bytes()
    with matplotlib.style.context("ggplot"):
        assert radar({"ppo": SCORES}, tmp_path / "styled.png").read_bytes() == plain


def test_invalid_figures_are_refused(tmp_path):
    with pytest.raises(ValueError, match="at least three tags"):
        radar({}, tmp_path / "radar.png")
    with pytest.raises(ValueError, match="known format"):
        radar({"ppo": SCORES}, tmp_path / "radar.txt")
