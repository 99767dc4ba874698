"""The caption of an animation: step, title and return in a band above the picture, never cut and never overlapping.

The layout is chosen once for all frames: one row if everything fits, else rows for the title above the row (or the two
rows) of step and return, in a smaller font where that is needed. The band is wider than the picture only where not
even "step 100" fits in the smallest font.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from shoal.canvas import Canvas, text_width

BACKGROUND, INK, FAINT = (240, 240, 238), (40, 40, 40), (105, 105, 103)
FONT_SIZE, SMALLEST_FONT = 13, 9  # pixels; of pictures wider than 390 pixels, the font grows with the width
MARGIN, GAP = 6, 10  # pixels: left and right of the texts, and between two texts of one row
MOST_TITLE_ROWS = 3  # in a font larger than the smallest
MOST_SMALL_ROWS = 7  # in the smallest font; a longer title ends in an ellipsis


class MissionBand(NamedTuple):
    """The layout of a band with an instruction, which may differ from frame to frame; it is never cut."""

    width: int  # of the band, in pixels: that of the picture, or more
    font_size: int
    rows: int  # of the longest instruction

    def draw(self, mission: str) -> UInt8[np.ndarray, "_ _ 3"]:
        """Return the band [height, width, 3] with one instruction."""
        row_height = round(1.4 * self.font_size)
        band = Canvas(self.width, self.rows * row_height + MARGIN, background=BACKGROUND)
        for index, words in enumerate(_wrapped(mission.split(), self.width, self.font_size)):
            band.text((MARGIN, MARGIN / 2 + row_height * (index + 0.5)), words, INK, self.font_size, "lm")
        return band.pixels()


class Caption(NamedTuple):
    """The layout of a caption. Its status is the text that changes: the step, and the return if there is one."""

    width: int  # of the band, in pixels: that of the picture, or more
    font_size: int
    title: list[str]  # rows above the status; empty if the title is in the row of the status, or if there is none
    middle: str  # the title, if it is between step and return in one row
    status_rows: int  # 1, or 2 if step and return do not fit in one row

    @property
    def row_height(self) -> int:
        """Of each row of text, in pixels."""
        return round(1.4 * self.font_size)

    @property
    def height(self) -> int:
        """Of the band, in pixels."""
        return (len(self.title) + self.status_rows) * self.row_height + MARGIN

    def draw(self, status: Sequence[str]) -> UInt8[np.ndarray, "_ _ 3"]:
        """Return the band [height, width, 3] for one frame. `status` holds its step and, if any, its return."""
        band = Canvas(self.width, self.height, background=BACKGROUND)
        rows = [MARGIN / 2 + self.row_height * (index + 0.5) for index in range(len(self.title) + self.status_rows)]
        for y, words in zip(rows, self.title, strict=False):
            band.text((MARGIN, y), words, FAINT, self.font_size, "lm")
        if self.middle:
            band.text((self.width / 2, rows[0]), self.middle, FAINT, self.font_size, "mm")
        band.text((MARGIN, rows[len(self.title)]), status[0], INK, self.font_size, "lm")
        if len(status) > 1:
            x, anchor = (self.width - MARGIN, "rm") if self.status_rows == 1 else (MARGIN, "lm")
            band.text((x, rows[-1]), status[1], INK, self.font_size, anchor)
        return band.pixels()


def caption_for(width: int, title: str, statuses: Sequence[Sequence[str]]) -> Caption:
    """Return the layout for pictures `width` pixels wide. `statuses` holds the step and return texts of all frames."""
    words = title.split()
    largest = max(FONT_SIZE, width // 30)
    for size in range(largest, SMALLEST_FONT, -1):
        if (caption := _layout(width, words, statuses, size)) is not None:
            return caption
    size = SMALLEST_FONT
    width = max(width, 2 * MARGIN + max(_widest(texts, size) for texts in zip(*statuses, strict=True)))
    rows = _wrapped([part for word in words for part in _pieces(word, width - 2 * MARGIN, size)], width, size)
    if len(rows) > MOST_SMALL_ROWS:
        rows = [*rows[: MOST_SMALL_ROWS - 1], _shortened(" ".join(rows[MOST_SMALL_ROWS - 1 :]), width, size)]
    return Caption(width, size, rows, "", 1 if _fits_one_row(width, statuses, size) else len(statuses[0]))


def mission_band_for(width: int, missions: Sequence[str]) -> MissionBand | None:
    """Return the layout for pictures `width` pixels wide and the instructions of all frames; None without any."""
    if not any(missions):
        return None
    largest = max(FONT_SIZE, width // 30)
    for size in range(largest, SMALLEST_FONT - 1, -1):
        widest = _widest([word for mission in missions for word in mission.split()], size) + 2 * MARGIN
        band = max(width, widest) if size == SMALLEST_FONT else width
        rows = max(len(_wrapped(mission.split(), band, size)) for mission in set(missions))
        if size == SMALLEST_FONT or (widest <= width and rows <= MOST_TITLE_ROWS):
            return MissionBand(band, size, rows)
    return None


def _layout(width: int, words: list[str], statuses: Sequence[Sequence[str]], size: int) -> Caption | None:
    """Return the layout in a font of this size, or None if a text is too wide or the title has too many rows."""
    columns = [_widest(texts, size) for texts in zip(*statuses, strict=True)]
    if max(columns + [text_width(word, size) for word in words]) > width - 2 * MARGIN:
        return None
    title = " ".join(words)
    if text_width(title, size) + 2 * (max(columns) + GAP * bool(words)) <= width - 2 * MARGIN:
        return Caption(width, size, [], title, 1)
    rows = _wrapped(words, width, size)
    if len(rows) > MOST_TITLE_ROWS:
        return None
    return Caption(width, size, rows, "", 1 if _fits_one_row(width, statuses, size) else len(columns))


def _fits_one_row(width: int, statuses: Sequence[Sequence[str]], size: int) -> bool:
    columns = [_widest(texts, size) for texts in zip(*statuses, strict=True)]
    return sum(columns) + GAP * (len(columns) - 1) <= width - 2 * MARGIN


def _widest(texts: Sequence[str], size: int) -> int:
    return max(text_width(text, size) for text in set(texts))


def _wrapped(words: list[str], width: int, size: int) -> list[str]:
    """Join words to rows that fit between the margins of the band."""
    rows: list[str] = []
    for word in words:
        if rows and text_width(f"{rows[-1]} {word}", size) <= width - 2 * MARGIN:
            rows[-1] += f" {word}"
        else:
            rows.append(word)
    return rows


def _pieces(word: str, room: int, size: int) -> list[str]:
    """Cut a word into pieces that are at most `room` pixels wide, after "=" or "_" where there is one."""
    pieces = [""]
    for letter in word:
        piece = pieces[-1]
        if piece and text_width(piece + letter, size) > room:
            end = max(piece.rfind("="), piece.rfind("_")) + 1 or len(piece)
            pieces[-1:] = [piece[:end], piece[end:]]
        pieces[-1] += letter
    return pieces


def _shortened(words: str, width: int, size: int) -> str:
    while words and text_width(f"{words}…", size) > width - 2 * MARGIN:
        words = words[:-1]
    return f"{words}…"
