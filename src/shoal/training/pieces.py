"""How a long chunk is divided into pieces, so that a request to stop need not wait for its end.

A piece is one call of the compiled program. A chunk that takes less than `LONGEST` is one piece.
"""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from shoal.tracking.text import duration

LONGEST = 10.0  # seconds of a piece, about
# A piece has at most so many times the updates of the longest one before it, because the first updates may be faster
# than later ones. Each call costs 0.3 ms for every member.
GROWTH = 32


class Pieces:
    """The pieces that this process has trained, from whose time the length of the next one follows.

    `changes` are updates from which on an update may take much longer than before, such as the first one that learns
    from a replay buffer. No piece goes on over a change, and the time of pieces before it is forgotten.
    """

    def __init__(self, changes: Iterable[int] = ()) -> None:
        """Begin without a piece."""
        self._changes = frozenset(changes)
        self._forget()
        self._present = (0.0, 0, 0.0)  # when the present piece began, its updates, and the seconds until it is saved

    def _forget(self) -> None:
        self._seconds, self._updates, self._most = 0.0, 0, 0  # of the pieces, and the most updates of one

    def next(self, left: int, done: int = 0) -> int:
        """Return how many updates the next piece has, of those that are left of the chunk, after `done` of the run."""
        if done in self._changes:
            self._forget()
        left = min([left, *(change - done for change in self._changes if change > done)])
        if not self._updates:
            return 1
        count = max(1, math.ceil(left * self._seconds / self._updates / LONGEST))
        return min(math.ceil(left / count), GROWTH * self._most)

    @contextmanager
    def timed(self, updates: int, to_save: float = 0.0) -> Iterator[None]:
        """Measure the time of a piece, which is trained in the block. `to_save`: seconds that it takes to save it."""
        began = time.perf_counter()
        self._present = began, updates, to_save
        yield
        self._seconds += time.perf_counter() - began
        self._updates += updates
        self._most = max(self._most, updates)

    def until_saved(self) -> str:
        """Say when the present piece will be saved, as far as earlier ones tell."""
        began, updates, to_save = self._present
        elapsed = time.perf_counter() - began
        if not self._updates:
            return f" ({duration(elapsed)} so far)" if updates else ""
        left = self._seconds / self._updates * updates + to_save - elapsed
        return f", in about {duration(left)}" if left >= 1 else ""
