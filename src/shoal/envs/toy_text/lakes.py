"""Maps of frozen lakes: the two that are known by name, those drawn at random, and what makes a map one."""

import functools
from collections.abc import Iterable

import numpy as np

MAPS = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
}
MOST_DRAWS = 10_000  # until a random map is given up
Map = tuple[str, ...]


def generate_random_map(size: int = 8, p: float = 0.8, seed: int | None = None) -> Map:
    """A random square map that can be walked: start and goal in opposite corners, each other cell frozen with odds `p`.

    The same seed gives the map that Gymnasium's function of this name gives; without one, every call gives another.
    Raises ValueError for a size or probability with which no such map exists.
    """
    if size < 2:
        raise ValueError(f"size={size} has no room for a start and a goal: at least 2.")
    if not 0 < p <= 1:
        raise ValueError(f"p={p} is no probability of ice under which a way to the goal can freeze: 0 < p <= 1.")
    random = np.random.default_rng(seed)
    for _ in range(MOST_DRAWS):
        cells = random.choice(["F", "H"], (size, size), p=[p, 1 - p])
        cells[0, 0], cells[-1, -1] = "S", "G"
        lake = tuple("".join(row) for row in cells)
        if (size - 1, size - 1) in reachable(lake, [(0, 0)]):
            return lake
    raise ValueError(f"none of {MOST_DRAWS} maps of size={size} and p={p} had a way to the goal: give more ice.")


@functools.cache
def read_map(desc: str | Map | None, map_name: str | None) -> Map:
    """The map that is meant: `desc` (rows, or one text with rows joined by /), else the one of that name.

    Raises ValueError for what is no map: no rows, ragged rows, other letters, no start, or a start from which no way
    leads to a goal.
    """
    if desc is None or desc == "":
        if map_name is None:
            raise ValueError("map_name=None names no map: for a random one give desc=generate_random_map(8).")
        if map_name not in MAPS:
            raise ValueError(f"map_name={map_name!r} is unknown. Choose one of {', '.join(MAPS)}, or give a desc.")
        return MAPS[map_name]
    rows = tuple(desc.replace("\n", "/").strip("/").split("/")) if isinstance(desc, str) else desc
    _check_shape(rows)
    starts, goals = cells_of(rows, "S"), cells_of(rows, "G")
    for letter, found in (("S", starts), ("G", goals)):
        if not found:
            raise ValueError(f"the map {show(rows)} has no {letter}: it needs a start S and a goal G.")
    for start in starts:
        if not goals & reachable(rows, [start]):
            raise ValueError(f"no way leads from the start in {place(start)} of the map {show(rows)} to a goal.")
    return rows


def cells_of(rows: Map, letter: str) -> set[tuple[int, int]]:
    """The cells with a letter, as (row, column)."""
    return {(r, c) for r, row in enumerate(rows) for c, found in enumerate(row) if found == letter}


def reachable(rows: Map, starts: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """All cells that can be walked to, holes and goals at the end of a walk included."""
    seen, open_cells = set(), list(starts)
    while open_cells:
        row, column = cell = open_cells.pop()
        if cell in seen:
            continue
        seen.add(cell)
        if rows[row][column] in "SF":
            beside = [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
            open_cells += [(r, c) for r, c in beside if 0 <= r < len(rows) and 0 <= c < len(rows[0])]
    return seen


def show(rows: Map) -> str:
    """A map on one line."""
    return "/".join(rows)


def place(cell: tuple[int, int]) -> str:
    """A cell in words."""
    return f"row {cell[0]}, column {cell[1]}"


def _check_shape(rows: Map) -> None:
    if not isinstance(rows, tuple) or not all(isinstance(row, str) for row in rows):
        raise TypeError(f"desc={rows!r} is no map: write its rows as ('SF', 'FG') or 'SF/FG'.")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]) or not row:
            raise ValueError(
                f"row {number} of the map {show(rows)} has {len(row)} cells and the first has {len(rows[0])}: all rows "
                "must be of one length, at least 1."
            )
        unknown = sorted(set(row) - set("SFHG"))
        if unknown:
            raise ValueError(
                f"row {number} of the map {show(rows)} holds {unknown[0]!r}. The letters are S (start), F (frozen), H "
                "(hole) and G (goal)."
            )
