"""Measure how often the intervals of `shoal compare` contain the true value, by simulation.

    python benchmarks/interval_coverage.py [--simulations N] [--out FILE] [--table]

Scores of two learners in one environment and in five with different means: normal, skewed (log-normal) or bimodal
(30 % of the seeds fail). Seeds are shared, with a correlation of 0.5 of what is transformed. The true values come from
400,000 seeds. Fewer than six seeds are measured too, to show why the library has no interval of them. Writes
benchmarks/results/interval-coverage.json, and prints the table of docs/correctness.md; --table only prints it.
"""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np

from shoal.ops import aggregates
from shoal.ops.aggregates import AGGREGATES, paired_difference, performance_profile, probability_of_improvement

OUT = Path(__file__).parent / "results" / "interval-coverage.json"
SEEDS = (2, 3, 4, 5, 6, 8, 10, 16, 32, 64)
MEANS = {1: np.array([0.5]), 5: np.array([0.1, 0.3, 0.5, 0.7, 0.9])}  # of the first learner, by number of environments
BETTER = 0.1  # the second one's mean minus that
THRESHOLD = np.array([0.5])  # of the performance profile
TRUE_SEEDS = 400_000
SHAPES = {
    "normal": lambda z, small: 0.3 * z,
    "skewed": lambda z, small: 0.25 * (np.exp(z) - np.exp(0.5)),
    "bimodal": lambda z, small: np.where(z > -0.5244, 0.3, -0.7) + 0.05 * small,
}


def draw(shape, means, random, seeds):
    """Scores of both learners: two lists with an array [seeds] for each environment."""
    shared, own, small = random.standard_normal((3, 2, len(means), seeds))
    z = np.sqrt(0.5) * (shared[:1] + own)
    scores = SHAPES[shape](z, small) + means[:, None] + np.array([0, BETTER])[:, None, None]
    return [*scores[0]], [*scores[1]]


def true_values(shape, means):
    """The value of every statistic for a very large number of seeds."""
    random = np.random.default_rng(0)
    first, second = draw(shape, means, random, TRUE_SEEDS)
    ones = [np.ones((1, TRUE_SEEDS))] * len(means)
    values = {name: float(statistic(first, ones)[0]) for name, statistic in AGGREGATES.items()}
    values["profile"] = float(np.mean([(scores > THRESHOLD).mean() for scores in first]))
    others = [random.permutation(scores) for scores in second]  # pairs of different seeds
    values["improvement"] = float(np.mean([(a > b).mean() for a, b in zip(first, others, strict=True)]))
    return values | {"difference": -BETTER}


def intervals(first, second, counts):
    """The interval (low, high) of every statistic."""
    found = {name: aggregates.estimate(statistic, first, counts) for name, statistic in AGGREGATES.items()}
    found["profile"] = [float(x[0]) for x in performance_profile(first, THRESHOLD)]
    found["improvement"] = probability_of_improvement(first, second, paired=True)
    found["difference"] = paired_difference(first, second)
    return {name: tuple(values)[1:] for name, values in found.items()}


def measure(shape, means, truth, seeds, simulations):
    """The share of simulations in which each interval contains the true value."""
    random = np.random.default_rng([seeds, *map(ord, shape)])
    counts = aggregates.resample([seeds] * len(means))
    covered = dict.fromkeys(truth, 0)
    for _ in range(simulations):
        for name, (low, high) in intervals(*draw(shape, means, random, seeds), counts).items():
            covered[name] += bool(low - 1e-9 <= truth[name] <= high + 1e-9)
    row = {"environments": len(means), "shape": shape, "seeds": seeds}
    print(row, covered, flush=True)
    return row | {name: count / simulations for name, count in covered.items()}


def table(rows):
    """The table of docs/correctness.md: percent, a row for each shape and number of seeds."""
    about = ["environments", "shape", "seeds"]
    names = [name for name in rows[0] if name not in about]
    lines = [["environments", "scores", "seeds", *names], ["---"] * (len(names) + 3)]
    lines += [[*(str(row[n]) for n in about), *(f"{100 * row[name]:.0f}" for name in names)] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if not args.table:
        aggregates.FEWEST = 2  # to measure what the library does not show
        found = []
        for shape, means in itertools.product(SHAPES, MEANS.values()):
            truth = true_values(shape, means)
            found += [measure(shape, means, truth, seeds, args.simulations) for seeds in SEEDS]
        args.out.write_text(json.dumps({"simulations": args.simulations, "rows": found}, indent=1) + "\n")
    print(table(json.loads(args.out.read_text())["rows"]), end="")
