"""The simulation that measures the false decisions of races, the real races, and what the pages say of both."""

import importlib.util
import json
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


errors, real = tool("race_errors"), tool("race_real")
ROWS = json.loads(errors.OUT.read_text())["rows"]
COMPARISONS = json.loads(real.COMPARISONS_FILE.read_text())["comparisons"]


def test_the_page_has_the_table_that_was_measured():
    assert errors.table(ROWS) in (ROOT / "docs" / "correctness.md").read_text()
    assert min(row["races"] for row in ROWS) >= 1000


def test_no_more_false_decisions_than_alpha():
    """Of all races without a difference together; single rows vary around 5 %."""
    equal = [row for row in ROWS if row["race"] == "no difference"]
    share = sum(row["false"] for row in equal) / sum(row["races"] for row in equal)
    assert len(equal) >= 11 and share <= errors.ALPHA
    assert all(row["high"] < 0.05 for row in ROWS if row["race"] == "differ by the margin")


def test_a_few_races_give_about_the_measured_error():
    row = errors.measure({"scores": "skewed"}, lambda random: errors.draw("skewed", 2, random), 60, 0.0)
    assert row["false"] <= 9 and row["low"] < 0.05  # P(X > 9) = 0.001 for 60 races at 5 %
    far = errors.measure({"scores": "far"}, lambda random: random.normal([[0], [2]], 1, (2, 64)), 5, 0.0)
    assert far["false"] == far["t-test"] == 5


def test_real_races_decide_as_all_seeds_do_with_fewer_of_them():
    assert all(row["same_bits"] for row in COMPARISONS)
    counted = [row for row in COMPARISONS if row["all"] != "open"][:10]
    assert len(counted) == 10 and [row["race"] for row in counted] == [row["all"] for row in counted]
    assert np.mean([row["seeds"] for row in counted]) < 0.6 * 64
    for row in COMPARISONS:
        a, b = (np.array(scores) for scores in row["scores"])
        assert len(a) == len(b) == 64 and (row["all"] == "open" or ((a - b).sum() > 0) == (row["all"] == "first"))


def test_the_page_of_races_has_the_comparisons(capsys):
    real.print_tables()
    table = capsys.readouterr().out.partition("\n\n")[0]
    assert table in (ROOT / "docs" / "race.md").read_text()
