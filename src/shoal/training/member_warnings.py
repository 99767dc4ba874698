"""Warnings about the members of a run while it trains. Each is given once."""

from collections.abc import Callable

import numpy as np

from shoal.core.agent import Metrics
from shoal.core.env import NAN_STATE
from shoal.rollouts.evaluate import Evaluation
from shoal.specs.roster import Roster
from shoal.training.plan import Plan
from shoal.training.reuse import reuse_warning


class MemberWarnings:
    """The warnings about members that were given, and those that a record gives cause for."""

    def __init__(self, plan: Plan, say: Callable[..., object]) -> None:
        """Begin without a warning. `say` sends a text to the user; with `is_warning=True` also where no progress is."""
        self._plan, self._say = plan, say
        self._stopped: set[int] = set()  # occupants that are no longer trained, and were reported
        self._is_nan_known = self._is_reuse_known = False

    def check(
        self, roster: Roster, metrics: Metrics, alive: np.ndarray, evaluation: Evaluation | None, updates: int
    ) -> None:
        """Warn about members that stopped, returns that are NaN, and first states that are used again.

        `metrics` and `alive` [M] are those of a record of so many updates.
        """
        self._check_stopped(roster, alive)
        self._check_nan(roster, metrics, evaluation)
        self._check_reuse(metrics, updates)

    def _check_stopped(self, roster: Roster, alive: np.ndarray) -> None:
        if self._plan.selector is not None and self._plan.selector.replaces_stopped:
            return
        names = self._plan.names(roster)
        for m in np.flatnonzero(~alive & ~roster.is_idle):
            occupant = int(roster.occupant[m])
            if occupant not in self._stopped:
                self._stopped.add(occupant)
                self._say(
                    f"member {m} ({names[m]}) stopped: its losses or weights are not finite. Its last finite weights "
                    f"are kept; the other members go on.",
                    is_warning=True,
                )

    def _check_nan(self, roster: Roster, metrics: Metrics, evaluation: Evaluation | None) -> None:
        is_nan = (np.asarray(metrics.episodes.count) > 0) & np.isnan(metrics.episodes.return_sum)
        if evaluation is not None:
            is_nan |= np.isnan(evaluation.episode_return).any(axis=1)
        if self._is_nan_known or not (is_nan := is_nan & ~roster.is_idle).any():
            return
        self._is_nan_known, first = True, int(np.argmax(is_nan))
        self._say(
            f"returns of {is_nan.sum()} of {self._plan.members} members are NaN, those of member {first} "
            f"({self._plan.names(roster)[first]}) for example: {NAN_STATE}"
        )

    def _check_reuse(self, metrics: Metrics, updates: int) -> None:
        """Warn if many episodes began in a state of the reset bank that had been used before."""
        rollout, episodes = self._plan.agent.rollout, metrics.episodes
        if self._is_reuse_known or rollout is None:
            return
        if warning := reuse_warning(episodes.count, episodes.resets_reused, updates, rollout, self._plan.env):
            self._is_reuse_known = True
            self._say(warning)
