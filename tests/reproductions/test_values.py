"""The animation of a grid's values: a frame for each map, bright where values are high."""

import numpy as np
import pytest
from PIL import Image, ImageSequence

from reproductions.values import animate_values


def test_each_map_is_a_frame_of_the_same_size(tmp_path):
    values = np.zeros((3, 2, 4))
    values[2, 0, 0] = 1.0
    path = animate_values(values, ["a", "b", "c"], tmp_path / "values.gif")
    with Image.open(path) as gif:
        frames = [np.asarray(frame.convert("RGB"), int) for frame in ImageSequence.Iterator(gif)]
    assert len(frames) == 3 and len({frame.shape for frame in frames}) == 1
    changed = np.abs(frames[2] - frames[1]).sum(axis=-1) > 100
    assert changed.any(axis=1).sum() > 20  # the cell with the value 1, in the upper left quarter of the map
    rows, columns = np.nonzero(changed)
    assert np.median(columns) < frames[0].shape[1] / 2


def test_every_map_needs_a_title(tmp_path):
    with pytest.raises(ValueError, match="2 maps have 1 titles"):
        animate_values(np.zeros((2, 2, 2)), ["a"], tmp_path / "values.gif")
