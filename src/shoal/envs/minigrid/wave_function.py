"""Wave function collapse: draw walls in which each small square of cells looks like one of an example picture.

A pattern is such a square, and stands for its first cell. At first each cell may take any pattern. One cell after the
other takes one at random, and each time the patterns that fit no more are removed from the cells around it.

Source: MiniGrid 3.2.0, `envs/wfc/wfclogic` (Apache-2.0). `wfc_catalogs.npz` holds, for each of its pictures, which
patterns fit side by side, their weights and which are walls, as computed by that code from its own pictures.
"""

import functools
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

from shoal.core.form import computed_once
from shoal.core.keys import Key
from shoal.grid.retry import retry

CATALOGS = Path(__file__).with_name("wfc_catalogs.npz")
WRAPS = {  # by picture, under MiniGrid's names: whether the left edge of a grid continues the right one, and so on
    "MazeSimple": False,
    "DungeonMazeScaled": True,
    "RoomsFabric": False,
    "ObstaclesBlackdots": False,
    "ObstaclesAngular": True,
    "ObstaclesHogs3": True,
}
TO_NEIGHBOR = np.array([(0, 1), (-1, 0), (0, -1), (1, 0)], np.int32)  # (x, y), in the order of the tables
WORD = 32  # patterns in one word of a set of patterns
MOST_PATTERNS = 64  # more than any picture has
SETTLED = np.int32(np.iinfo(np.int32).max)  # larger than any number in `Wave.order`
# An attempt takes at most 8.4 visits a cell (measured: 4,397 visits of 529 cells), so this allows 15 attempts. Each
# fails with a probability of about 0.001 or less, so the limit is reached in about 1 of 10^45 levels.
VISITS_PER_CELL = 128


class Catalog(NamedTuple):
    """The patterns of a picture, and which may be neighbors. A set of patterns is W words: bit p of them is pattern p.

    In each direction the patterns fall into K classes: those of a class allow the same patterns beside them.
    """

    classes: UInt32[np.ndarray, "4 K W"]  # the patterns of each class, for a neighbor in each direction
    allows: UInt32[np.ndarray, "4 K W"]  # the patterns that this neighbor may take
    weight: Int[np.ndarray, "P"]  # relative probability of each pattern
    walls: UInt32[np.ndarray, "W"]  # the patterns that stand for a wall
    wraps: bool

    @property
    def all_patterns(self) -> UInt32[np.ndarray, "W"]:
        """The set of all patterns."""
        return _set_of(np.ones(len(self.weight), bool))


class Wave(NamedTuple):
    """A grid under construction. Its cells are numbered column by column."""

    patterns: UInt32[Array, "W cells"]  # the patterns that each cell may take
    order: Int[Array, "cells"]  # the cell with the smallest number is visited next; SETTLED: not again
    rank: Int[Array, "cells"]  # which of two cells with equally many patterns is first


@functools.cache
def catalog(picture: str) -> Catalog:
    """The tables of a picture, read from the file at the first use."""
    with np.load(CATALOGS) as file:
        fits, weight, walls = (file[f"{picture}_{name}"] for name in ("adj", "w", "wall"))
    # fits[d, p, q]: q may be the neighbor of p at offset d, so p may be the neighbor of q in the opposite direction.
    allowed = [np.unique(side, axis=1) for side in fits]
    classes = [(side[:, :, None] == sets[:, None]).all(0) for side, sets in zip(fits, allowed, strict=True)]
    return Catalog(
        classes=np.stack([_set_of(members.T) for members in classes]),
        allows=np.stack([_set_of(sets.T) for sets in allowed]),
        weight=weight.astype(np.int32),
        walls=_set_of(walls.astype(bool)),
        wraps=WRAPS[picture],
    )


def draw_walls(key: Key, picture: str, side: int) -> tuple[Bool[Array, "S S"], Bool[Array, ""]]:
    """Draw the walls of a square grid: (walls, whether no attempt succeeded). `key` is consumed.

    Where the patterns contradict each other, all cells begin again. This happened in 2 of 2,050 attempts with
    RoomsFabric, and in none of at least 2,048 with each other picture. MiniGrid makes 1,000 attempts, then it raises an
    error; here the number of visits is limited. If no attempt succeeds there are no walls.
    """
    tables, cells = catalog(picture), side * side
    k_rank, k_visits = jax.random.split(key)
    start = _fresh(tables, jax.random.permutation(k_rank, np.arange(cells, dtype=np.int32)))
    visit = functools.partial(_visit, tables=tables, side=side)
    wave = retry(k_visits, _random_bits, visit, _is_settled, start, start, limit=VISITS_PER_CELL * cells)
    failed = ~_is_settled(wave)
    is_wall = jnp.any((wave.patterns & tables.walls[:, None]) != 0, axis=0) & ~failed
    return is_wall.reshape(side, side), failed


def largest_component(free: Bool[Array, "S S"]) -> Bool[Array, "S S"]:
    """The largest set of free cells that hang together; of equally large ones, that with the first cell."""
    side = free.shape[0]
    cells = side * side
    number = np.arange(cells, dtype=np.int32).reshape(side, side)

    def spread(loop):
        # Each cell takes the smallest label around it, then the label of the cell that its label names.
        label, _ = loop
        wide = jnp.pad(label, 1, constant_values=cells)
        around = [wide[1 + dx : side + 1 + dx, 1 + dy : side + 1 + dy] for dx, dy in TO_NEIGHBOR]
        least = jnp.where(free, functools.reduce(jnp.minimum, around, label), cells)
        new = jnp.concatenate([least.reshape(cells), jnp.full(1, cells, jnp.int32)])[least]
        return new, jnp.any(new != label)

    first = jnp.where(free, number, cells)
    label, _ = jax.lax.while_loop(lambda loop: loop[1], spread, (first, jnp.bool_(True)))
    sizes = jnp.zeros(cells, jnp.int32).at[label].add(1, mode="drop")
    return free & (label == jnp.argmax(sizes))


