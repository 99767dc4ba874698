"""Animations: draw the pictures of an episode, each with a caption, and write them as a GIF or an MP4 file."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8

from shoal.core.env import Env
from shoal.core.kinds import checked_kinds
from shoal.viz.caption import caption_for, mission_band_for
from shoal.viz.gif import write_gif
from shoal.viz.grid import MOST_PICTURES, default_columns, default_size, grid_frames, widened
from shoal.viz.mp4 import encoder, write_mp4

Frame = UInt8[np.ndarray, "_ _ 3"]

MOST_PIXELS = 2**14  # of a side of a picture; also the limit of columns
MOST_GIF_FRAMES = 120  # of an animation whose `max_frames` is not given; an MP4 file then has all


@checked_kinds()
def animate(
    env: Env | Sequence[Env],
    states: Any,
    cumulative_rewards: Any = None,
    path: str | Path = "episode.gif",
    *,
    title: str = "",
    fps: int | float = 30,
    max_frames: int | None = None,
    size: int | None = None,
    titles: Sequence[str] = (),
    columns: int | None = None,
) -> Path:
    """Draw an episode of any environment that has `render`, and write it as a GIF or MP4 file. Returns the path.

    The suffix of `path` decides the format; .mp4 needs the extra `shoal[video]`. `states` is an environment state with
    a leading time axis, or a list of states. A caption above each picture shows the step, the `title`, and, if
    `cumulative_rewards` (one number per state) is given, the return so far; below it stands the instruction of the
    state in words, if the environment has `mission_text`. If the episode has more than `max_frames`
    states, that many are shown, evenly spaced, with the first and the last; by default a GIF shows at most 120 and an
    MP4 file all. Pictures are resized to about `size` pixels (300).

    States [T, E] of E environments at once are drawn side by side, in `columns` columns, each below its return (one of
    `cumulative_rewards` [T, E]) and its title, if there are E `titles`; `size` is that of each picture. `env` is then
    one environment or a list of E. Raises ValueError if these numbers differ.
    """
    path = Path(path)
    check_format(path)
    episode = _Episode(states)
    together = episode.together
    shape = (episode.length, together) if together else (episode.length,)
    returns = None if cumulative_rewards is None else np.asarray(cumulative_rewards, float)
    if returns is not None and returns.shape != shape:
        raise ValueError(
            f"cumulative_rewards has shape {list(returns.shape)} for states of shape {list(shape)}: give one per state."
        )
    if max_frames is None:
        max_frames = MOST_GIF_FRAMES if path.suffix.lower() == ".gif" else episode.length
    if max_frames < 1:
        raise ValueError(f"max_frames={max_frames} must be at least 1.")
    for name, value in {"size": size, "columns": columns}.items():
        if value is not None and not 1 <= value <= MOST_PIXELS:
            raise ValueError(f"{name}={value} must be from 1 to {MOST_PIXELS:,}.")
    shown = np.unique(np.linspace(0, episode.length - 1, min(episode.length, max_frames)).round().astype(int)).tolist()
    if together:
        frames = _grid(_envs(env, together), episode, returns, shown, (title, titles), size, columns)
    elif not isinstance(env, Env):
        raise TypeError(f"{type(env).__name__} of environments needs states of several: [T, E].")
    elif titles or columns:
        raise ValueError("titles and columns are for states of several environments [T, E]; these are of one, [T].")
    else:
        frames = _frames(env, episode, returns, shown, title, size or 300)
    return write_animation(frames, path, fps=fps)


def check_format(path: str | Path) -> None:
    """Raise ValueError if a file cannot hold an animation, and ImportError if it needs an extra that is missing."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".gif", ".mp4"):
        raise ValueError(f"an animation named {str(path)!r} has no known format: end it in .gif or .mp4.")
    if suffix == ".mp4":
        encoder()


def write_animation(frames: Iterable[Any], path: str | Path, *, fps: int | float = 30) -> Path:
    """Write pictures, uint8 [H, W, 3], as a GIF or an MP4 file, as the suffix says. Returns the path."""
    check_format(path)
    write = write_mp4 if Path(path).suffix.lower() == ".mp4" else write_gif
    return write(frames, path, fps=fps)


