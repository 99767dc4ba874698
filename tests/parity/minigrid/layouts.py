"""Many layouts of an id from both generators as arrays, and tests that they come from the same distribution.

The significance level is divided: a function that makes k tests uses SIGNIFICANCE / k for each. Seeds are fixed, so a
test that passes once always passes.
"""

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.stats import chi2

from parity.minigrid.reference import MiniGridEnv, make_reference, packed_grid
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.grid.words import decode

SIGNIFICANCE = 1e-3
FEWEST = 5  # expected count that a category of a chi-square test needs; rarer ones are counted together


class Layouts(NamedTuple):
    """First states, first axis: which one. `fields` are those of our state, or what `fields_of` reads elsewhere."""

    grid: np.ndarray  # packed cells [n, x, y]
    x: np.ndarray
    y: np.ndarray
    direction: np.ndarray
    mission: np.ndarray  # text
    fields: dict[str, np.ndarray]


@functools.cache
def drawing(env_id: str, batch: int = 500, **options: Any) -> Callable[[jax.Array], tuple]:
    """Compiled once an id: a key -> `batch` first states and their missions."""
    env = make(env_id, **options)

    def draw(key: jax.Array) -> tuple:
        state = env.init(key)
        return state, env.mission(state)

    return jax.jit(lambda key: jax.vmap(draw)(jax.random.split(key, batch)))


@functools.cache
def layouts_of_ours(env_id: str, n: int, seed: int = 0, **options: Any) -> Layouts:
    """`n` layouts of our generator, drawn 500 at a time."""
    draw = drawing(env_id, **options)
    batches = [draw(jax.random.fold_in(make_key(seed), i)) for i in range(-(-n // 500))]
    states, missions = jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves])[:n], *batches)
    fields = {name: getattr(states, name) for name in states.__dataclass_fields__}
    texts = {numbers: decode(np.frombuffer(numbers, np.uint8)) for numbers in {m.tobytes() for m in missions}}
    known = [fields.pop(name) for name in ("grid", "x", "y", "direction")]
    return Layouts(*known, np.array([texts[m.tobytes()] for m in missions]), fields)


@functools.cache
def layouts_of_reference(
    env_id: str, n: int, seed: int = 0, fields_of: Callable[[Any], dict[str, Any]] | None = None, **options: Any
) -> Layouts:
    """`n` layouts of MiniGrid's generator; `fields_of` (a `Family`'s) reads what else is wanted from each."""
    env: MiniGridEnv = make_reference(env_id, **options)
    env.gen_obs = lambda: None  # not looked at, and the most expensive part of a reset
    env.reset(seed=seed)
    rows, fields = [], []
    for _ in range(n):
        env.reset()
        rows.append((packed_grid(env), *map(int, env.agent_pos), int(env.agent_dir), env.mission))
        fields.append(fields_of(env) if fields_of else {})
    columns = (np.array(column) for column in zip(*rows, strict=True))
    return Layouts(*columns, {name: np.array([f[name] for f in fields]) for name in fields[0]})


def assert_same_distribution(
    ours: Layouts, theirs: Layouts, statistic: Callable[[Layouts], np.ndarray], tests: int = 1
) -> None:
    """Two-sample chi-square tests of a statistic: [n] one category a layout, or [n, k] for k tests.

    `tests` is how many calls of this a test function makes on the same layouts, if it makes several.
    """
    columns_ours, columns_theirs = (_columns(statistic(layouts)) for layouts in (ours, theirs))
    assert columns_ours.shape[1] == columns_theirs.shape[1]
    level = SIGNIFICANCE / (columns_ours.shape[1] * tests)
    for k in range(columns_ours.shape[1]):
        p, picture = _same(columns_ours[:, k], columns_theirs[:, k])
        assert p > level, f"column {k}: p = {p:.2e} < {level:.2e}; (ours, theirs): {picture}"


