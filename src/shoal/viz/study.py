"""Optuna's figures of a study: each as a PNG file, and all together on one page of HTML.

PNG needs nothing more than Optuna; the page needs plotly, which it contains once, so that it opens without a network.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.trial import FrozenTrial, TrialState

from shoal.core.errors import need
from shoal.specs.disk import replace
from shoal.viz.importance import IMPORTANCES, PED_ANOVA, Importance
from shoal.viz.paint import set_ticks
from shoal.viz.scale import scale_for

COMPLETE = TrialState.COMPLETE
MOST_TRIALS = 1000  # drawn in figures that have a mark for each trial; others are left out evenly
MOST_PARAMS = 4  # in the figures of pairs
FEWEST = 4  # complete trials, for the importance of parameters
MOST_NAMED = 10  # trials that a legend names
MOST_TICKS = 4  # on a logarithmic axis, whose labels would overlap otherwise
PANEL = 150  # least width of a panel on the page, in pixels; a narrower window scrolls
DPI = 120
PAGE = "study.html"


class Drawn(NamedTuple):
    """The files that were drawn, and the reason for each figure that was left out."""

    files: list[Path]
    left_out: dict[str, str]


class Figure(NamedTuple):
    """One figure: its name, its title, a sentence about it, and the call of Optuna's function that draws it."""

    name: str
    title: str
    about: str
    draw: Callable[[Any], Any]  # given `optuna.visualization` or its `matplotlib`
    reason: str = ""  # why it cannot be drawn


def draw_study(
    study: optuna.Study,
    folder: Path | str,
    *,
    page: bool = True,
    objectives: tuple[str, ...] = (),
    importance: str = "ped-anova",
) -> Drawn:
    """Draw the figures of a study into a folder: PNG files and, with `page`, `study.html`.

    objectives: the names of what the study optimizes; by default "score"; of several objectives the names in the study.
    importance: how that of hyperparameters is measured (`IMPORTANCES`).
    Raises ImportError for a page without plotly.
    """
    plotly = need("plotly", "html", "a page of figures that show values under the mouse (study.html)") if page else None
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files, left_out, drawn = [], {}, []
    for figure in _figures(study, objectives, IMPORTANCES[importance]):
        if figure.reason:
            left_out[figure.title] = figure.reason
            continue
        try:
            files.append(_draw_png(figure, folder / f"{figure.name}.png"))
            drawn.append(figure)
        except (ValueError, RuntimeError, ZeroDivisionError) as error:  # Optuna's, for trials that it cannot draw
            left_out[figure.title] = f"Optuna cannot draw it: {error}"
    if plotly is not None:
        files.append(_write_page(study, drawn, left_out, folder / PAGE))
    return Drawn(files, left_out)


