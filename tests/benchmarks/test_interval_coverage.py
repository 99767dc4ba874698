"""The simulation that measures how often intervals contain the true value."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
path = ROOT / "benchmarks" / "interval_coverage.py"
spec = importlib.util.spec_from_file_location("interval_coverage", path)
coverage = importlib.util.module_from_spec(spec)
spec.loader.exec_module(coverage)
MEASURED = json.loads(coverage.OUT.read_text())


def test_the_page_has_the_table_that_was_measured():
    assert coverage.table(MEASURED["rows"]) in (ROOT / "docs" / "correctness.md").read_text()
    shapes = {(row["environments"], row["shape"], row["seeds"]) for row in MEASURED["rows"]}
    assert shapes == {(e, shape, seeds) for e in (1, 5) for shape in coverage.SHAPES for seeds in coverage.SEEDS}


def test_what_the_page_says_of_the_table():
    names = [*coverage.AGGREGATES, "profile", "improvement", "difference"]
    few = [
        row[name] for row in MEASURED["rows"] if row["environments"] == 1 and 6 <= row["seeds"] <= 10 for name in names
    ]
    assert min(few) >= 0.735 and max(few) < 0.935
    five = next(r for r in MEASURED["rows"] if (r["environments"], r["shape"], r["seeds"]) == (5, "skewed", 8))
    assert round(five["mean"], 2) == 0.87  # the lowest of the rows with eight seeds
    skewed = next(r for r in MEASURED["rows"] if (r["environments"], r["shape"], r["seeds"]) == (1, "skewed", 16))
    assert (round(skewed["IQM"], 2), round(skewed["mean"], 2)) == (0.93, 0.84)
    enough = [row[name] for row in MEASURED["rows"] if row["seeds"] >= 32 for name in names]
    assert min(enough) >= 0.88


def test_true_values_are_those_of_the_distributions():
    found = coverage.true_values("normal", np.array([0.5]))
    assert found["IQM"] == pytest.approx(0.5, abs=0.003) and found["mean"] == pytest.approx(0.5, abs=0.003)
    # A and B differ by 0.1, both have a standard deviation of 0.3: P = Phi(-0.1 / (0.3 sqrt 2)) = 0.4068.
    assert found["improvement"] == pytest.approx(0.4068, abs=0.003) and found["profile"] == pytest.approx(
        0.5, abs=0.003
    )


def test_a_few_simulations_give_about_the_measured_coverage(monkeypatch):
    row = next(row for row in MEASURED["rows"] if (row["environments"], row["shape"], row["seeds"]) == (5, "skewed", 8))
    monkeypatch.setattr(coverage, "TRUE_SEEDS", 20_000)
    means = coverage.MEANS[5]
    found = coverage.measure("skewed", means, coverage.true_values("skewed", means), 8, 40)
    assert all(abs(found[name] - row[name]) < 0.17 for name in ("IQM", "mean", "difference"))  # 4 standard errors
