"""Maps of frozen lakes: two named maps, random maps, and the checks of a map."""

import functools
from collections.abc import Iterable

import numpy as np

MAPS = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
}
MAX_ATTEMPTS = 10_000  # attempts to sample a map with a path to the goal
Map = tuple[str, ...]


def generate_random_map(size: int = 8, p: float = 0.8, seed: int | None = None) -> Map:
    """A random square map with a path from start to goal, which are in opposite corners.

    Each other cell is frozen with probability `p`, else a hole. A seed gives the same map as Gymnasium's function of
    this name; without a seed every call gives another map. Raises ValueError if `size` or `p` allow no such map, or if
    none is found.
    """
    if size < 2:
        raise ValueError(f"size={size} has no room for a start and a goal: at least 2.")
    if not 0 < p <= 1:
        raise ValueError(f"p={p} is not a valid probability of frozen cells: give 0 < p <= 1.")
    random = np.random.default_rng(seed)
    for _ in range(MAX_ATTEMPTS):
        cells = random.choice(["F", "H"], (size, size), p=[p, 1 - p])
        cells[0, 0], cells[-1, -1] = "S", "G"
        lake = tuple("".join(row) for row in cells)
        if (size - 1, size - 1) in reachable(lake, [(0, 0)]):
            return lake
    raise ValueError(f"none of {MAX_ATTEMPTS} maps of size={size} and p={p} had a path to the goal: give a larger p.")


@functools.cache
def read_map(desc: str | Map | None, map_name: str | None) -> Map:
    """The rows of `desc` (a tuple, or one string with rows joined by /), or of the map `map_name` if `desc` is empty.

    Raises ValueError for an invalid map: no rows, rows of different lengths, unknown letters, no start, or a start
    without a path to a goal.
    """
    if desc is None or desc == "":
        if map_name is None:
            raise ValueError("map_name=None is no map: for a random one give desc=generate_random_map(8).")
        if map_name not in MAPS:
            raise ValueError(f"map_name={map_name!r} is unknown. Choose one of {', '.join(MAPS)}, or give a desc.")
        return MAPS[map_name]
    rows = tuple(desc.replace("\n", "/").strip("/").split("/")) if isinstance(desc, str) else desc
    _check_shape(rows)
    starts, goals = cells_of(rows, "S"), cells_of(rows, "G")
    for letter, found in (("S", starts), ("G", goals)):
        if not found:
            raise ValueError(f"the map {map_text(rows)} has no {letter}: it needs a start S and a goal G.")
    for start in starts:
        if not goals & reachable(rows, [start]):
            raise ValueError(
                f"no path leads from the start in {cell_text(start)} of the map {map_text(rows)} to a goal."
            )
    return rows


def cells_of(rows: Map, letter: str) -> set[tuple[int, int]]:
    """All cells with a letter, as (row, column)."""
    return {(r, c) for r, row in enumerate(rows) for c, found in enumerate(row) if found == letter}


def reachable(rows: Map, starts: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """All cells that can be reached from `starts`, including holes and goals, which end a walk."""
    reached, to_visit = set(), list(starts)
    while to_visit:
        row, column = cell = to_visit.pop()
        if cell in reached:
            continue
        reached.add(cell)
        if rows[row][column] in "SF":
            adjacent = [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
            to_visit += [(r, c) for r, c in adjacent if 0 <= r < len(rows) and 0 <= c < len(rows[0])]
    return reached


def map_text(rows: Map) -> str:
    """A map as one line of text."""
    return "/".join(rows)


def cell_text(cell: tuple[int, int]) -> str:
    """A cell as text."""
    return f"row {cell[0]}, column {cell[1]}"


def _check_shape(rows: Map) -> None:
    if not isinstance(rows, tuple) or not all(isinstance(row, str) for row in rows):
        raise TypeError(f"desc={rows!r} is not a map: give its rows as ('SF', 'FG') or 'SF/FG'.")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]) or not row:
            raise ValueError(
                f"row {number} of the map {map_text(rows)} has {len(row)} cells and the first has {len(rows[0])}: all "
                "rows must have the same length, at least 1."
            )
        unknown = sorted(set(row) - set("SFHG"))
        if unknown:
            raise ValueError(
                f"row {number} of the map {map_text(rows)} holds {unknown[0]!r}. The letters are S (start), F "
                "(frozen), H (hole) and G (goal)."
            )
