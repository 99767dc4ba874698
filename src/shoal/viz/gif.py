"""Animations: write the pictures of an episode as one small GIF.

A GIF has at most 256 colors. All frames share one palette, which is chosen from a few of them. This makes writing fast
(no palette search per frame) and files small (pixels that do not change are not stored again).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8

from shoal.canvas import Canvas
from shoal.core.env import Env
from shoal.training.disk import replace

Frame = UInt8[np.ndarray, "_ _ 3"]

LARGEST_FPS = 50  # frames per second; browsers play faster GIFs at 10
CAPTION_HEIGHT = 24
CAPTION_BACKGROUND, CAPTION_INK, CAPTION_FAINT = (240, 240, 238), (40, 40, 40), (120, 120, 118)


def animate(
    env: Env,
    states: Any,
    cumulative_rewards: Any = None,
    path: str | Path = "episode.gif",
    *,
    title: str = "",
    fps: int | float = 30,
    max_frames: int = 120,
    size: int = 300,
) -> Path:
    """Draw an episode of any environment that has `render`, and write it as a GIF. Returns the path.

    `states` is an environment state with a leading time axis, or a list of states. A strip above each picture shows
    the step, the `title`, and, if `cumulative_rewards` (one number per state) is given, the return so far. If the
    episode has more than `max_frames` states, that many are shown, evenly spaced, with the first and the last. Pictures
    are resized to about `size` pixels. Raises ValueError for states of several environments at once, or if the number
    of returns differs from the number of states.
    """
    episode = _Episode(states)
    returns = None if cumulative_rewards is None else np.asarray(cumulative_rewards, float)
    if returns is not None and returns.shape != (episode.length,):
        raise ValueError(
            f"cumulative_rewards has shape {list(returns.shape)} for {episode.length} states: give one per state."
        )
    if max_frames < 1 or size < 1:
        raise ValueError(f"max_frames={max_frames} and size={size} must both be at least 1.")

    def frame(index: int) -> Frame:
        state = episode.state(index)
        step = int(getattr(state, "time", index))
        picture = fit(np.asarray(env.render(state)), size)
        return np.concatenate(
            [_caption(picture.shape[1], title, step, None if returns is None else returns[index]), picture]
        )

    shown = np.unique(np.linspace(0, episode.length - 1, min(episode.length, max_frames)).round().astype(int))
    return write_gif((frame(int(index)) for index in shown), path, fps=fps)


def write_gif(frames: Iterable[Any], path: str | Path, *, fps: int | float = 30, hold: int | float = 1) -> Path:
    """Write pictures as a GIF that repeats forever and pauses `hold` seconds at the last one. Returns its path.

    Missing folders are made. Raises ValueError for no frames, for frames that are not uint8 [H, W, 3] or differ in
    size, and for more than 50 frames per second, which browsers do not play.
    """
    from PIL import Image

    if not 0 < fps <= LARGEST_FPS:
        raise ValueError(f"fps={fps} cannot be shown: a GIF plays at most {LARGEST_FPS} frames per second. Try fps=30.")
    path = Path(path)
    if path.suffix.lower() != ".gif":
        raise ValueError(f"{str(path)!r} is not the name of a GIF: it must end in .gif.")
    pictures = [_checked(frame) for frame in frames]
    if len({picture.shape for picture in pictures}) != 1:
        sizes = sorted({picture.shape[:2] for picture in pictures})
        raise ValueError(f"a GIF needs at least one frame, all of one size; got {len(pictures)} with sizes {sizes}.")

    palette = _palette(pictures[:: max(1, len(pictures) // 8)])
    images = [Image.fromarray(p).quantize(palette=palette, dither=Image.Dither.NONE) for p in pictures]
    hundredths = max(2, round(100 / fps))
    durations = [10 * hundredths] * (len(images) - 1) + [10 * hundredths + round(1000 * hold)]
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"save_all": True, "append_images": images[1:], "duration": durations, "loop": 0}
    replace(path, lambda beside: images[0].save(beside, format="GIF", **options))
    return path


def fit(picture: Frame, size: int) -> Frame:
    """The picture resized by a whole factor, so that its longer side is about `size`: averaged down or enlarged."""
    from PIL import Image

    longer = max(picture.shape[:2])
    if longer > size:
        return np.asarray(Image.fromarray(picture).reduce(-(-longer // size)))
    return picture.repeat(round(size / longer), axis=0).repeat(round(size / longer), axis=1)


class _Episode:
    """The states of one episode in order, from a list of states or from one state with a leading time axis."""

    def __init__(self, states: Any) -> None:
        self._states = states if isinstance(states, list) else jax.tree.map(_on_host, states)
        leaves = jax.tree.leaves(self._states)
        if not leaves:
            raise ValueError("states is empty: there is nothing to animate.")
        self.length = len(states) if isinstance(states, list) else len(leaves[0])
        time = getattr(self.state(0), "time", None)
        if time is not None and np.ndim(time):
            raise ValueError(
                f"states hold {np.size(time)} environments at once. Choose one, for example the first: "
                "jax.tree.map(lambda x: x[:, 0], states)."
            )

    def state(self, index: int) -> Any:
        if isinstance(self._states, list):
            return jax.tree.map(_on_host, self._states[index])
        return jax.tree.map(lambda leaf: leaf[index], self._states)


def _on_host(leaf: Any) -> Any:
    # One transfer for the whole episode. Typed keys have no NumPy form and stay on the device.
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return leaf if is_key else np.asarray(leaf)


def _checked(frame: Any) -> Frame:
    picture = np.asarray(frame)
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise ValueError(f"a frame is uint8 [H, W, 3]; got {picture.dtype} {list(picture.shape)}.")
    return picture


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


def _caption(width: int, title: str, step: int, episode_return: float | None) -> Frame:
    strip = Canvas(width, CAPTION_HEIGHT, background=CAPTION_BACKGROUND)
    middle = CAPTION_HEIGHT / 2
    strip.text((8, middle), f"step {step}", CAPTION_INK, 13, "lm")
    strip.text((width / 2, middle), title, CAPTION_FAINT, 13, "mm")
    if episode_return is not None:
        strip.text((width - 8, middle), f"return {episode_return:.5g}", CAPTION_INK, 13, "rm")
    return strip.pixels()
