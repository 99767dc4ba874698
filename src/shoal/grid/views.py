"""What the `image` of an observation shows: `shoal.make("MiniGrid-DoorKey-8x8-v0", view="full")`.

`VIEWS` are those by name. Each is what one of MiniGrid's wrappers shows (`grid/wrappers/`). A function of the user
takes the state and returns an array, whose space follows from its shape and dtype.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8

from shoal.core.spaces import Box
from shoal.core.user_functions import field_and_name, result_in_words, result_shapes
from shoal.grid.actions import cell_mask
from shoal.grid.cells import AGENT, EMPTY, object_of
from shoal.grid.picture import view_picture
from shoal.grid.view import channels

EMPTY_CELL = -1  # the object of an empty cell in `positions_and_objects`
TILE_SIZE = 8  # side of a cell in the views that are pictures, in pixels


def whole_grid(state: Any) -> UInt8[Array, "W H 3"]:
    """All cells, [x, y, (object, color, state)], and the agent as (10, 0, direction)."""
    cells = channels(state.grid)
    agent = jnp.zeros_like(cells).at[..., 0].set(int(AGENT)).at[..., 2].set(state.direction.astype(jnp.uint8))
    return jnp.where(cell_mask(state.grid.shape, state.x, state.y)[..., None], agent, cells)


def positions_and_objects(state: Any) -> Int32[Array, "W H 3"]:
    """(x, y, object) of every cell; object is -1 for an empty cell and 10 for the agent."""
    width, height = state.grid.shape
    objects = jnp.where(state.grid == EMPTY, EMPTY_CELL, object_of(state.grid).astype(jnp.int32))
    objects = jnp.where(cell_mask((width, height), state.x, state.y), int(AGENT), objects)
    positions = np.indices((width, height)).astype(np.int32).transpose(1, 2, 0)
    return jnp.concatenate([positions, objects[..., None]], axis=-1)


def one_hot(view: UInt8[Array, "V V 3"], highest: tuple[int, int, int]) -> UInt8[Array, "V V D"]:
    """The three channels of a view, one-hot, one behind the other; `highest` are their highest values."""
    sizes = [largest + 1 for largest in highest]
    ones = view.astype(jnp.int32) + np.cumsum([0, *sizes[:-1]]).astype(np.int32)[None, None]
    channel = np.arange(sum(sizes), dtype=np.int32)[None, None, None]
    return (ones[..., None] == channel).any(axis=2).astype(jnp.uint8)


class View(NamedTuple):
    """What an image shows: functions of a level."""

    space: Callable[[Any], Box]
    image: Callable[[Any, Any], Array]  # (level, state) -> image


def view_space(level: Any) -> Box:
    """The agent's view of a level, [view_size, view_size, (object, color, state)]."""
    return Box(0, level.highest, (level.view_size, level.view_size, 3), "uint8")


def whole_space(level: Any) -> Box:
    """The space of `whole_grid`; in the agent's cell the last channel is its direction, up to 3."""
    return Box(0, (level.highest[0], level.highest[1], 3), (*level.shape, 3), "uint8")


def positions_space(level: Any) -> Box:
    """The space of `positions_and_objects`."""
    width, height = level.shape
    return Box((0, 0, EMPTY_CELL), (width - 1, height - 1, level.highest[0]), (width, height, 3), "int32")


def one_hot_space(level: Any, shape: tuple[int, ...]) -> Box:
    """The space of `one_hot` of a view with this shape [V, V, 3]."""
    return Box(0, 1, (*shape[:2], sum(level.highest) + 3), "uint8")


def picture_space(cells: tuple[int, ...], tile_size: int) -> Box:
    """The space of a picture of so many (columns, rows), [rows, columns, RGB]; any further axes are left out."""
    return Box(0, 255, (cells[1] * tile_size, cells[0] * tile_size, 3), "uint8")


VIEWS = {
    "partial": View(view_space, lambda level, state: level.agent_view(state)),
    "full": View(whole_space, lambda level, state: whole_grid(state)),
    "symbolic": View(positions_space, lambda level, state: positions_and_objects(state)),
    "one-hot": View(
        lambda level: one_hot_space(level, (level.view_size,) * 2),
        lambda level, state: one_hot(level.agent_view(state), level.highest),
    ),
    "rgb": View(
        lambda level: picture_space(level.shape, TILE_SIZE), lambda level, state: level.picture(state, TILE_SIZE)
    ),
    "rgb-partial": View(
        lambda level: picture_space((level.view_size, level.view_size), TILE_SIZE),
        lambda level, state: view_picture(level.agent_view(state), TILE_SIZE, level.kinds),
    ),
}


def chosen_view(view: str | Callable, state_shapes: Callable[[], Any]) -> View:
    """The view that a level has for a name or a function of the user; `state_shapes` makes the shapes of a state.

    Raises TypeError or ValueError for a function with other arguments, or that does not return one array of numbers.
    """
    if isinstance(view, str):
        return VIEWS[view]
    return View(lambda level: _space_of(view, state_shapes()), lambda level, state: view(state))


def _space_of(view: Callable, state: Any) -> Box:
    found = result_shapes("view", view, {"state": state})
    dtype: Any = np.dtype(getattr(found, "dtype", object))
    if dtype.kind not in "biuf":
        what = result_in_words(found)
        raise ValueError(f"{field_and_name('view', view)} returns {what}: view(state) returns one array of numbers.")
    if dtype.kind == "b":
        return Box(0, 1, found.shape, dtype)
    low, high = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return Box(low, high, found.shape, dtype)
