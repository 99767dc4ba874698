"""Figures of an evolution: its fitness, and learned losses beside published ones."""

import numpy as np
import pytest

from folders import write_evolution, write_run
from shoal.agents.learned_losses import LearnedDrift, LearnedValueLoss
from shoal.training.result import Result
from shoal.viz.chart import Band, Line
from shoal.viz.evolution import fitness_chart, loss_charts, plot_evolution

DRIFT = LearnedDrift(hidden=np.zeros((8, 2), np.float32), output=np.zeros(2, np.float32))
LAYERS = [
    {"kernel": np.zeros((1, 2), np.float32), "bias": np.zeros(2, np.float32)},
    {"kernel": np.zeros((2, 1), np.float32), "bias": np.zeros(1, np.float32)},
]


def test_the_fitness_goes_from_the_worst_to_the_best_candidate_of_each_generation(tmp_path):
    chart = fitness_chart(Result(write_evolution(tmp_path / "evolved")))  # 4 and 15, then 10 and 30
    band, line = chart.marks
    assert isinstance(band, Band) and isinstance(line, Line)
    assert [each.tolist() for each in band[:3]] == [[1, 2], [4, 10], [15, 30]] and line.y.tolist() == [9.5, 20]
    assert "2 candidates per generation, each trained for 4,000 steps" in chart.note


def test_the_figures_are_drawn_into_the_folder_and_only_of_an_evolution(tmp_path):
    folder = write_evolution(tmp_path / "evolved")
    assert plot_evolution(folder) == [folder / "figures" / "fitness.png"]
    assert plot_evolution(write_run(tmp_path / "run", [1, 2])) == []
    with np.load(folder / "curves.npz") as file:
        arrays = {name: file[name][:1] for name in file.files}
    np.savez(folder / "curves.npz", **arrays)
    (folder / "found.json").unlink()
    with pytest.raises(ValueError, match="has no finished generation yet"):
        plot_evolution(folder)


def test_learned_losses_stand_beside_published_ones():
    found = {"rate": 0.1, "surrogate": DRIFT, "value_loss": LearnedValueLoss(LAYERS, form="residual")}
    charts = loss_charts(found)
    assert {*charts} == {"surrogate", "value_loss"}
    drifts = {mark.words: mark for mark in charts["surrogate"].marks if isinstance(mark, Line)}
    assert [*drifts] == [f"{name}, A = {sign}1" for name in ("evolved", "PPO", "DPO") for sign in "+-"]
    # PPO, A = 1: r A - min(r A, clip(r) A) = r - 1.2 for r > 1.2
    np.testing.assert_allclose(drifts["PPO, A = +1"].y[-1], 2.0 - 1.2, atol=1e-5)
    assert drifts["PPO, A = -1"].style == "c1 dashed"
    evolved, squared = (mark for mark in charts["value_loss"].marks if isinstance(mark, Line))
    np.testing.assert_allclose(evolved.y, squared.y, atol=1e-3)  # a network of zeros adds nothing
    np.testing.assert_allclose(squared.y[300], 0, atol=1e-3)  # the slope of error^2 / 2 is the error
