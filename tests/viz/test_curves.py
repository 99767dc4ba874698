"""Figures: their texts (read from SVG) and drawn lines, and the arguments they refuse."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from shoal.viz import heatmap, paint, panels, style
from shoal.viz.curves import learning_curves, plot_figures, plot_run, plot_runs
from shoal.viz.heatmap import plot_sweep, sweep_heatmap
from shoal.viz.run_data import Curve


def write_run(folder, sweep=None, seeds=4, records=6, points=None, finished=True, **spec_changes):
    """A run folder: member m of setting s returns 100 s + 10 t + m in training, ten times that when evaluated.

    `value_loss` is 1 + 0.1 m in every record.
    """
    settings = int(np.prod([len(values) for values in (sweep or {}).values()], dtype=int))
    settings *= len(next(iter(points.values()))) if points else 1
    member = np.arange(settings * seeds)
    time = np.arange(records)[:, None]
    train = 100.0 * (member // seeds) + 10.0 * time + member % seeds
    evaluated = np.where(time % 3 == 2, 10 * train, np.nan)
    folder.mkdir(parents=True)
    columns = {"train_return": train, "eval_return": evaluated, "value_loss": 1 + 0.1 * member + 0 * train}
    np.savez(folder / "curves.npz", env_steps=1000 * (time[:, 0] + 1), wall_seconds=0.5 * time[:, 0], **columns)
    spec = {"agent": "ppo", "env": "CartPole-v1", "sweep": sweep or {}, "env_sweep": {}, "seeds": seeds}
    spec |= {"steps": 1000 * records, **spec_changes} | ({"points": points} if points else {})
    (folder / "spec.json").write_text(json.dumps(spec))
    if finished:
        (folder / "summary.json").write_text("{}")
    return folder


def change_curves(folder, **changes):
    """Apply a function to arrays of `curves.npz`, in place."""
    with np.load(folder / "curves.npz") as file:
        arrays = {name: file[name] for name in file.files}
    for name, change in changes.items():
        arrays[name] = arrays.get(name, np.ones(arrays["train_return"].shape, bool))
        change(arrays[name])
    np.savez(folder / "curves.npz", **arrays)


def test_runs_in_several_environments_have_a_panel_each(tmp_path, monkeypatch):
    figures = []
    save = panels.save_figure
    monkeypatch.setattr(panels, "save_figure", lambda figure, out: (figures.append(figure), save(figure, out))[1])
    envs = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1"]
    runs = itertools.product(envs, ("ppo", "dqn"))
    folders = [write_run(tmp_path / f"{agent}-{env}", agent=agent, env=env) for env, agent in runs]
    plot_runs(folders[:-1], tmp_path / "all.svg", target=20)  # dqn has no run in the last one
    axes = [each for each in figures[-1].axes if each.get_visible()]
    assert [each.get_title(loc="left") for each in axes] == [
        "CartPole-v1",
        "Acrobot-v1",
        "MountainCar-v0",
        "Pendulum-v1",
    ]
    lines = [[line.get_label() for line in each.get_lines() if not line.get_label().startswith("_")] for each in axes]
    assert lines == [["ppo", "dqn"]] * 3 + [["ppo"]]
    colors = [{line.get_label(): line.get_color() for line in each.get_lines()} for each in axes]
    assert colors[0]["ppo"] == colors[3]["ppo"] != colors[0]["dqn"] == colors[2]["dqn"]
    twice = write_run(tmp_path / "again", agent="ppo", env="Acrobot-v1")
    text = plot_runs([*folders[:4], twice], tmp_path / "names.svg").read_text()
    assert ">again<" in text and ">ppo-Acrobot-v1<" in text  # an agent would name two curves


@pytest.fixture
def drawn(monkeypatch):
    """The axes of the last figure drawn."""
    figures = []
    save = style.save_figure
    for module in (paint, heatmap):
        monkeypatch.setattr(module, "save_figure", lambda figure, out: (figures.append(figure), save(figure, out))[1])
    return lambda: figures[-1].axes[0]


def test_every_setting_that_was_listed_or_drawn_has_a_curve(tmp_path, drawn):
    points = {"learning_rate": [1e-3, 2.5e-4], "env.gravity": [5.0, 9.8]}
    plot_run(write_run(tmp_path / "run", sweep={"clip": [0.1, 0.2]}, points=points, seeds=2))
    first, *_, last = [line for line in drawn().get_lines() if not line.get_label().startswith("_")]
    assert first.get_label() == "clip 0.1, learning_rate 0.001, env.gravity 5"
    assert last.get_label() == "clip 0.2, learning_rate 0.00025, env.gravity 9.8"
    np.testing.assert_allclose(first.get_ydata(), 10 * np.arange(6) + 0.5)
    np.testing.assert_allclose(last.get_ydata(), 300 + 10 * np.arange(6) + 0.5)
    with pytest.raises(ValueError, match=r"not a grid \(learning_rate, env.gravity\); a heatmap needs a grid"):
        plot_sweep(tmp_path / "run", by=["learning_rate", "env.gravity"])


def test_a_run_is_drawn_into_its_folder(tmp_path):
    path = plot_run(write_run(tmp_path / "run"))
    assert path == tmp_path / "run" / "figures" / "learning_curves.png"
    with Image.open(path) as picture:
        assert min(picture.size) >= 500
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 50


def test_the_line_is_the_interquartile_mean_over_steps_or_time(tmp_path, drawn):
    folder = write_run(tmp_path / "run")
    plot_run(folder)
    line, rings = drawn().lines
    np.testing.assert_allclose(line.get_xdata(), [1000, 2000, 3000, 4000, 5000, 6000])
    np.testing.assert_allclose(line.get_ydata(), 10 * np.arange(6) + 1.5)  # of members 0 1 2 3 the middle is 1 2
    np.testing.assert_allclose(rings.get_xdata(), [3000, 6000])
    np.testing.assert_allclose(rings.get_ydata(), [215, 515])
    assert (drawn().get_xlabel(), drawn().get_ylabel()) == ("environment steps of each member", "episode return")
    plot_run(folder, x="wall")
    np.testing.assert_allclose(drawn().lines[0].get_xdata(), [0, 0.5, 1, 1.5, 2, 2.5])
    assert drawn().get_xlabel() == "seconds since the start, compilation included"


def test_a_run_without_training_episodes_shows_its_evaluations(tmp_path, drawn):
    folder = write_run(tmp_path / "run")
    change_curves(folder, train_return=lambda value: value.fill(np.nan))
    text = plot_run(folder, tmp_path / "out.svg").read_text()
    np.testing.assert_allclose(drawn().lines[0].get_ydata(), [215, 515])
    assert "line: evaluation, IQM of 4 seeds" in text


def test_each_setting_of_a_sweep_has_its_line(tmp_path, drawn):
    text = plot_run(write_run(tmp_path / "run", {"learning_rate": [1e-3, 3e-4]}), tmp_path / "out.svg").read_text()
    first, second, *_ = drawn().lines
    np.testing.assert_allclose(first.get_ydata()[0], 1.5)
    np.testing.assert_allclose(second.get_ydata()[0], 101.5)
    for words in ("learning_rate 0.001", "learning_rate 0.0003", "ppo on CartPole-v1", "IQM of 4 seeds"):
        assert words in text


def test_only_the_best_of_many_settings_are_drawn_and_the_figure_says_so(tmp_path, drawn):
    text = plot_run(write_run(tmp_path / "run", {"gamma": list(range(9))}), tmp_path / "out.svg").read_text()
    assert "best 8 of 9" in text
    assert [line.get_label() for line in drawn().lines] == [f"gamma {i}" for i in range(1, 9)]  # setting 0 ends lowest


def test_runs_are_distinguished_by_name_and_share_a_target(tmp_path):
    folders = [write_run(tmp_path / "small"), write_run(tmp_path / "large", seeds=9)]
    text = plot_runs(folders, tmp_path / "both.svg", target=475).read_text()
    for words in ("small", "large", "IQM of 4 to 9 seeds", "target 475"):
        assert words in text


@pytest.mark.parametrize("by", ["", "learning_rate"])
@pytest.mark.parametrize("factor", [1, -1])
def test_the_axes_show_all_rings_and_bars(by, factor, tmp_path, drawn):
    folder = write_run(tmp_path / "run", {"learning_rate": [1e-3]}, seeds=8)  # evaluations: ten times training returns
    change_curves(folder, eval_return=lambda value: np.multiply(value, factor, out=value))
    plot_run(folder, tmp_path / "out.png", by=by)
    low, high = drawn().get_ylim()
    bars = [
        bar.vertices[:, 1] for bars in drawn().collections if len(bars.get_paths()) == 2 for bar in bars.get_paths()
    ]
    ends = np.concatenate([drawn().lines[1].get_ydata(), *bars])
    assert np.ptp(ends) > 300 and low < ends.min() and ends.max() < high


def test_missing_records_and_stopped_members_are_left_out(tmp_path, drawn):
    y = np.array([[np.nan, np.nan], [1.0, 3.0], [2.0, np.nan]])
    path = learning_curves([Curve("run", np.array([10, 20, 30]), y)], tmp_path / "out.pdf")
    np.testing.assert_allclose(drawn().lines[0].get_xdata(), [20, 30])
    np.testing.assert_allclose(drawn().lines[0].get_ydata(), [2.0, 2.0])
    assert path.read_bytes().startswith(b"%PDF")


def test_a_sweep_over_two_hyperparameters_is_a_heatmap(tmp_path, drawn):
    folder = write_run(tmp_path / "run", {"learning_rate": [1e-3, 3e-4, 1e-4], "gae_lambda": [0.9, 0.95]})
    assert plot_sweep(folder).name == "sweep.png"
    cells = {tuple(map(int, text.get_position())): text.get_text() for text in drawn().texts[:6]}
    # (column, row): rows ascend, so setting = 2 (2 - row) + column; the last evaluation is ten times 100 setting + 51.5
    assert cells == {(c, r): f"{1000 * (2 * (2 - r) + c) + 515:,}" for c in range(2) for r in range(3)}
    assert [label.get_text() for label in drawn().get_yticklabels()] == ["0.0001", "0.0003", "0.001"]


def test_a_heatmap_pools_other_hyperparameters_and_marks_cells_without_a_value(tmp_path, drawn):
    folder = write_run(tmp_path / "run", {"clip": [0.1, 0.2], "gamma": [0.9, 0.99], "learning_rate": [1, 2]}, seeds=1)
    change_curves(folder, eval_return=lambda value: value.__setitem__((slice(None), slice(0, 2)), np.nan))
    plot_sweep(folder, tmp_path / "out.svg", by=["clip", "gamma"])
    assert "IQM of 2 members, pooled over learning_rate" in drawn().get_title(loc="left").replace("\n", " ")
    cells = {tuple(map(int, t.get_position())): (t.get_text(), t.get_color()) for t in drawn().texts}
    # members 2 and 3 (clip 0.1, gamma 0.99) end at 10 (200 + 50) and 10 (300 + 50)
    assert cells[1, 0][0] == "3,000" and cells[0, 0] == ("none", style.INK)
    assert [cells[1, 0][1], cells[1, 1][1]] == ["white", style.INK]  # viridis: low values are dark, high ones bright


def test_importing_this_module_does_not_import_matplotlib():
    program = "import sys, shoal.viz.curves; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_drawing_does_not_import_pyplot(tmp_path):
    folder = write_run(tmp_path / "run")
    program = f"import sys; from shoal.viz.curves import *; plot_run({str(folder)!r}); "
    program += "sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_invalid_figures_are_refused(tmp_path):
    run = write_run(tmp_path / "run")
    with pytest.raises(ValueError, match=r"end it in .png, .svg or .pdf"):
        plot_run(run, tmp_path / "out.jpeg")
    with pytest.raises(ValueError, match="Choose 'steps' or 'wall'"):
        plot_run(run, x="hours")
    with pytest.raises(ValueError, match=r"sweeps 0 hyperparameters \(none\)"):
        plot_sweep(run)
    with pytest.raises(ValueError, match=r"shape \[1, 2\] for 2 values of a and 1 of b"):
        sweep_heatmap({"a": [1, 2]}, {"b": [1]}, np.zeros((1, 2)), tmp_path / "out.png")
    with pytest.raises(ValueError, match="no run to plot"):
        plot_runs([], tmp_path / "out.png")
    with pytest.raises(ValueError, match="no episode has ended"):
        learning_curves([Curve("", np.arange(2), np.full((2, 3), np.nan))], tmp_path / "out.png")


def test_any_metric_is_drawn_and_the_error_of_an_unknown_one_lists_all_names(tmp_path, drawn):
    folder = write_run(tmp_path / "run")
    assert plot_run(folder, metric="value_loss", log=True).name == "value_loss.png"
    (line,) = drawn().lines
    np.testing.assert_allclose(line.get_ydata(), 1.15)  # of 1.0, 1.1, 1.2, 1.3 the middle two
    assert (drawn().get_ylabel(), drawn().get_yscale()) == ("value_loss", "log")
    plot_run(folder, metric="eval_return")
    np.testing.assert_allclose(drawn().lines[0].get_ydata(), [215, 515])
    plot_runs([folder, folder], tmp_path / "two.png", metric="value_loss")
    assert len(drawn().lines) == 2
    known = "Its metrics are: eval_return, train_return, value_loss"
    with pytest.raises(ValueError, match=f"no metric 'valueloss'. Did you mean value_loss. {known}"):
        plot_run(folder, metric="valueloss")
    change_curves(folder, value_loss=lambda value: value.fill(0))
    with pytest.raises(ValueError, match="logarithmic axis shows positive values only; the lowest value is 0"):
        plot_run(folder, metric="value_loss", log=True)


def test_of_many_settings_those_with_the_best_returns_are_drawn_for_any_metric(tmp_path, drawn):
    folder = write_run(tmp_path / "run", {"gamma": list(range(9))}, seeds=1)
    change_curves(folder, value_loss=lambda value: value.__imul__(-1))  # setting 0 would be the highest
    plot_run(folder, metric="value_loss")
    assert [line.get_label() for line in drawn().lines] == [f"gamma {i}" for i in range(1, 9)]


def test_of_several_runs_with_many_settings_each_keeps_its_best(tmp_path, drawn):
    low = write_run(tmp_path / "low", {"gamma": [0.8, 0.9]}, seeds=1)
    high = write_run(tmp_path / "high", {"gamma": list(range(9))}, seeds=1)
    plot_runs([low, high], tmp_path / "out.png")
    labels = [line.get_label() for line in drawn().lines]
    assert labels == ["low, gamma 0.9", *[f"high, gamma {i}" for i in range(2, 9)]]


def test_a_grid_has_a_figure_for_each_hyperparameter_and_a_heatmap(tmp_path, drawn):
    folder = write_run(tmp_path / "run", {"learning_rate": [2, 1], "gamma": [0.9, 0.99]}, seeds=2)
    names = [path.name for path in plot_figures(folder)]
    assert names == ["learning_curves.png", "by-learning_rate.png", "by-gamma.png", "sweep.png"]
    text = plot_run(folder, tmp_path / "by.svg", by="learning-rate").read_text()
    assert "by learning_rate (pooled over gamma)" in text and "IQM of 4 members" in text
    low, high = [line for line in drawn().lines if not line.get_label().startswith("_")]
    assert [low.get_label(), high.get_label()] == ["learning_rate 1", "learning_rate 2"]
    # learning_rate 1 is in settings 2 and 3: returns 200, 201, 300, 301 at the start, whose middle is 201 and 300
    np.testing.assert_allclose([low.get_ydata()[0], high.get_ydata()[0]], [250.5, 50.5])
    with pytest.raises(ValueError, match="'gama' does not vary in .* Did you mean gamma"):
        plot_run(folder, by="gama")


def test_a_run_of_one_sweep_of_listed_settings_or_with_a_selector_has_one_figure(tmp_path):
    one = write_run(tmp_path / "one", {"gamma": [0.9, 0.99]}, seeds=1)
    listed = write_run(tmp_path / "listed", points={"gamma": [0.9, 0.99], "clip": [1, 2]}, seeds=1)
    grid = {"gamma": [0.9, 0.99], "clip": [1, 2]}
    copying = write_run(tmp_path / "copying", grid, seeds=1, selector={"class": "copy.py:Copy", "fields": {}})
    assert [len(plot_figures(folder)) for folder in (one, listed, copying)] == [1, 1, 1]


def test_a_figure_names_unfinished_runs_and_different_environments(tmp_path):
    whole = write_run(tmp_path / "whole", env_fields={"gravity": 9.8})
    half = write_run(tmp_path / "half", steps=15_000, finished=False, env_fields={"gravity": 5.0})
    other = write_run(tmp_path / "other", env="Acrobot-v1")
    assert "ppo on CartPole-v1 (unfinished: 40 % of its steps)" in plot_run(half, tmp_path / "half.svg").read_text()
    assert "unfinished" not in plot_run(whole, tmp_path / "whole.svg").read_text()
    text = plot_runs([whole, half, other], tmp_path / "all.svg").read_text()
    assert "ppo on several environments" in text and text.count(">ppo<") == 1  # in the legend
    assert all(f">{name}<" in text for name in ("CartPole-v1 gravity=9.8", "CartPole-v1 gravity=5.0", "Acrobot-v1"))
    assert ">ppo (unfinished: 40 % of its steps)<" in text
    evolution = {"class": "shoal.population.evolve:Evolve", "fields": {"generations": 4, "segments": 2}}
    evolved = write_run(tmp_path / "evolved", steps=15_000, finished=False, selector=evolution)
    assert "unfinished: 20 % of its steps" in plot_run(evolved, tmp_path / "evolved.svg").read_text()


def test_stopped_members_and_settings_without_a_value_are_counted_in_the_figure(tmp_path, drawn):
    folder = write_run(tmp_path / "run", {"gamma": [0.9, 0.99]}, seeds=2)
    change_curves(folder, alive=lambda value: value.__setitem__((slice(3, None), 2), False))
    text = plot_run(folder, tmp_path / "a.svg").read_text()
    assert "gamma 0.99 (1 of 2 seeds stopped: NaN or infinity)" in text and ">gamma 0.9<" in text
    change_curves(folder, train_return=lambda value: value.__setitem__((slice(None), slice(2, 4)), np.nan))
    assert "1 without any value" in plot_run(folder, tmp_path / "b.svg").read_text()


def test_runs_of_the_same_name_are_distinguished_by_their_parent_folders(tmp_path, drawn):
    plot_runs([write_run(tmp_path / "a" / "ppo"), write_run(tmp_path / "b" / "ppo")], tmp_path / "out.png")
    assert [line.get_label() for line in drawn().lines if not line.get_label().startswith("_")] == ["a/ppo", "b/ppo"]


def test_a_folder_without_curves_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a run folder: it has no spec.json"):
        plot_run(tmp_path)
    run = write_run(tmp_path / "run")
    (run / "curves.npz").write_bytes((run / "curves.npz").read_bytes()[:300])
    with pytest.raises(ValueError, match=r"curves.npz is damaged"):
        plot_run(run)
    (run / "curves.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no curves.npz"):
        plot_run(run)
