"""Figures of a study: Optuna's, as PNG and on one page without a network, and the slots over time."""

import warnings

import matplotlib
import numpy as np
import optuna
import pytest
from matplotlib.figure import Figure
from optuna.distributions import FloatDistribution
from optuna.trial import create_trial
from PIL import Image

from shoal.viz import study as module
from shoal.viz.paint import set_ticks
from shoal.viz.scale import scale_for
from shoal.viz.slots import _bars, plot_slots
from shoal.viz.study import draw_study

RANGE = FloatDistribution(0.0, 1.0)


def study_of(params, trials=6, objectives=1):
    """Trials at fixed places; the score is highest at 0.5 of the first parameter."""
    study = optuna.create_study(directions=["maximize"] * objectives, study_name="<mine>")
    for i in range(trials):
        point = {name: (0.13 + 0.61 * (k + 1) * i) % 1.0 for k, name in enumerate(params)}
        score = 1 - abs(point[params[0]] - 0.5)
        study.add_trial(
            create_trial(
                params=point,
                distributions=dict.fromkeys(params, RANGE),
                values=[score, -score, score][:objectives],
                intermediate_values={0: score / 2, 1: score} if objectives == 1 else {},
            )
        )
    return study


def is_drawn(path):
    with Image.open(path) as picture:
        return min(picture.size) > 300 and np.asarray(picture.convert("L")).std() > 5


