"""Random search: the baseline of the other selectors. New members begin with new samples, whatever the scores are."""

from typing import Any

import numpy as np

from shoal.core.env import Key
from shoal.core.registry import selector
from shoal.core.struct import static, struct
from shoal.population.varying import Varying
from shoal.training.selector import FRESH, Standing, Turnover


@selector("random")
@struct
class RandomSearch(Varying):
    """Random search: every slot trains a member for `every` records, then a new one with newly sampled hyperparameters.

    With `every` of at least the number of records each slot trains one member for the whole run. Scores decide nothing.
    A schedule spans the whole run unless `horizon` is set, so set it to the steps of one member where `every` is less.
    """

    every: int = static(20, help="records that each member is trained for")

    def select(self, state: Any, standing: Standing, key: Key) -> tuple[Any, Turnover]:
        """Begin a new member in every slot."""
        is_fresh = ~standing.roster.is_idle
        state, values, seeds = self.with_fresh(state, standing.roster, is_fresh, key)
        source = np.where(is_fresh, FRESH, np.arange(len(is_fresh)))
        return state, Turnover(source, values, seeds, (f"random: {is_fresh.sum()} new members begin",))
