"""Population-based training: the worst members become copies of the best ones, with other hyperparameters.

Source: Jaderberg et al. 2017, "Population Based Training of Neural Networks", sections 3 and 4.1. Differences: all
members are compared at the same time, after the same number of steps, so there is no "ready" test; a member is never
replaced by one that is not better; on a linear scale a perturbation adds or subtracts a fraction of the range, because
1.25 times a discount near 1 is above 1.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.core.env import Key
from shoal.core.ranges import Range
from shoal.core.registry import selector
from shoal.core.schedules import peak_of
from shoal.core.struct import Number, hyper, static, struct
from shoal.population.replacing import Replacing
from shoal.population.varying import generator
from shoal.specs.selector import Standing


@selector("pbt")
@struct
class PBT(Replacing):
    """Population-based training: replace the worst members by copies of the best, with changed hyperparameters.

    `exploit` and `quantile` say which members are replaced (`Replacing`), and `explore` how hyperparameters change.
    With `perturb`, each hyperparameter of a copy is, with equal chances, multiplied or divided by `factor` if its range
    is on a log scale; on the scale near 1, its distance from 1 is. On a linear scale, `factor - 1` times the width of
    the range is added or subtracted. In a list of values, the next higher or lower value is taken. With `resample` it
    is sampled anew. It always stays in its range.
    """

    explore: str = static("perturb", choices=("perturb", "resample"), help="how hyperparameters of copies change")
    factor: Number = hyper(1.25, valid=(1, 100), help="of perturb: hyperparameters are multiplied or divided by it")

    def explored(
        self, state: Any, standing: Standing, source: np.ndarray, key: Key
    ) -> tuple[Any, Mapping[str, np.ndarray]]:
        """One step up or down from the numbers of the original, or new samples."""
        return state, {
            path: self._changed(np.asarray(peak_of(standing.roster.hyperparameters[path]))[source], span, key, path)
            for path, span in self._spans(standing.roster.hyperparameters).items()
        }

    def _changed(self, values: np.ndarray, span: Range, key: Key, path: str) -> np.ndarray:
        """Return hyperparameters [M] after exploration from `values` [M], inside of their span."""
        random = generator(key, path)
        if self.explore == "resample":
            return np.asarray(span.sample(random, len(values)))
        return span.stepped(values, float(self.factor), random.random(len(values)) < 0.5)