def _figures(study: optuna.Study, objectives: tuple[str, ...], importance: Importance = PED_ANOVA) -> Iterator[Figure]:
    count = len(study.directions)
    known = study.metric_names if count > 1 else ["score"]
    names = objectives or tuple(known or (f"objective {i}" for i in range(count)))
    complete = study.get_trials(deepcopy=False, states=(COMPLETE,))
    few = _thinned(study)
    varying = _varying(complete)
    if count > 1:
        yield Figure(
            "pareto-front",
            "Pareto front",
            "Every complete trial by its objectives; no other trial is better in all of them than those of the front.",
            lambda module: module.plot_pareto_front(few, target_names=[*names]),
            _reason(len(complete), 1) or ("" if count < 4 else f"{count} objectives do not fit in one figure"),
        )
    for index, name in enumerate(names):
        suffix, of = ("", "") if count == 1 else (f"-{index}", f" of {name}")
        targeted: dict[str, Any] = (
            {"target": _target(index), "target_name": name} if count > 1 else {"target_name": name}
        )
        rank = {**targeted, "target": _lower_is_better(index, study.directions[index])} if count > 1 else targeted
        yield Figure(
            f"history{suffix}",
            f"Optimization history{of}",
            f"The {name} of each complete trial, in the order in which the trials began, and the best so far.",
            lambda module, targeted=targeted: module.plot_optimization_history(study, **targeted),
            _reason(len(complete), 1),
        )
        yield Figure(
            f"importances{suffix}",
            f"Importance of the hyperparameters{of}",
            f"{importance.about}, by {name}.",
            lambda module, rank=rank: module.plot_param_importances(study, evaluator=importance.make(), **rank),
            _reason(len(complete), FEWEST, varying, 2),
        )
        yield Figure(
            f"slice{suffix}",
            f"Slices{of}",
            f"The {name} over each hyperparameter by itself.",
            lambda module, targeted=targeted: module.plot_slice(few, params=varying, **targeted),
            _reason(len(complete), 2, varying, 1),
        )
        yield Figure(
            f"contour{suffix}",
            f"Contours{of}",
            f"The {name} over pairs of hyperparameters, interpolated between the trials (dots).",
            lambda module, targeted=targeted, rank=rank: module.plot_contour(
                few, params=_most_important(study, varying, importance, rank.get("target")), **targeted
            ),
            _reason(len(complete), 3, varying, 2),
        )
        yield Figure(
            f"parallel{suffix}",
            f"Parallel coordinates{of}",
            f"A line for each complete trial through the values of its hyperparameters; its color is the {name}.",
            lambda module, targeted=targeted: module.plot_parallel_coordinate(few, params=varying, **targeted),
            _reason(len(complete), 2, varying, 2),
        )
    has_values = any(trial.intermediate_values for trial in study.get_trials(deepcopy=False))
    yield Figure(
        "intermediate",
        "Learning curves of the trials",
        "The score that each trial reported after each record; a line that ends early is a pruned trial.",
        lambda module: module.plot_intermediate_values(few),
        "" if has_values else "no trial has reported a score yet",
    )


def _reason(trials: int, at_least: int, varying: list[str] | None = None, params: int = 0) -> str:
    if trials < at_least:
        return f"it needs {at_least} complete trial{'s' * (at_least > 1)}, and there {_are(trials)}"
    if varying is not None and len(varying) < params:
        return f"it needs {params} hyperparameters that differ between trials, and there {_are(len(varying))}"
    return ""


def _are(count: int) -> str:
    return "is none" if not count else "is one" if count == 1 else f"are {count}"


def _target(index: int) -> Callable[[FrozenTrial], float]:
    return lambda trial: trial.values[index]


def _lower_is_better(index: int, direction: Any) -> Callable[[FrozenTrial], float]:
    """A target for importances, which take the lowest values for the best ones."""
    sign = 1 if direction == optuna.study.StudyDirection.MINIMIZE else -1
    return lambda trial: sign * trial.values[index]


