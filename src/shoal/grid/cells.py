"""A cell of a grid as one 16-bit number: its object, color and state, and the content of a box.

    bits 0-3 object   4-6 color   7-8 state   9-12 object inside   13-15 color inside

Each object is one line of `KINDS`, which says what an agent may do with it. Numbers and names are those of MiniGrid
(`minigrid/core/constants.py`), so the first three fields of a cell are what MiniGrid's observations show.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Integer, UInt16


class Kind(NamedTuple):
    """A kind of object, and what an agent may do with it."""

    name: str
    walkable: bool = False  # an agent may stand on it
    portable: bool = False  # an agent may carry it
    transparent: bool = True  # an agent sees the cells behind it


KINDS = (
    Kind("unseen"),
    Kind("empty", walkable=True),
    Kind("wall", transparent=False),
    Kind("floor", walkable=True),
    Kind("door", walkable=True),  # only while it is open: see `is_shut`
    Kind("key", portable=True),
    Kind("ball", portable=True),
    Kind("box", portable=True),
    Kind("goal", walkable=True),
    Kind("lava", walkable=True),
    Kind("agent"),
)
OBJECTS = tuple(kind.name for kind in KINDS)
COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
STATES = ("open", "closed", "locked")

# The highest value of each channel of an observation: object, color, state.
HIGHEST = (len(OBJECTS) - 1, len(COLORS) - 1, len(STATES) - 1)

OBJECT_BITS, COLOR_SHIFT, STATE_SHIFT, INSIDE_SHIFT = np.uint16(15), np.uint16(4), np.uint16(7), np.uint16(9)
COLOR_BITS, STATE_BITS = np.uint16(7), np.uint16(3)
SHIFTS = np.array([0, COLOR_SHIFT, STATE_SHIFT], np.uint16)
MASKS = np.array([OBJECT_BITS, COLOR_BITS, STATE_BITS], np.uint16)

Whole = Integer[Array, "..."] | Integer[np.ndarray, "..."] | np.integer | int
Cell = UInt16[Array, "..."] | UInt16[np.ndarray, "..."] | np.uint16


def cell(name: str, color: str = "red", state: str = "open", inside: np.uint16 | int = 0) -> np.uint16:
    """Make a cell from names: `cell("door", "blue", "locked")`, `cell("box", "grey", inside=cell("key", "red"))`.

    As in MiniGrid, an object without a color has the number of red, and one without a state that of open. Raises
    ValueError for an unknown name.
    """
    number = OBJECTS.index(name) | COLORS.index(color) << 4 | STATES.index(state) << 7
    return np.uint16(number | (int(inside) & 0x7F) << 9)


UNSEEN, EMPTY, WALL = cell("unseen"), cell("empty"), cell("wall", "grey")
GOAL, LAVA = cell("goal", "green"), cell("lava")
KEY, BALL, BOX, DOOR, AGENT = cell("key"), cell("ball"), cell("box"), cell("door"), cell("agent")
OPEN, CLOSED, LOCKED = (np.uint16(i) for i in range(3))


def with_color(cells: Cell, color: Whole) -> Cell:
    """Give cells a color, an index of `COLORS`. The cells must be red (number 0)."""
    return cells | jnp.asarray(color).astype(jnp.uint16) << COLOR_SHIFT


def with_state(cells: Cell, state: Whole) -> Cell:
    """Give cells a state, an index of `STATES`. The cells must be open (number 0)."""
    return cells | jnp.asarray(state).astype(jnp.uint16) << STATE_SHIFT


def with_content(boxes: Cell, inside: Cell) -> Cell:
    """Put an object into boxes, which must be empty. The object and its color are kept, its state is not."""
    return boxes | inside << INSIDE_SHIFT


def object_of(cells: Cell) -> Cell:
    """The number of the object, an index of `OBJECTS`."""
    return cells & OBJECT_BITS


def color_of(cells: Cell) -> Cell:
    """The number of the color, an index of `COLORS`."""
    return cells >> COLOR_SHIFT & COLOR_BITS


def state_of(cells: Cell) -> Cell:
    """The number of the state, an index of `STATES`."""
    return cells >> STATE_SHIFT & STATE_BITS


def inside_of(boxes: Cell) -> Cell:
    """The cell that replaces a box when it is opened: its content, or EMPTY."""
    inside = boxes >> INSIDE_SHIFT
    return jnp.where(inside == 0, EMPTY, inside)


def is_a(cells: Cell, name: str) -> Bool[Array, "..."]:
    """Whether the object of each cell has this name."""
    return object_of(cells) == np.uint16(OBJECTS.index(name))


def is_shut(cells: Cell) -> Bool[Array, "..."]:
    """Whether each cell is a closed or locked door. (Only doors have a state other than open.)"""
    return state_of(cells) != OPEN


def is_walkable(cells: Cell) -> Bool[Array, "..."]:
    """Whether an agent may step onto each cell."""
    return _kind_has(cells, "walkable") & ~is_shut(cells)


def is_portable(cells: Cell) -> Bool[Array, "..."]:
    """Whether an agent may pick up the object of each cell."""
    return _kind_has(cells, "portable")


def is_transparent(cells: Cell) -> Bool[Array, "..."]:
    """Whether an agent sees the cells behind each cell."""
    return _kind_has(cells, "transparent") & ~is_shut(cells)


def _kind_has(cells: Cell, trait: str) -> Bool[Array, "..."]:
    # One word with a bit for each kind of object: a shift is cheaper than a lookup in a table.
    table = np.uint16(sum(getattr(kind, trait) << number for number, kind in enumerate(KINDS)))
    return (table >> object_of(cells) & np.uint16(1)) == 1
