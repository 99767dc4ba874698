"""Figures of runs with selectors: which are drawn, and what they show."""

import numpy as np
import pytest

import shoal
from shoal.viz import lives as figures
from shoal.viz import paint
from shoal.viz.curves import plot_figures
from tiny import SILENT

SMALL = {"fields": {"num_steps": 32}, "steps": 192, "seeds": 6, "records": 6, "evaluations": 6}
SMALL |= {"eval_episodes": 1, "eval_max_steps": 5}
VARY = {"learning_rate": (0.01, 1.0, "log"), "env.step_reward": (-2.0, -0.5)}


@pytest.fixture(scope="module")
def pbt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pbt") / "run"
    return shoal.train("q-learning", "CliffWalking-v1", selector=shoal.PBT(vary=VARY), folder=folder, **SMALL, **SILENT)


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are saved, by the name of their file."""
    found = {}
    for module in (paint, figures):
        monkeypatch.setattr(module, "save_figure", lambda figure, out: found.update({out.name: figure}) or out)
    return found


def test_a_run_with_pbt_gets_lineage_and_hyperparameters(pbt):
    names = [path.name for path in plot_figures(pbt.folder)]
    assert names == ["learning_curves.png", "lineage.png", "hyperparameters.png"]
    assert all((pbt.folder / "figures" / name).stat().st_size > 5_000 for name in names)


def test_a_lineage_has_a_piece_for_every_record_and_a_line_for_every_copy(pbt, drawn):
    figures.plot_lineage(pbt.folder)
    axes = drawn["lineage.png"].axes[0]
    copied, members, _ = (part.get_segments() for part in axes.collections)
    assert len(members) == pbt.curves["occupant"].size
    copies = [life for life in pbt.lives.values() if life.parent >= 0]
    ends = {tuple(segment[:, 1]) for segment in copied}
    assert copies and ends == {(pbt.lives[life.parent].slot, life.slot) for life in copies}


def test_every_hyperparameter_has_a_panel_and_logarithmic_ones_an_axis(pbt, drawn):
    figures.plot_hyperparameters(pbt.folder)
    panels = drawn["hyperparameters.png"].axes[:2]
    assert [axes.get_title("left") for axes in panels] == ["learning_rate", "env.step_reward"]
    assert [axes.get_yscale() for axes in panels] == ["log", "linear"]
    segments = [segment for part in panels[1].collections for segment in part.get_segments()]
    drawn_values = np.concatenate(segments)[:, 1]
    assert set(np.unique(drawn_values)) == set(np.unique(pbt.curves["env.step_reward"].astype(float)))


def test_halving_marks_every_member_that_is_dropped(tmp_path, drawn):
    selector = shoal.Halving(vary=VARY, eta=2)
    run = shoal.train("q-learning", "CliffWalking-v1", selector=selector, folder=tmp_path / "run", **SMALL, **SILENT)
    figures.plot_lives(run.folder)
    assert [*drawn] == ["hyperparameters.png", "rungs.png"]  # nobody was copied
    (crosses,) = [line for line in drawn["rungs.png"].axes[0].lines if line.get_marker() == "x"]
    assert sorted(map(int, crosses.get_xdata())) == [32, 32, 32, 64, 64]  # 6 -> 3 -> 1


def test_a_run_without_a_selector_has_no_such_figures(result):
    assert figures.plot_lives(result.folder) == []
