"""How a long chunk is divided into pieces, so that a request to stop need not wait for its end.

A piece is one call of the compiled program. A chunk that takes less than `LONGEST` is one piece.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.tracking.text import duration

LONGEST = 10.0  # seconds of a piece, about
# A piece has at most so many times the updates of the longest one before it, because early updates may be much faster
# than later ones: those of an agent with a replay buffer do not learn yet. Each call costs 0.3 ms for every member.
GROWTH = 32


class Pieces:
    """The pieces that this process has trained, from whose time the length of the next one follows."""

    def __init__(self) -> None:
        """Begin without a piece."""
        self._seconds, self._updates, self._most = 0.0, 0, 0  # of all pieces, and the most updates of one
        self._present = (0.0, 0, 0.0)  # when the present piece began, its updates, and the seconds until it is saved

    def next(self, left: int) -> int:
        """Return how many updates the next piece has, of those that are left of the chunk."""
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
