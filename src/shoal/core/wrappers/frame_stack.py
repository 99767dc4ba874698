"""A wrapper whose observation is the last few observations of the inner environment."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from shoal.core.env import Observation, State
from shoal.core.keys import Key
from shoal.core.spaces import Box, Discrete, MultiDiscrete, Space, leaf_spaces, with_leaves
from shoal.core.struct import static, struct
from shoal.core.wrappers.base import StatefulWrapper, WrapperState

LAYOUTS = ("channels", "first", "last")
MOST_FRAMES = 1_024


@struct
class FrameStackState(WrapperState):
    """The inner state and the frames, oldest first."""

    frames: Any


@struct
class FrameStack(StatefulWrapper):
    """Observe the last `n` observations, oldest first.

    With `layout="channels"` a network of the same kind that reads one frame can read `n` of them:

    | one frame | n frames |
    |---|---|
    | a picture or an image of categories, Box [H, W, C] | Box [H, W, n * C], the channels of the oldest frame first |
    | any other Box of two or more axes, [..., D] | Box [..., n * D] |
    | a Box of one number or one vector, [] or [D] | Box [n] or [n, D] |
    | Discrete, MultiDiscrete [k] | MultiDiscrete [n], [n * k] |

    `layout="first"` always puts frames on a new first axis, as Gymnasium's FrameStackObservation does, and "last" on a
    new last axis; a MultiDiscrete observation becomes a Box. Our networks cannot tell such frames from one array: they
    reject arrays of four axes, and read a stack of matrices as a picture. Use these layouts with a network of your
    own, or to read matrices as a picture whose channels are the frames ("last").

    An episode begins with `n` copies of its first observation, as Gymnasium does by default. The frames are part of
    the state. Raises ValueError for n < 1, n > 1,024 or an unknown layout.
    """

    n: int = static(4)
    layout: str = static("channels", choices=LAYOUTS)

    def __post_init__(self) -> None:
        if not 1 <= self.n <= MOST_FRAMES:  # an operation joins them, which compiles slowly if it has many parts
            raise ValueError(f"FrameStack needs n from 1 to {MOST_FRAMES}, not {self.n}.")
        if self.layout not in LAYOUTS:
            raise ValueError(f"FrameStack has no layout {self.layout!r}. Choose one of {', '.join(LAYOUTS)}.")

    @property
    def observation_space(self) -> Space:
        """The space of `n` stacked observations; the class describes its shape."""
        return with_leaves(partial(_stacked, n=self.n, layout=self.layout), self.env.observation_space)

    def init(self, key: Key) -> FrameStackState:
        """Return the first state, with `n` copies of its observation as frames."""
        inner = self.env.init(key)
        return FrameStackState(time=inner.time, inner=inner, frames=self._filled(inner))

    def transition(self, state: FrameStackState, action: Any, noise: Any) -> tuple[FrameStackState, Any, Any, Any]:
        """Step the inner environment, drop the oldest frame and append the newest."""
        inner, reward, terminated, info = self.inner_transition(state, action, noise)
        frames = self._each(_pushed, self.env.observe(inner), state.frames)
        return FrameStackState(time=inner.time, inner=inner, frames=frames), reward, terminated, info

    def observe(self, state: FrameStackState) -> Observation:
        """Return the stacked frames."""
        return state.frames

    def carry_over(self, ended: FrameStackState, fresh: FrameStackState) -> FrameStackState:
        """Return `fresh` with what the inner environment keeps, and with frames of the state that results."""
        inner = self.env.carry_over(ended.inner, fresh.inner)
        return fresh if inner is fresh.inner else fresh.replace(inner=inner, frames=self._filled(inner))

    def _filled(self, inner: State) -> Observation:
        return self._each(lambda frame, axis: jnp.concatenate([frame] * self.n, axis), self.env.observe(inner))

    def _each(self, function: Callable[..., Array], obs: Observation, *others: Observation) -> Observation:
        """Apply `function(frame, *others, axis)` to every array of an observation; `frame` has the axis of frames."""
        leaves, structure = jax.tree.flatten(obs)
        more = [structure.flatten_up_to(other) for other in others]
        results = []
        for space, leaf, *rest in zip(leaf_spaces(self.env.observation_space), leaves, *more, strict=True):
            axis = _new_axis(space, self.layout)
            frame = leaf if axis is None else jnp.expand_dims(leaf, axis)
            results.append(function(frame, *rest, axis=-1 if axis is None else axis))
        return jax.tree.unflatten(structure, results)


def _pushed(newest: Shaped[Array, "..."], frames: Shaped[Array, "..."], axis: int) -> Shaped[Array, "..."]:
    axis = axis % frames.ndim
    kept = jax.lax.slice_in_dim(frames, newest.shape[axis], frames.shape[axis], axis=axis)
    return jnp.concatenate([kept, newest], axis)


def _new_axis(space: Space, layout: str) -> int | None:
    """Return the new axis of an array with frames; None where frames are joined along the last axis of one frame."""
    if layout != "channels":
        return 0 if layout == "first" else -1
    is_joined = isinstance(space, MultiDiscrete) or (isinstance(space, Box) and len(space.shape) >= 2)
    return None if is_joined else 0


def _stacked(space: Box | Discrete | MultiDiscrete, n: int, layout: str) -> Space:
    if isinstance(space, Discrete):
        return MultiDiscrete((space.n,) * n, space.dtype)
    axis = _new_axis(space, layout)
    if isinstance(space, MultiDiscrete):
        if axis is None:
            return MultiDiscrete(space.nvec * n, space.dtype, space.text)
        space = Box(0, np.asarray(space.nvec) - 1, space.shape, space.dtype)
    if axis is None:
        low, high = (_repeated_bound(np.asarray(side), n) for side in (space.low, space.high))
        *outer, width = space.shape
        return Box(low, high, (*outer, n * width), space.dtype, n * space.frames)
    low, high = (np.stack([side] * n, axis) for side in space.bounds())
    return Box(low, high, low.shape, space.dtype)


def _repeated_bound(bound: np.ndarray, n: int) -> np.ndarray:
    """Return the bound of `n` frames joined along the last axis, from that of one frame (or one number for an axis)."""
    return bound if bound.ndim == 0 or bound.shape[-1] == 1 else np.concatenate([bound] * n, axis=-1)
