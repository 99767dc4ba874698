"""Animations: pictures of an episode as one small GIF.

A GIF shows 256 colors, so all frames share one palette, chosen from a few of them; that is what makes writing fast (no
palette search per frame) and files small (what did not move is not stored again).
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

FASTEST = 50  # frames a second: browsers slow down anything quicker to 10
CAPTION_HEIGHT = 24
CAPTION_PAPER, CAPTION_INK, CAPTION_FAINT = (240, 240, 238), (40, 40, 40), (120, 120, 118)


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
    """Draw an episode of any environment that has `render`, and write it as a GIF. Returns where it lies.

    `states` is a state with a leading time axis, or a list of states. A strip above each picture tells the step, the
    return so far when `cumulative_rewards` (one number a state) is given, and the `title`. An episode longer than
    `max_frames` is thinned out evenly, keeping its first and last state; pictures are brought to about `size` pixels.
    Raises ValueError for states of several environments at once, or returns that do not match them.
    """
    episode = _Episode(states)
    returns = None if cumulative_rewards is None else np.asarray(cumulative_rewards, float)
    if returns is not None and returns.shape != (episode.length,):
        raise ValueError(
            f"cumulative_rewards has shape {list(returns.shape)} for {episode.length} states. Give one number a state."
        )
    if max_frames < 1 or size < 1:
        raise ValueError(f"max_frames={max_frames} and size={size} show nothing. Give 1 or more of each.")

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
    """Write pictures of equal size as a GIF that repeats forever, resting `hold` seconds on the last. Returns its path.

    Folders are made where they are missing. Raises ValueError for no frames, frames that differ in size or are not
    uint8 [H, W, 3], and more than 50 frames a second, which no browser shows.
    """
    from PIL import Image

    if not 0 < fps <= FASTEST:
        raise ValueError(f"fps={fps} cannot be shown: a GIF plays at most {FASTEST} frames a second. Try fps=30.")
    path = Path(path)
    if path.suffix.lower() != ".gif":
        raise ValueError(f"{str(path)!r} is not a GIF's name. End it in .gif.")
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
    """A picture whose longer side is about `size` pixels, by a whole factor: averaged down, or repeated up."""
    from PIL import Image

    longer = max(picture.shape[:2])
    if longer > size:
        return np.asarray(Image.fromarray(picture).reduce(-(-longer // size)))
    return picture.repeat(round(size / longer), axis=0).repeat(round(size / longer), axis=1)


class _Episode:
    """States of one environment in order, on the host, from a list or from one state with a time axis."""

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
    # One transfer for the whole episode; typed keys have no NumPy form and stay where they are.
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return leaf if is_key else np.asarray(leaf)


def _checked(frame: Any) -> Frame:
    picture = np.asarray(frame)
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise ValueError(f"a frame is uint8 [H, W, 3]; got {picture.dtype} {list(picture.shape)}.")
    return picture


def _palette(pictures: list[Frame]) -> Any:
    """An image that holds the colors worth having: the commonest as they are, then Pillow's choice for all others.

    Pillow's choice alone averages neighbors, which tints large plain areas such as a white background. Its search for
    the nearest color is coarse, too, so a color hardly different from one that is there already is left out.
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
    strip = Canvas(width, CAPTION_HEIGHT, background=CAPTION_PAPER)
    middle = CAPTION_HEIGHT / 2
    strip.text((8, middle), f"step {step}", CAPTION_INK, 13, "lm")
    strip.text((width / 2, middle), title, CAPTION_FAINT, 13, "mm")
    if episode_return is not None:
        strip.text((width - 8, middle), f"return {episode_return:.5g}", CAPTION_INK, 13, "rm")
    return strip.pixels()
