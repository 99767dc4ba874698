"""The report of one run: its title, the kind of run, and the key figures."""

import jax
import pytest

import shoal
from folders import write_evolution, write_population, write_run
from pages import Page
from shoal.reports.facts import Facts
from shoal.reports.run import _short, kind_of


@pytest.mark.parametrize(
    ("write", "kind"),
    [(write_population, "a population with pbt"), (write_evolution, "an evolution")],
)
def test_the_kind_of_a_run_is_said(write, kind, tmp_path):
    assert kind_of(Facts(write(tmp_path / "run"))) == kind
    assert kind_of(Facts("zoo:ppo/CartPole-v1")) == "an exported policy"


def test_key_figures_say_what_they_count(tmp_path):
    page = Page(shoal.report(write_run(tmp_path / "grid", [[1] * 8, [*range(8)]], sweep={"clip": [0.1, 0.2]})))
    assert "IQM of the return of the best setting" in page.text and "2 settings x 8 seeds" in page.text
    assert "12,345 steps per second" in page.text
    half = Page(shoal.report(write_run(tmp_path / "half", [1.0, 3.0], steps=60_000, summary=False)))
    assert "of 60,000 that each member should get" in half.text and "not finished" in half.text


def test_large_counts_have_few_digits():
    assert [*map(_short, (500_224, 40_000_000, 2_500_000_000))] == ["500,224", "40 million", "2.5 billion"]


def test_the_layers_of_the_network_are_listed(tmp_path):
    page, policy = (
        Page(shoal.report("zoo:ppo/CartPole-v1", out=tmp_path / "zoo.html")),
        shoal.load("zoo:ppo/CartPole-v1"),
    )
    total = sum(x.size for x in jax.tree.leaves(policy.weights))
    assert f"Network: {total:,} numbers in each member's policy" in page.text
    (layers,) = [table for table in page.tables if table[0] == ["layer", "arrays", "numbers"]]
    assert ["actor/Dense_0", "bias 64, kernel 4 x 64", "320"] in layers
    assert sum(int(row[2].replace(",", "")) for row in layers[1:]) == total
    assert "Network:" not in Page(shoal.report(write_run(tmp_path / "none", [1.0]))).text