def test_all_figures_are_drawn_and_the_page_needs_no_network(tmp_path):
    before = {name: matplotlib.rcParams[name] for name in ("axes.facecolor", "font.size", "axes.grid")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = draw_study(study_of(["a", "b"]), tmp_path)
    names = ["history", "importances", "slice", "contour", "parallel", "intermediate"]
    assert [path.name for path in drawn.files] == [*(f"{name}.png" for name in names), "study.html"]
    assert not drawn.left_out and all(is_drawn(path) for path in drawn.files[:-1])
    page = drawn.files[-1].read_text()
    assert page.count('class="plotly-graph-div"') == 6 and "<script src=" not in page and "<link" not in page
    assert page.count("plotly.js v") == 1 and len(page) < 7e6  # plotly itself has 4.8 MB
    assert "<h1>Study &lt;mine&gt;</h1>" in page
    assert before == {name: matplotlib.rcParams[name] for name in before}
    from matplotlib import pyplot

    assert not pyplot.get_fignums()


def test_labels_of_a_logarithmic_axis_do_not_overlap():
    figure = Figure(figsize=(2.6, 2), dpi=120)  # the size of a panel
    axes = figure.subplots()
    axes.set(xscale="log", xlim=(0.0123, 0.9))  # where matplotlib alone labels ten ticks

    def overlaps():
        figure.draw_without_rendering()
        boxes = [each.get_window_extent() for each in axes.get_xticklabels(which="both") if each.get_text()]
        boxes = sorted(boxes, key=lambda box: box.x0)
        return [left.x1 > right.x0 for left, right in zip(boxes[:-1], boxes[1:], strict=True)]

    assert any(overlaps())
    set_ticks(axes.xaxis, scale_for([axes.get_xlim()], log=True, ticks=module.MOST_TICKS, tight=True))
    assert not any(overlaps())
    assert [each.get_text() for each in axes.get_xticklabels()] == ["0.03", "0.1", "0.3"]


def test_contours_are_of_the_most_important_hyperparameters():
    study = optuna.create_study(direction="maximize")
    for trial in study_of([*"fabcde"], trials=40).trials:  # the score depends on f, which is the last one here
        params = dict(sorted(trial.params.items()))
        study.add_trial(create_trial(params=params, distributions=trial.distributions, value=trial.value))
    (contour,) = [figure for figure in module._figures(study, ()) if figure.name == "contour"]
    shown = contour.draw(ProbeOfContours)
    ranked = optuna.importance.get_param_importances(study, evaluator=optuna.importance.PedAnovaImportanceEvaluator())
    assert shown == list(ranked)[:4] and shown[0] == "f"


class ProbeOfContours:
    """In the place of `optuna.visualization`: returns the hyperparameters of the contours."""

    @staticmethod
    def plot_contour(study, *, params, **_):
        return params


def test_figures_that_cannot_be_drawn_are_left_out_with_a_reason(tmp_path):
    drawn = draw_study(study_of(["a"]), tmp_path, page=False)
    assert [path.name for path in drawn.files] == ["history.png", "slice.png", "intermediate.png"]
    assert drawn.left_out["Contours"] == "it needs 2 hyperparameters that differ between trials, and there is one"
    assert drawn.left_out["Importance of the hyperparameters"] == drawn.left_out["Contours"]
    drawn = draw_study(study_of(["a", "b"], trials=0), tmp_path, page=False)
    assert not drawn.files and drawn.left_out["Optimization history"] == "it needs 1 complete trial, and there is none"
    assert drawn.left_out["Learning curves of the trials"] == "no trial has reported a score yet"


def test_two_objectives_have_a_pareto_front_and_figures_of_each(tmp_path):
    drawn = draw_study(study_of(["a"], objectives=2), tmp_path, page=False, objectives=("return", "speed"))
    assert [path.name for path in drawn.files] == [
        "pareto-front.png",
        "history-0.png",
        "slice-0.png",
        "history-1.png",
        "slice-1.png",
    ]
    assert all(is_drawn(path) for path in drawn.files)
    assert "Contours of speed" in drawn.left_out


def test_importance_does_not_depend_on_the_sign_of_an_objective():
    study = study_of(["a", "b"], trials=40, objectives=2)
    of = [figure.draw(Probe) for figure in module._figures(study, ()) if figure.name.startswith("importances")]
    single = study_of(["a", "b"], trials=40)
    (alone,) = [figure.draw(Probe) for figure in module._figures(single, ()) if figure.name == "importances"]
    assert of[0]["a"] == pytest.approx(alone["a"]) and alone["a"] > alone["b"]


class Probe:
    """In the place of `optuna.visualization`: returns the importances instead of drawing them."""

    @staticmethod
    def plot_param_importances(study, *, evaluator, target=None, target_name=""):
        with module._quiet():
            if len(study.directions) == 1:
                target = None  # as Optuna does
            return optuna.importance.get_param_importances(study, evaluator=evaluator, target=target)


def test_a_large_study_is_thinned(monkeypatch):
    monkeypatch.setattr(module, "MOST_TRIALS", 5)
    study = study_of(["a"], trials=23)
    kept = [trial.params["a"] for trial in module._thinned(study).get_trials()]
    params = [trial.params["a"] for trial in study.get_trials()]
    assert 5 <= len(kept) <= 6 and {params[0], params[-1], study.best_trial.params["a"]} <= set(kept)


# Slots over time.

TRIALS = np.asarray([[0, 1], [0, 1], [0, 2], [-1, 2], [3, 2], [3, -1]])  # [records, slots]


def test_the_figure_of_slots_has_a_bar_for_each_trial():
    assert [*_bars(TRIALS[:, 0])] == [(0, 3, 0), (4, 6, 3)] and [*_bars(TRIALS[:, 1])] == [(0, 2, 1), (2, 5, 2)]


def test_the_figure_of_slots_says_how_busy_they_were(tmp_path):
    words = plot_slots(TRIALS, tmp_path / "slots.svg", title="slots of mine").read_text()
    assert "slots of mine" in words and "2 slots, 4 trials" in words and "busy 83.3% of the time" in words
    assert is_drawn(plot_slots(TRIALS, tmp_path / "slots.png"))
    with pytest.raises(ValueError, match="no slot trained a trial"):
        plot_slots(np.full((3, 2), -1), tmp_path / "none.png")
