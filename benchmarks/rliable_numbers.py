"""Print the numbers of rliable 1.2.0 that tests/ops/test_aggregates.py has, for the same scores.

python -m venv .venv-rliable && .venv-rliable/bin/pip install rliable "pandas<3"
.venv-rliable/bin/python benchmarks/rliable_numbers.py
"""

import numpy as np
from rliable import library, metrics

AGGREGATES = [metrics.aggregate_iqm, metrics.aggregate_median, metrics.aggregate_mean, metrics.aggregate_optimality_gap]
x = np.random.RandomState(0).gamma(2.0, 0.4, (8, 3))
y = np.random.RandomState(1).gamma(2.0, 0.3, (8, 3))
np.random.seed(0)
print(library.get_interval_estimates({"x": x}, lambda s: np.array([f(s) for f in AGGREGATES]), reps=20_000))
both = {"x, y": (x, y)}
print(library.get_interval_estimates(both, lambda a, b: np.array([metrics.probability_of_improvement(a, b)])))
print(library.create_performance_profile({"x": x}, np.array([0.25, 0.5, 1.0]), reps=20_000))
