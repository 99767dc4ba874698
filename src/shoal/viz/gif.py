"""GIF files that are small and quick to write.

A GIF has at most 256 colors. All frames share one palette, which is chosen from a few of them. This makes writing fast
(no palette search per frame) and files small (pixels that do not change are not stored again).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from shoal.specs.disk import replace

Frame = UInt8[np.ndarray, "_ _ 3"]

LARGEST_FPS = 50  # frames per second; browsers play faster GIFs at 10


def write_gif(frames: Iterable[Any], path: str | Path, *, fps: int | float = 30, hold: int | float = 1) -> Path:
    """Write pictures as a GIF that repeats forever and pauses `hold` seconds at the last one. Returns its path.

    Missing folders are made. Raises ValueError for no frames, for frames that are not uint8 [H, W, 3] or differ in
    size, and for more than 50 frames per second, which browsers do not play.
    """
    from PIL import Image

    if not 0 < fps <= LARGEST_FPS:
        raise ValueError(f"fps={fps} cannot be shown: a GIF plays at most {LARGEST_FPS} frames per second. Try fps=30.")
    path = Path(path)
    pictures = list(checked_frames(frames))
    palette = _palette(pictures[:: max(1, len(pictures) // 8)])
    images = [Image.fromarray(p).quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures]
    hundredths = max(2, round(100 / fps))
    durations = [10 * hundredths] * (len(images) - 1) + [10 * hundredths + round(1000 * hold)]
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"save_all": True, "append_images": images[1:], "duration": durations, "loop": 0}
    replace(path, lambda beside: images[0].save(beside, format="GIF", **options))
    return path


def checked_frames(frames: Iterable[Any]) -> Iterator[Frame]:
    """Yield the frames of an animation as arrays. Raises ValueError unless all are uint8 [H, W, 3] of one size."""
    first = None
    for frame in frames:
        picture = np.asarray(frame)
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise ValueError(f"a frame is uint8 [H, W, 3]; got {picture.dtype} {list(picture.shape)}.")
        first = first or picture.shape
        if picture.shape != first:
            raise ValueError(
                f"all frames must have the same size; got {list(first[:2])} and {list(picture.shape[:2])}."
            )
        yield picture
    if first is None:
        raise ValueError("an animation needs at least one frame; got none.")


def _palette(pictures: list[Frame]) -> Any:
    """A palette image: the most common colors unchanged, then Pillow's choice for all others.

    Pillow's choice alone averages similar colors, which tints large plain areas such as a white background. Pillow's
    search for the nearest color is coarse, so a color that is very similar to one in the palette is left out.
    """
    from PIL import Image

    together = Image.fromarray(np.concatenate(pictures))
    counted = sorted(together.getcolors(together.width * together.height) or [], reverse=True)
    mixed = np.reshape(together.quantize(192).getpalette() or [], (-1, 3))
    chosen = np.empty((0, 3), int)
    for color in [*(np.array(color) for _, color in counted[:64]), *mixed]:
        if (np.abs(chosen - color).max(axis=1) >= 12).all():
            chosen = np.concatenate([chosen, color[None]])
    palette = Image.new("P", (1, 1))
    palette.putpalette(chosen.ravel().tolist())
    return palette