def assert_frequencies(categories: np.ndarray, expected: Mapping[Any, float], tests: int = 1) -> None:
    """Chi-square test of categories against their exact probabilities, which sum to 1. Nothing else may occur."""
    counts = Counter(categories.tolist())
    unknown = set(counts) - set(expected)
    assert not unknown, f"these cannot occur: {sorted(unknown)[:5]}"
    assert abs(sum(expected.values()) - 1) < 1e-9
    n = len(categories)
    observed = np.array([counts[name] for name in expected])
    wanted = np.array([probability * n for probability in expected.values()])
    assert wanted.min() >= FEWEST, f"{n} draws are too few: a category is expected {wanted.min():.1f} times"
    p = chi2.sf(((observed - wanted) ** 2 / wanted).sum(), max(1, len(wanted) - 1))
    assert p > SIGNIFICANCE / tests, f"p = {p:.2e}; (expected, observed): {list(zip(wanted, observed, strict=True))}"


def _columns(values: np.ndarray) -> np.ndarray:
    return np.asarray(values).reshape(len(values), -1)


def _same(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, dict]:
    names, codes = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
    counts = np.stack([np.bincount(part, minlength=len(names)) for part in np.split(codes, [len(ours)])])
    share = counts.sum(0) / counts.sum()
    is_rare = share * min(len(ours), len(theirs)) < FEWEST
    if is_rare.any():
        counts = np.concatenate([counts[:, ~is_rare], counts[:, is_rare].sum(1, keepdims=True)], axis=1)
    expected = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / counts.sum()
    distance = ((counts - expected) ** 2 / np.maximum(expected, 1e-12)).sum()
    degrees = counts.shape[1] - 1
    p = float(chi2.sf(distance, degrees)) if degrees else 1.0
    return p, dict(zip(names[~is_rare].tolist(), counts[:, : (~is_rare).sum()].T.tolist(), strict=True))


# Statistics that suit any level.


def cells(layouts: Layouts) -> np.ndarray:
    """What lies in each cell: one test a cell."""
    return layouts.grid.reshape(len(layouts.grid), -1)


def pose(layouts: Layouts) -> np.ndarray:
    """Where the agent is and looks."""
    return (layouts.x * layouts.grid.shape[2] + layouts.y) * 4 + layouts.direction


def mission(layouts: Layouts) -> np.ndarray:
    """The mission."""
    return layouts.mission


def whole(layouts: Layouts) -> np.ndarray:
    """The whole layout, agent included, as one category: for levels with few of them."""
    rows = zip(layouts.grid, layouts.x, layouts.y, layouts.direction, strict=True)
    return np.array([f"{g.tobytes().hex()}:{x},{y},{d}" for g, x, y, d in rows])


def number_of(kind: int, top: int = 100) -> Callable[[Layouts], np.ndarray]:
    """How many objects of a kind (its number) lie in the grid."""
    return lambda layouts: np.minimum((layouts.grid & 15 == kind).sum((1, 2)), top)


def position_of(cell: int) -> Callable[[Layouts], np.ndarray]:
    """The number of the first position where a cell stands, -1 where it does not."""

    def position(layouts: Layouts) -> np.ndarray:
        is_there = cells(layouts) == cell
        return np.where(is_there.any(1), is_there.argmax(1), -1)

    return position


def distance_to(kind: int, *, lava: bool = False) -> Callable[[Layouts], np.ndarray]:
    """Steps (turns not counted) from the agent to the nearest object of a kind; -1 where there is no way.

    Doors count as open, and what an agent can carry as out of the way.
    """

    def distance(layouts: Layouts) -> np.ndarray:
        objects = layouts.grid & 15
        passes = np.isin(objects, [1, 3, 4, 5, 6, 7, 8, *([9] if lava else [])])
        goal = objects == kind
        reached = np.zeros(objects.shape, bool)
        reached[np.arange(len(objects)), layouts.x, layouts.y] = True
        found = np.where((reached & goal).any((1, 2)), 0, -1)
        for step in range(1, objects[0].size):
            wide = reached.copy()
            wide[:, 1:] |= reached[:, :-1]
            wide[:, :-1] |= reached[:, 1:]
            wide[:, :, 1:] |= reached[:, :, :-1]
            wide[:, :, :-1] |= reached[:, :, 1:]
            found = np.where((found < 0) & (wide & goal).any((1, 2)), step, found)
            wide &= passes
            if (wide == reached).all():
                break
            reached = wide
        return found

    return distance
