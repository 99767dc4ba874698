"""A cell of a grid: object, color, state, and what a box holds, in one 16-bit number.

    bits 0-3 object   4-6 color   7-8 state   9-12 object inside   13-15 color inside

An object is one line in `KINDS`; what agents may do with it follows from that line. Numbers and names are MiniGrid's
(`minigrid/core/constants.py`), so the first three fields of a cell are what its observations show.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Integer, UInt16


class Kind(NamedTuple):
    """What an object is to an agent."""

    name: str
    walkable: bool = False  # an agent may stand on it
    portable: bool = False  # an agent may carry it
    transparent: bool = True  # an agent sees what lies behind it


KINDS = (
    Kind("unseen"),
    Kind("empty", walkable=True),
    Kind("wall", transparent=False),
    Kind("floor", walkable=True),
    Kind("door", walkable=True),  # while it is open: see `is_shut`
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

# Highest value of each channel that an observation shows.
HIGHEST = (len(OBJECTS) - 1, len(COLORS) - 1, len(STATES) - 1)

OBJECT_BITS, COLOR_SHIFT, STATE_SHIFT, INSIDE_SHIFT = np.uint16(15), np.uint16(4), np.uint16(7), np.uint16(9)
COLOR_BITS, STATE_BITS = np.uint16(7), np.uint16(3)
SHIFTS = np.array([0, COLOR_SHIFT, STATE_SHIFT], np.uint16)
MASKS = np.array([OBJECT_BITS, COLOR_BITS, STATE_BITS], np.uint16)

Whole = Integer[Array, "..."] | Integer[np.ndarray, "..."] | np.integer | int
Cell = UInt16[Array, "..."] | UInt16[np.ndarray, "..."] | np.uint16


def cell(name: str, color: str = "red", state: str = "open", inside: np.uint16 | int = 0) -> np.uint16:
    """A cell by names: `cell("door", "blue", "locked")`, `cell("box", "grey", inside=cell("key", "red"))`.

    What needs no color is red, what needs no state is open, as in MiniGrid. Raises ValueError for an unknown name.
    """
    number = OBJECTS.index(name) | COLORS.index(color) << 4 | STATES.index(state) << 7
    return np.uint16(number | (int(inside) & 0x7F) << 9)


UNSEEN, EMPTY, WALL = cell("unseen"), cell("empty"), cell("wall", "grey")
GOAL, LAVA = cell("goal", "green"), cell("lava")
KEY, BALL, BOX, DOOR, AGENT = cell("key"), cell("ball"), cell("box"), cell("door"), cell("agent")
OPEN, CLOSED, LOCKED = (np.uint16(i) for i in range(3))


def painted(cells: Cell, color: Whole) -> Cell:
    """Red cells in another color, given by its number."""
    return cells | jnp.asarray(color).astype(jnp.uint16) << COLOR_SHIFT


def in_state(cells: Cell, state: Whole) -> Cell:
    """Open cells in another state, given by its number."""
    return cells | jnp.asarray(state).astype(jnp.uint16) << STATE_SHIFT


def holding(boxes: Cell, inside: Cell) -> Cell:
    """Empty boxes with something inside, which keeps its object and color."""
    return boxes | inside << INSIDE_SHIFT


def object_of(cells: Cell) -> Cell:
    """Number of the object, an index of `OBJECTS`."""
    return cells & OBJECT_BITS


def color_of(cells: Cell) -> Cell:
    """Number of the color, an index of `COLORS`."""
    return cells >> COLOR_SHIFT & COLOR_BITS


def state_of(cells: Cell) -> Cell:
    """Number of the state, an index of `STATES`."""
    return cells >> STATE_SHIFT & STATE_BITS


def inside_of(boxes: Cell) -> Cell:
    """The cell that a box leaves when it is opened: what it holds, or nothing."""
    inside = boxes >> INSIDE_SHIFT
    return jnp.where(inside == 0, EMPTY, inside)


def is_a(cells: Cell, name: str) -> Bool[Array, "..."]:
    """Whether the object has this name."""
    return object_of(cells) == np.uint16(OBJECTS.index(name))


def is_shut(cells: Cell) -> Bool[Array, "..."]:
    """Whether it is a door that is closed or locked; only doors have a state other than open."""
    return state_of(cells) != OPEN


def is_walkable(cells: Cell) -> Bool[Array, "..."]:
    """Whether an agent may step onto it."""
    return _holds(cells, "walkable") & ~is_shut(cells)


def is_portable(cells: Cell) -> Bool[Array, "..."]:
    """Whether an agent may pick it up."""
    return _holds(cells, "portable")


def is_transparent(cells: Cell) -> Bool[Array, "..."]:
    """Whether an agent sees what lies behind it."""
    return _holds(cells, "transparent") & ~is_shut(cells)


def _holds(cells: Cell, trait: str) -> Bool[Array, "..."]:
    # One bit for each object: a shift instead of a table that would have to be looked up.
    table = np.uint16(sum(getattr(kind, trait) << number for number, kind in enumerate(KINDS)))
    return (table >> object_of(cells) & np.uint16(1)) == 1