def fit(picture: Frame, size: int) -> Frame:
    """The picture resized by a whole factor, so that its longer side is about `size`: averaged down or enlarged."""
    from PIL import Image

    longer = max(picture.shape[:2])
    if longer > size:
        return np.asarray(Image.fromarray(picture).reduce(-(-longer // size)))
    return picture.repeat(round(size / longer), axis=0).repeat(round(size / longer), axis=1)


class _Episode:
    """The states of an episode in order, from a list of states or from one state with a leading time axis.

    `together` is the number of environments, if the states are [T, E], and 0 if they are of one environment, [T].
    """

    def __init__(self, states: Any) -> None:
        self._states = states if isinstance(states, list) else jax.tree.map(_on_host, states)
        leaves = jax.tree.leaves(self._states)
        if not leaves:
            raise ValueError("states is empty: there is nothing to animate.")
        if not hasattr(states[0] if isinstance(states, list) else states, "time"):
            raise TypeError(
                f"states={states!r:.60} are no states of an environment: give a list of them, or one with a time axis."
            )
        if not isinstance(states, list) and np.ndim(leaves[0]) == 0:
            raise ValueError("states is one state without a time axis: give a list, [state].")
        self.length = len(states) if isinstance(states, list) else len(leaves[0])
        time = self.state(0).time
        if np.ndim(time) > 1:
            raise ValueError(f"states have the shape {[self.length, *np.shape(time)]}: give [T] or [T, E].")
        self.together = np.size(time) if np.ndim(time) else 0

    def state(self, index: int) -> Any:
        if isinstance(self._states, list):
            return jax.tree.map(_on_host, self._states[index])
        return jax.tree.map(lambda leaf: leaf[index], self._states)


def _frames(
    env: Env, episode: _Episode, returns: np.ndarray | None, shown: list[int], title: str, size: int
) -> Iterator[Frame]:
    """Yield a picture with its caption for each state in `shown`, all of the same size."""
    steps = [int(getattr(episode.state(index), "time", index)) for index in shown]
    statuses = [[f"step {step}"] for step in steps]
    if returns is not None:
        statuses = [[*status, f"return {returns[i]:.5g}"] for status, i in zip(statuses, shown, strict=True)]
    draw = _drawer([(env, episode.state(index)) for index in shown], size)
    caption = None
    for index, status in zip(shown, statuses, strict=True):
        picture = draw(env, episode.state(index))
        caption = caption or caption_for(picture.shape[1], title, statuses)
        yield np.concatenate([caption.draw(status), widened(picture, caption.width)])


def _drawer(shown: Sequence[tuple[Env, Any]], size: int) -> Callable[[Env, Any], Frame]:
    """Return the function that draws each of these (environment, state), below its instruction if there is any."""
    missions = [env.mission_text(state) for env, state in shown]
    env, state = shown[0]
    band = mission_band_for(fit(np.asarray(env.render(state)), size).shape[1], missions)

    def draw(env: Env, state: Any) -> Frame:
        picture = fit(np.asarray(env.render(state)), size)
        if band is None:
            return picture
        return np.concatenate([band.draw(env.mission_text(state)), widened(picture, band.width)])

    return draw


def _envs(env: Env | Sequence[Env], count: int) -> list[Env]:
    envs = [env] * count if isinstance(env, Env) else list(env)
    if len(envs) != count:
        raise ValueError(f"{len(envs)} environments are given for states of {count}: give one, or {count}.")
    if count > MOST_PICTURES:
        raise ValueError(f"{count} pictures side by side are too many to see: choose at most {MOST_PICTURES}.")
    return envs


def _grid(
    envs: list[Env],
    episode: _Episode,
    returns: np.ndarray | None,
    shown: list[int],
    words: tuple[str, Sequence[str]],
    size: int | None,
    columns: int | None,
) -> Iterator[Frame]:
    """The frames of several episodes side by side. `words` are the title of all and those of each."""
    title, titles = words[0], list(words[1]) or [""] * len(envs)
    if len(titles) != len(envs):
        raise ValueError(f"{len(titles)} titles are given for {len(envs)} episodes: give one for each.")

    def at(time: int, number: int) -> tuple[Env, Any]:
        return envs[number], jax.tree.map(lambda leaf: leaf[number], episode.state(time))

    first_env, first_state = at(0, 0)
    height, width = np.shape(first_env.render(first_state))[:2]
    columns = min(columns or default_columns(len(envs), height, width), len(envs))
    draw = _drawer([at(time, number) for time in shown for number in range(len(envs))], size or default_size(columns))
    steps = [int(np.max(episode.state(time).time)) for time in shown]
    return grid_frames(lambda t, n: draw(*at(t, n)), shown, steps, returns, titles, title, columns)


def _on_host(leaf: Any) -> Any:
    # One transfer for the whole episode. Typed keys have no NumPy form and stay on the device.
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return leaf if is_key else np.asarray(leaf)
