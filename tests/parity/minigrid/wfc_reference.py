"""MiniGrid's WFC levels, with their pictures, and fast enough to draw thousands of them.

The wheel of MiniGrid 3.2.0 has no pictures. Those of the registered levels are in `wfc_pictures`, from
`minigrid/envs/wfc/patterns` of its repository (Apache-2.0). Two steps of its solver are replaced: what it computes from
a picture is kept between resets, and `propagate` looks only at cells that changed. The result is the same for equal
seeds: `test_wfc.py` compares them.
"""

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from parity.minigrid.layouts import Layouts
from parity.minigrid.reference import packed_grid

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from minigrid.envs.wfc.config import WFC_PRESETS
    from minigrid.envs.wfc.wfclogic import control, solver

for preset in WFC_PRESETS.values():
    preset.pattern_path = Path(__file__).parent / "wfc_pictures" / preset.pattern_path.name

ORIGINAL = {name: getattr(control, name) for name in ("make_pattern_catalog_with_rotations", "adjacency_extraction")}
PROPAGATE = solver.propagate


def picture_of(name: str) -> np.ndarray:
    """The picture of a registered level."""
    return WFC_PRESETS[name].wfc_kwargs["image"]


@contextlib.contextmanager
def fast() -> Iterator[None]:
    """Replace the two slow steps of MiniGrid's solver."""
    solver.propagate = _Propagation()
    for name, function in ORIGINAL.items():
        setattr(control, name, _kept(function))
    try:
        yield
    finally:
        solver.propagate = PROPAGATE
        for name, function in ORIGINAL.items():
            setattr(control, name, function)


def _kept(function: Callable) -> Callable:
    """The function, which returns what it returned before for equal arguments."""
    known: dict[str, Any] = {}

    def kept(*args: Any, **kwargs: Any) -> Any:
        case = repr((args, kwargs))
        if case not in known:
            known[case] = function(*args, **kwargs)
        return known[case]

    return kept


class _Propagation:
    """`propagate` of MiniGrid's solver; a cell's patterns are the bits of an integer."""

    def __init__(self) -> None:
        self.allowed: dict[int, Callable[[int, int], int]] = {}
        self.last, self.sets, self.wave = None, [], np.zeros(0)

    def __call__(self, wave: np.ndarray, adj: Any, periodic: bool = False, onPropagate: Any = None) -> None:  # noqa: N803
        assert onPropagate is None
        count, width, height = wave.shape
        if self.last is not wave:
            self.last, self.wave = wave, np.ones_like(wave)
            self.sets = [[(1 << count) - 1] * height for _ in range(width)]
            changed = {(x, y) for x in range(width) for y in range(height)}
        else:
            changed = set()
        allowed = self._table(adj)
        for x, y in np.argwhere((wave != self.wave).any(0)).tolist():
            self.sets[x][y] = _bits(wave[:, x, y])
            changed.add((x, y))
        touched = set(changed)
        while changed:
            x, y = changed.pop()
            for side, (dx, dy) in enumerate(adj):
                i, j = x - dx, y - dy
                if periodic:
                    i, j = i % width, j % height
                elif not (0 <= i < width and 0 <= j < height):
                    continue
                new = self.sets[i][j] & allowed(side, self.sets[x][y])
                if new != self.sets[i][j]:
                    self.sets[i][j] = new
                    changed.add((i, j))
                    touched.add((i, j))
        for x, y in touched:
            wave[:, x, y] = [self.sets[x][y] >> p & 1 for p in range(count)]
        self.wave = wave.copy()
        if any(0 in row for row in self.sets):
            raise solver.Contradiction

    def _table(self, adj: Any) -> Callable[[int, int], int]:
        if id(adj) not in self.allowed:
            fits = [[_bits(adj[side][:, q]) for q in range(len(adj[side]))] for side in adj]
            self.kept = adj  # so that no other table gets its id

            @functools.lru_cache(2**20)
            def allowed(side: int, near: int) -> int:
                found = 0
                for q, bits in enumerate(fits[side]):
                    found |= bits if near >> q & 1 else 0
                return found

            self.allowed = {id(adj): allowed}
        return self.allowed[id(adj)]


def _bits(members: np.ndarray) -> int:
    return int.from_bytes(np.packbits(members, bitorder="little").tobytes(), "little")


@functools.cache
def layouts(env_id: str, count: int) -> Layouts:
    """`count` layouts of MiniGrid's, after resets with the seeds 0, 1 and so on."""
    with warnings.catch_warnings(), fast():
        warnings.simplefilter("ignore")
        env: Any = gymnasium.make(env_id, disable_env_checker=True).unwrapped
        env.gen_obs = lambda: None  # not looked at
        rows = []
        for seed in range(count):
            env.reset(seed=seed)
            rows.append((packed_grid(env), *map(int, env.agent_pos), int(env.agent_dir), env.mission))
    return Layouts(*(np.array(column) for column in zip(*rows, strict=True)), {})
