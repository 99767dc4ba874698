"""A cell of a grid as one 16-bit number: its object, color and state, and the content of a box.

    bits 0-3 object   4-6 color   7-8 state   9-12 object inside   13-15 color inside

Each object is one line of `KINDS`, which says what an agent may do with it. Numbers and names are those of MiniGrid
(`minigrid/core/constants.py`), so the first three fields of a cell are what MiniGrid's observations show.

A level may declare further kinds (`grid/new_kinds.py`), with the codes that are left. The functions below take them as
`kinds`. Without them they compute what they compute for MiniGrid's objects.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Integer, UInt16


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of object, and what an agent may do with it."""

    name: str
    code: int  # its number in a cell and in observations
    walkable: bool = False  # an agent may stand on it
    portable: bool = False  # an agent may carry it
    transparent: bool = True  # an agent sees the cells behind it
    states: int = 1  # how many states it has


KINDS = (
    Kind("unseen", 0),
    Kind("empty", 1, walkable=True),
    Kind("wall", 2, transparent=False),
    Kind("floor", 3, walkable=True),
    Kind("door", 4, walkable=True, states=3),  # walkable only while it is open: see `is_shut`
    Kind("key", 5, portable=True),
    Kind("ball", 6, portable=True),
    Kind("box", 7, portable=True),
    Kind("goal", 8, walkable=True),
    Kind("lava", 9, walkable=True),
    Kind("agent", 10),
)
Kinds = tuple[Kind, ...]  # those that a level declares, beside `KINDS`
OBJECTS = tuple(kind.name for kind in KINDS)
COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
STATES = ("open", "closed", "locked")

FIRST_NEW_CODE, LAST_CODE, MOST_STATES = len(KINDS), 15, 4  # of kinds that a level declares: four bits and two bits

OBJECT_BITS, COLOR_SHIFT, STATE_SHIFT, INSIDE_SHIFT = np.uint16(15), np.uint16(4), np.uint16(7), np.uint16(9)
COLOR_BITS, STATE_BITS = np.uint16(7), np.uint16(3)
SHIFTS = np.array([0, COLOR_SHIFT, STATE_SHIFT], np.uint16)
MASKS = np.array([OBJECT_BITS, COLOR_BITS, STATE_BITS], np.uint16)

Whole = Integer[Array, "..."] | Integer[np.ndarray, "..."] | np.integer | int
Cell = UInt16[Array, "..."] | UInt16[np.ndarray, "..."] | np.uint16


def cell(kind: str | Kind, color: str = "red", state: str | int = "open", inside: np.uint16 | int = 0) -> np.uint16:
    """Make a cell from names: `cell("door", "blue", "locked")`, `cell("box", "grey", inside=cell("key", "red"))`.

    A kind that a level declares is given itself, and its state is a number: `cell(PORTAL, "blue", 1)`. As in MiniGrid,
    an object without a color has the number of red, and one without a state that of open. Raises ValueError for an
    unknown name or state.
    """
    code = kind.code if isinstance(kind, Kind) else OBJECTS.index(kind)
    number = STATES.index(state) if isinstance(state, str) else state
    if isinstance(kind, Kind) and not 0 <= number < kind.states:
        raise ValueError(f"state={state} of {kind.name} is not in 0 to {kind.states - 1}: it has states={kind.states}.")
    return np.uint16(code | COLORS.index(color) << 4 | number << 7 | (int(inside) & 0x7F) << 9)


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


def highest(kinds: Kinds = ()) -> tuple[int, int, int]:
    """The highest value of each channel of an observation: object, color, state."""
    every = (*KINDS, *kinds)
    return max(kind.code for kind in every), len(COLORS) - 1, max(kind.states for kind in every) - 1


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


def is_a(cells: Cell, kind: str | Kind) -> Bool[Array, "..."]:
    """Whether the object of each cell is of a kind: the name of MiniGrid's, or one that a level declares."""
    code = kind.code if isinstance(kind, Kind) else OBJECTS.index(kind)
    return object_of(cells) == np.uint16(code)


def is_shut(cells: Cell, kinds: Kinds = ()) -> Bool[Array, "..."]:
    """Whether each cell is a closed or locked door. (Of MiniGrid's objects only doors have a state other than open.)"""
    shut = state_of(cells) != OPEN
    return shut & (object_of(cells) < np.uint16(FIRST_NEW_CODE)) if kinds else shut


def is_walkable(cells: Cell, kinds: Kinds = ()) -> Bool[Array, "..."]:
    """Whether an agent may step onto each cell."""
    return _kind_has(cells, "walkable", kinds) & ~is_shut(cells, kinds)


def is_portable(cells: Cell, kinds: Kinds = ()) -> Bool[Array, "..."]:
    """Whether an agent may pick up the object of each cell."""
    return _kind_has(cells, "portable", kinds)


def is_transparent(cells: Cell, kinds: Kinds = ()) -> Bool[Array, "..."]:
    """Whether an agent sees the cells behind each cell."""
    return _kind_has(cells, "transparent", kinds) & ~is_shut(cells, kinds)


def name_of(one: Cell, kinds: Kinds = ()) -> str:
    """The name of the object of one cell. Runs outside of compiled code."""
    return next(kind.name for kind in (*KINDS, *kinds) if kind.code == int(object_of(one)))


def _kind_has(cells: Cell, trait: str, kinds: Kinds) -> Bool[Array, "..."]:
    # One word with a bit for each kind of object: a shift is cheaper than a lookup in a table.
    table = np.uint16(sum(getattr(kind, trait) << kind.code for kind in (*KINDS, *kinds)))
    return (table >> object_of(cells) & np.uint16(1)) == 1
