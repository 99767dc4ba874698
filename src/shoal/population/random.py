"""Random search, the baseline for the other selectors: members with sampled hyperparameters; scores are not used."""

from typing import Any

import numpy as np

from shoal.core.env import Key
from shoal.core.registry import selector
from shoal.core.struct import static, struct
from shoal.population.varying import Varying
from shoal.specs.selector import FRESH, Standing, Turnover


@selector("random")
@struct
class RandomSearch(Varying):
    """Random search: every slot trains a member for `every` records, then a new one with newly sampled hyperparameters.

    Scores are not used. If the run has `every` records or fewer, each slot trains one member for the whole run.
    Otherwise set the agent's `horizon` to the steps of one member, because schedules span the whole run by default.
    """

    every: int = static(20, help="records that each member is trained for")

    def select(self, state: Any, standing: Standing, key: Key) -> tuple[Any, Turnover]:
        """Begin a new member in every slot."""
        is_fresh = ~standing.roster.is_idle
        state, values, seeds = self.with_fresh(state, standing.roster, is_fresh, key)
        source = np.where(is_fresh, FRESH, np.arange(len(is_fresh)))
        return state, Turnover(source, values, seeds, (f"random: {is_fresh.sum()} new members begin",))
