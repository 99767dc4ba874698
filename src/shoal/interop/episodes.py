"""Returns and lengths of the episodes of E environments, as the infos of other libraries have them."""

import time

import numpy as np


class Episodes:
    """Sums rewards until an episode ends."""

    def __init__(self, num_envs: int) -> None:
        """Begin an episode in every environment."""
        self._returns, self._lengths = np.zeros(num_envs), np.zeros(num_envs, int)
        self._began = time.perf_counter()

    def begin(self, flags: np.ndarray) -> None:
        """Begin new episodes in the environments with a flag [E]."""
        self._returns[flags], self._lengths[flags] = 0, 0

    def step(self, rewards: np.ndarray, done: np.ndarray) -> dict[int, dict[str, float]]:
        """Add a step: rewards [E], and whether episodes end [E]. Returns the episodes that end, by environment.

        An episode is `{"r": return, "l": length, "t": seconds since the start}`, as Gymnasium and the Monitor of
        Stable-Baselines3 have it.
        """
        self._returns += rewards
        self._lengths += 1
        seconds = round(time.perf_counter() - self._began, 6)
        ended = {
            e: {"r": float(self._returns[e]), "l": int(self._lengths[e]), "t": seconds}
            for e in np.flatnonzero(done).tolist()
        }
        self.begin(done)
        return ended
