"""Captions: the position of each text, measured by Pillow, for wide and narrow pictures."""

import itertools

import numpy as np
import pytest
from PIL import ImageDraw

from shoal.viz.caption import (
    BACKGROUND,
    FONT_SIZE,
    MOST_SMALL_ROWS,
    MOST_TITLE_ROWS,
    SMALLEST_FONT,
    caption_for,
    mission_band_for,
)

SETTING = "best: learning_rate=0.0003 num_envs=16 env.gravity=9.8 seed=3"
LONG = " ".join(f"network.some_long_hyperparameter_{i}=0.000{i}" for i in range(9))
TITLES = ["", "random actions", "median: learning_rate=0.0003 env.gravity=9.8 seed=1", SETTING, LONG, "x" * 150]
STATUSES = [["step 0", "return 0"], ["step 500", "return -1.2346e+05"]]


@pytest.fixture
def boxes(monkeypatch):
    """The boxes (left, top, right, bottom) and the words of all texts drawn, in pixels."""
    drawn = []
    draw_text = ImageDraw.ImageDraw.text

    def text(self, at, words, **how):
        box = self.textbbox(at, words, font=how["font"], anchor=how["anchor"])
        drawn.append((box, words))
        draw_text(self, at, words, **how)

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", text)
    return drawn


@pytest.mark.parametrize("title", TITLES, ids=lambda title: title[:12])
@pytest.mark.parametrize("width", [8, 80, 120, 200, 300, 1200])
def test_no_text_is_cut_and_no_two_overlap(width, title, boxes):
    caption = caption_for(width, title, STATUSES)
    band = caption.draw(STATUSES[1])
    assert band.shape == (caption.height, caption.width, 3) and caption.width >= width
    assert len(caption.title) <= (MOST_SMALL_ROWS if caption.font_size == SMALLEST_FONT else MOST_TITLE_ROWS)
    for (left, top, right, bottom), words in boxes:
        assert left >= 0 and top >= 0 and right <= caption.width and bottom <= caption.height, words
    for (one, words), (other, others) in itertools.combinations(boxes, 2):
        apart = one[2] < other[0] or other[2] < one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, f"{words!r} and {others!r} overlap"
    rim = np.concatenate([band[0], band[-1], band[:, 0], band[:, -1]])
    assert (rim == BACKGROUND).all()  # a text that was cut would touch the rim
    assert {"step 500", "return -1.2346e+05"} <= {words for _, words in boxes}
    if title != "x" * 150 and title != LONG:
        assert "".join(words for _, words in boxes[:-2]).replace(" ", "") == title.replace(" ", "")


def test_a_long_setting_is_cut_before_its_value():
    rows = caption_for(80, "best: env.env.gravity=9.81 some_learning_rate=0.0003", STATUSES).title
    assert rows == ["best:", "env.env.gravity=", "9.81", "some_learning_", "rate=0.0003"]


def test_a_band_is_wider_than_the_picture_only_where_it_must_be():
    assert caption_for(120, LONG, STATUSES).width == 120
    assert 80 < caption_for(8, LONG, STATUSES).width < 100


def test_a_short_title_stands_between_step_and_return(boxes):
    caption = caption_for(400, "best", STATUSES)
    caption.draw(STATUSES[1])
    (step, _), (title, _), (total, _) = sorted(boxes)
    assert step[2] < title[0] and title[2] < total[0]
    assert (caption.font_size, caption.height) == (FONT_SIZE, 24)


def test_a_title_that_is_too_long_for_the_smallest_font_ends_in_an_ellipsis(boxes):
    caption = caption_for(200, LONG, STATUSES)
    caption.draw(STATUSES[0])
    assert caption.font_size == SMALLEST_FONT and caption.title[-1].endswith("…")
    assert not caption_for(200, SETTING, STATUSES).title[-1].endswith("…")


def test_the_layout_is_the_same_for_all_frames_of_an_animation():
    caption = caption_for(130, "best", [["step 0", "return 0"], ["step 99999", "return -1.2346e+05"]])
    assert caption.draw(["step 0", "return 0"]).shape == caption.draw(["step 99999", "return -1.2346e+05"]).shape
    assert caption.status_rows == 2


MISSIONS = ["go to the red ball", "put the blue key next to the yellow box on your left after you open a grey door"]


@pytest.mark.parametrize("width", [60, 130, 400])
def test_no_word_of_a_mission_is_cut(width, boxes):
    band = mission_band_for(width, MISSIONS)
    ((height, band_width, _),) = {band.draw(mission).shape for mission in MISSIONS}
    assert band_width == band.width >= width
    assert sorted(" ".join(words for _, words in boxes).split()) == sorted(" ".join(MISSIONS).split())
    for left, top, right, bottom in (box for box, _ in boxes):
        assert left >= 0 and right <= band.width and top >= 0 and bottom <= height


def test_environments_without_a_mission_have_no_band_for_it():
    assert mission_band_for(300, ["", ""]) is None
