"""Tables of a comparison: rows, bold values, and the three formats."""

import csv
import math

import numpy as np
import pytest

import shoal
from folders import write_run
from shoal.ops.aggregates import Estimate
from shoal.reports.results_table import in_words


@pytest.fixture
def compared(tmp_path):
    """A function: a comparison of agents with these scores in each of some environments."""

    def compare(**scores):
        for agent, of_env in scores.items():
            for env, values in of_env.items():
                write_run(tmp_path / f"{agent}-{env}", values, agent=agent, env=f"my.py:{env}")
        return shoal.compare([tmp_path / f"{agent}-{env}" for agent in scores for env in scores[agent]])

    return compare


ROWS = ["One", "Two", "IQM", "median", "mean", "optimality gap"]


def test_the_best_is_bold_and_what_its_interval_reaches(compared, tmp_path):
    near, far = 10 + np.arange(8.0), 100 + np.arange(8.0)
    found = compared(a={"One": near, "Two": far}, b={"One": near + 1, "Two": near}, c={"One": far, "Two": far + 0.5})
    with open(shoal.comparison_table(found, tmp_path / "t.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(dict.fromkeys(row["row"] for row in rows)) == ROWS
    bold = {name: [row["group"] for row in rows if row["row"] == name and row["bold"] == "1"] for name in ROWS}
    assert bold == {"One": ["c"], "Two": ["a", "c"], **dict.fromkeys(ROWS[2:], ["c"])}  # of the gap the lowest
    assert [float(rows[0][name]) for name in ("value", "low", "high")] == pytest.approx(found.returns(0, 0, "IQM"))


def test_without_intervals_nothing_is_bold(compared, tmp_path):
    found = compared(a={"One": [1.0, 2, 3]}, b={"One": [4.0, 5, 6]})
    text = shoal.comparison_table(found, tmp_path / "t.md", labels=["A", "B"]).read_text()
    assert text == "|  | A | B |\n| --- | --- | --- |\n| One | 2.00 | 5.00 |\n"  # one environment: no aggregates


def test_nothing_is_bold_beside_a_group_of_few_seeds_or_none(compared, tmp_path):
    found = compared(a={"One": [1.0, 2, 3]}, b={"One": np.arange(7.0)})
    assert "**" not in shoal.comparison_table(found, tmp_path / "t.md", labels=["a|b", "B"]).read_text()
    assert (tmp_path / "t.md").read_text().startswith("|  | a\\|b | B |")


def test_formulas_stay_in_latex_and_runs_of_one_name_are_told_apart(tmp_path):
    folders = [
        write_run(tmp_path / part / "ppo", np.arange(8.0), env="my.py:One") or tmp_path / part / "ppo" for part in "xy"
    ]
    found = shoal.compare(*folders)
    head = shoal.comparison_table(found, tmp_path / "t.tex", labels=[r"$\alpha_1$", "a_1"]).read_text().splitlines()[3]
    assert head == r" & $\alpha_1$ & a\_1 \\"
    assert "x/ppo | y/ppo" in shoal.comparison_table(found, tmp_path / "t.md").read_text()


def test_latex_is_escaped_and_has_rules(compared, tmp_path):
    found = compared(a={"a_1": -np.arange(8.0), "b&c": np.zeros(8)}, b={"a_1": np.ones(8), "b&c": np.ones(8)})
    lines = shoal.comparison_table(found, tmp_path / "t.tex", labels=["50 %", "x^2"]).read_text().splitlines()
    assert lines[1:4] == [r"\begin{tabular}{lcc}", r"\toprule", r" & 50 \% & x\textasciicircum{}2 \\"]
    assert [i for i, line in enumerate(lines) if line == r"\midrule"] == [4, 7]
    assert lines[5].startswith(r"a\_1 & $-$3.50 ($-$") and lines[5].endswith(r"\textbf{1.00 (1.00 to 1.00)} \\")
    assert lines[6].startswith(r"b\&c & ") and lines[-2:] == [r"\bottomrule", r"\end{tabular}"]


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0.7642, 0.688, 0.8431), "0.764 (0.688 to 0.843)"),
        ((-171.81, -206.2, -142.9), "-172 (-206 to -143)"),
        ((12.34, 9.87, 15.0), "12.3 (9.9 to 15.0)"),
        ((0.0, 0.0, 0.0), "0.00 (0.00 to 0.00)"),
        ((12345.6, math.nan, math.nan), "12346"),
        ((0.00012, 0.0001, 0.0002), "0.000120 (0.000100 to 0.000200)"),
    ],
)
def test_values_have_the_decimals_that_the_largest_needs(numbers, words):
    assert in_words(Estimate(*numbers)) == words


def test_another_format_is_refused(compared, tmp_path):
    found = compared(a={"One": [1.0]}, b={"One": [2.0]})
    with pytest.raises(ValueError, match=r"'t.xls' has no known format: end it in .tex, .md, .csv"):
        shoal.comparison_table(found, tmp_path / "t.xls")