def _varying(trials: list[FrozenTrial]) -> list[str]:
    """The hyperparameters that have several values."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.params))
    return [name for name in names if len({str(trial.params.get(name)) for trial in trials}) > 1]


def _most_important(
    study: optuna.Study, varying: list[str], importance: Importance, target: Callable[[FrozenTrial], float] | None
) -> list[str]:
    """`MOST_PARAMS` of the hyperparameters: the most important ones, or the first ones while there are few trials."""
    complete = study.get_trials(deepcopy=False, states=(COMPLETE,))
    if len(varying) <= MOST_PARAMS or len(complete) < FEWEST:
        return varying[:MOST_PARAMS]
    with _quiet():
        importances = optuna.importance.get_param_importances(study, evaluator=importance.make(), target=target)
    return sorted(varying, key=lambda name: -importances.get(name, 0.0))[:MOST_PARAMS]


def _thinned(study: optuna.Study) -> optuna.Study:
    """The study, or one in memory with `MOST_TRIALS` of its trials: the first, the last and others evenly spread."""
    trials = study.get_trials(deepcopy=False)
    if len(trials) <= MOST_TRIALS:
        return study
    chosen = {round(i * (len(trials) - 1) / (MOST_TRIALS - 1)) for i in range(MOST_TRIALS)}
    chosen |= {trial.number for trial in _best_of(study)}
    with _quiet():
        few = optuna.create_study(directions=study.directions)
        few.add_trials([trial for trial in trials if trial.number in chosen])
    return few


def _best_of(study: optuna.Study) -> list[FrozenTrial]:
    return study.best_trials if study.get_trials(deepcopy=False, states=(COMPLETE,)) else []


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's messages about new studies, and its warnings that figures of matplotlib are experimental."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(level)


def _draw_png(figure: Figure, out: Path) -> Path:
    """Draw a figure with matplotlib. Optuna uses pyplot, so its figure is closed afterwards, and its style undone."""
    import matplotlib
    from matplotlib import pyplot

    before = matplotlib.get_backend()
    with matplotlib.rc_context(), _quiet():
        pyplot.switch_backend("agg")  # a window needs a screen
        try:
            axes = figure.draw(optuna.visualization.matplotlib)
            panels = getattr(axes, "ravel", lambda: [axes])()
            drawing = panels[0].figure
            drawing.set_dpi(DPI)
            _arrange(figure, drawing, list(panels))
            replace(out, lambda path: drawing.savefig(path, format="png", bbox_inches="tight"))
        finally:
            pyplot.close("all")
            pyplot.switch_backend(before)
    return out


def _arrange(figure: Figure, drawing: Any, panels: list[Any]) -> None:
    """Give a figure of Optuna a size that fits its panels, and its own title."""
    rows, columns = panels[0].get_subplotspec().get_gridspec().get_geometry()
    drawing.set_size_inches(max(8.0, 2.6 * columns + 1.5), max(4.6, 2.4 * rows + 1))
    for axes in panels:
        if len(panels) == 1:
            for side in ("left", "center", "right"):
                axes.set_title("", loc=side)
        axes.tick_params(labelsize=8)
        axes.xaxis.label.set_size(9)
        axes.yaxis.label.set_size(9)
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() == "log":
                set_ticks(axis, scale_for([axis.get_view_interval()], log=True, ticks=MOST_TICKS, tight=True))
    if figure.name == "intermediate":
        panels[0].set(xlabel="record", ylabel="score")
        if (legend := panels[0].get_legend()) is not None and len(panels[0].lines) > MOST_NAMED:
            legend.remove()
    title = drawing.suptitle(figure.title, fontsize=12)
    drawing.set_layout_engine("constrained")
    try:
        drawing.get_layout_engine().execute(drawing)
    except ZeroDivisionError:  # it has axes without a height, which this layout cannot arrange
        drawing.set_layout_engine("none")
        title.set_y(0.94)


def _write_page(study: optuna.Study, figures: list[Figure], left_out: Mapping[str, str], out: Path) -> Path:
    from jinja2 import Environment, PackageLoader
    from plotly.offline import get_plotlyjs

    plots = []
    for figure in figures:
        with _quiet():
            plot = figure.draw(optuna.visualization)
        panels = sum(name.startswith("yaxis") for name in plot.to_dict()["layout"])
        is_square = figure.name.startswith("contour")
        columns = panels**0.5 if is_square else panels
        height = max(420, 190 * columns) if is_square else 420
        plot.update_layout(title=None, margin={"t": 30}, width=None, height=height)
        if figure.name == "intermediate":
            plot.update_layout(xaxis_title="record", yaxis_title="score")
        body = plot.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True})
        plots.append((figure, body, round(PANEL * columns)))
    template = Environment(loader=PackageLoader("shoal.viz"), autoescape=True, trim_blocks=True).get_template(PAGE)
    page = template.render(name=study.study_name, plotly=get_plotlyjs(), plots=plots, left_out=left_out)
    replace(out, lambda path: path.write_text(page, encoding="utf-8"))
    return out
