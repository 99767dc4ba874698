"""Several episodes side by side: a grid of pictures, each with its title and its return, below one caption."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import UInt8

from shoal.viz.caption import BACKGROUND, Caption, caption_for

Frame = UInt8[np.ndarray, "_ _ 3"]

MOST_PICTURES = 100  # side by side
WIDEST, SMALLEST = 900, 80  # pixels: of a grid, and of each of its pictures, if the size is not given
EDGE = 215  # gray level of the lines between pictures
SHAPE = 1.4  # width of a grid divided by its height, about, if the number of columns is not given


def default_columns(count: int, height: int, width: int) -> int:
    """The number of columns for `count` pictures of these pixels, so that the grid is a little wider than high."""
    return count if count <= 3 else min(count, round(math.sqrt(SHAPE * count * height / width)) or 1)


def default_size(columns: int) -> int:
    """The size of each picture, in pixels, in a grid with so many columns."""
    return max(SMALLEST, min(300, WIDEST // columns))


def grid_frames(
    draw: Callable[[int, int], Frame],
    shown: Sequence[int],
    steps: Sequence[int],
    returns: np.ndarray | None,
    titles: Sequence[str],
    title: str,
    columns: int,
) -> Iterator[Frame]:
    """Yield a frame for each time in `shown`; all have the same size.

    `draw(time, number)` is the picture of an episode, `steps` the step at each time of `shown`, `returns` [T, E] the
    returns so far, if they are to be shown, `titles` that of each of the E episodes (or empty), `title` that of all.
    """
    numbers = range(len(titles))
    words = [[[f"return {row[n]:.5g}"] for row in returns[shown]] if returns is not None else [[""]] for n in numbers]
    width, height, captions, top = 0, 0, [], None
    for i, time in enumerate(shown):
        pictures = [draw(time, n) for n in numbers]
        if not captions:
            width = pictures[0].shape[1]
            captions = [caption_for(width, *texts) for texts in zip(titles, words, strict=True)]
            width = max(width, *(caption.width for caption in captions))
            is_bare = returns is None and not any(titles)
            height = 0 if is_bare else max(caption.height for caption in captions)
        tiles = [
            _framed(
                np.concatenate([_band(captions[n], words[n][i if returns is not None else 0], width, height), wide])
            )
            for n, wide in enumerate(widened(picture, width) for picture in pictures)
        ]
        rows = _rows(tiles, columns)
        top = top or caption_for(rows.shape[1], title, [[f"step {step}"] for step in steps])
        yield np.concatenate([widened(top.draw([f"step {steps[i]}"]), rows.shape[1]), rows])


def widened(picture: Frame, width: int) -> Frame:
    """The picture in the middle of a plain frame of this width, if it is narrower."""
    missing = width - picture.shape[1]
    if missing <= 0:
        return picture
    frame = np.empty((len(picture), width, 3), np.uint8)
    frame[:] = BACKGROUND
    frame[:, missing // 2 : missing // 2 + picture.shape[1]] = picture
    return frame


def _band(caption: Caption, status: Sequence[str], width: int, height: int) -> Frame:
    """The caption of one picture, at the bottom of a plain band of this size."""
    band = np.empty((height, width, 3), np.uint8)
    band[:] = BACKGROUND
    if height:
        drawn = caption.draw(status)
        band[height - len(drawn) :, : drawn.shape[1]] = drawn
    return band


def _framed(tile: Frame) -> Frame:
    return np.pad(tile, ((1, 1), (1, 1), (0, 0)), constant_values=EDGE)


def _rows(tiles: list[Any], columns: int) -> Frame:
    """Join tiles of one size to rows; the places after the last one are plain."""
    plain = np.empty_like(tiles[0])
    plain[:] = BACKGROUND
    filled = [*tiles, *[plain] * (-len(tiles) % columns)]
    rows = [np.concatenate(filled[i : i + columns], axis=1) for i in range(0, len(filled), columns)]
    return np.concatenate(rows)