# Cells are visited one at a time. Those whose patterns changed since their neighbors were looked at come first; they
# stand at the front of the order. If there are none, the cell with the fewest patterns takes one of them.


def _fresh(tables: Catalog, rank: Int[Array, "cells"]) -> Wave:
    cells, count = rank.shape[0], len(tables.weight)
    patterns = jnp.broadcast_to(jnp.asarray(tables.all_patterns)[:, None], (tables.walls.size, cells))
    return Wave(patterns, (MOST_PATTERNS + count) * cells + rank, rank)


def _visit(bits: UInt32[Array, ""], wave: Wave, tables: Catalog, side: int) -> Wave:
    """Visit the next cell: it takes a pattern if it is its turn, then its neighbors lose what does not fit to it."""
    cells = side * side
    numbers = np.arange(cells, dtype=np.int32)
    first = jnp.min(wave.order)
    here = jnp.sum(jnp.where(wave.order == first, numbers, 0), dtype=jnp.int32)
    takes_one = first >= MOST_PATTERNS * cells
    patterns = wave.patterns[:, here]
    patterns = jnp.where(takes_one, _one_of(bits, patterns, tables), patterns)
    around, is_inside = _neighbors(here, side, tables.wraps)
    before = wave.patterns[:, around]
    after = before & _allowed(patterns, tables)
    left = _count(after)
    has_changed = is_inside & jnp.any(after != before, axis=0)
    has_failed = jnp.any(has_changed & (left == 0))
    # What to write: the cell itself, then the neighbors that changed. Without the barrier, XLA on CPU would compute
    # these few numbers again for each cell.
    own = _count(patterns[:, None])
    place = jnp.concatenate([here[None], jnp.where(has_changed, around, -1)])
    content = jnp.concatenate([patterns[:, None], after], axis=1)
    turn = jnp.concatenate([jnp.where(own > 1, MOST_PATTERNS + own, -1), left])
    place, content, turn, has_failed = computed_once((place, content, turn, has_failed))
    fresh = _fresh(tables, wave.rank)
    all_patterns, order = wave.patterns, wave.order
    for i in range(len(TO_NEIGHBOR) + 1):
        is_it = numbers == place[i]
        all_patterns = jnp.where(is_it[None], content[:, i, None], all_patterns)
        order = jnp.where(is_it, jnp.where(turn[i] < 0, SETTLED, turn[i] * cells + wave.rank), order)
    return Wave(
        jnp.where(has_failed, fresh.patterns, all_patterns), jnp.where(has_failed, fresh.order, order), wave.rank
    )


def _is_settled(wave: Wave) -> Bool[Array, ""]:
    return jnp.min(wave.order) == SETTLED


def _random_bits(key: Key) -> UInt32[Array, ""]:
    return jax.random.bits(key, (), jnp.uint32)


def _one_of(bits: UInt32[Array, ""], patterns: UInt32[Array, "W"], tables: Catalog) -> UInt32[Array, "W"]:
    """One of the patterns, as a set, with probabilities proportional to the weights."""
    number = np.arange(len(tables.weight), dtype=np.int32)
    is_possible = (patterns[number // WORD] >> (number % WORD).astype(np.uint32) & 1) != 0
    up_to = jnp.cumsum(jnp.where(is_possible, tables.weight, 0), dtype=jnp.int32)
    lot = ((bits >> 9) * up_to[-1].astype(jnp.uint32) >> 23).astype(jnp.int32)  # weights sum to less than 2^9
    chosen = jnp.sum(up_to <= lot, dtype=jnp.int32)
    word = np.arange(patterns.shape[0], dtype=np.int32)
    return jnp.where(word == chosen // WORD, jnp.uint32(1) << (chosen % WORD).astype(jnp.uint32), jnp.uint32(0))


def _neighbors(cell: Int[Array, ""], side: int, wraps: bool) -> tuple[Int[Array, "4"], Bool[Array, "4"]]:
    """The four cells around a cell, and whether they exist; if not, the number is that of another cell."""
    place = jnp.stack([cell // side, cell % side])[None] + TO_NEIGHBOR
    if wraps:
        place = place % side
    is_inside = jnp.all((place >= 0) & (place < side), axis=1)
    return jnp.where(is_inside, place[:, 0] * side + place[:, 1], 0), is_inside


def _allowed(patterns: UInt32[Array, "W"], tables: Catalog) -> UInt32[Array, "W 4"]:
    """The patterns that fit to at least one of `patterns`, for the neighbor in each direction."""
    has_class = jnp.any((patterns[None, None] & tables.classes) != 0, axis=-1)
    sets = jnp.where(has_class[..., None], tables.allows, np.uint32(0))
    return jax.lax.reduce(sets, np.uint32(0), jax.lax.bitwise_or, (1,)).T


def _count(patterns: UInt32[Array, "W n"]) -> Int[Array, "n"]:
    return jnp.sum(jax.lax.population_count(patterns), axis=0, dtype=jnp.int32)


def _set_of(members: Bool[np.ndarray, "*n P"]) -> UInt32[np.ndarray, "*n W"]:
    """Sets of patterns, as words."""
    missing = -members.shape[-1] % WORD
    bits = np.pad(members, [(0, 0)] * (members.ndim - 1) + [(0, missing)])
    return np.ascontiguousarray(np.packbits(bits, axis=-1, bitorder="little")).view("<u4").astype(np.uint32)
