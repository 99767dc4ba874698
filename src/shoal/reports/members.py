"""Tables of settings and members, the distribution of their scores, and the result of a run in words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shoal.ops.statistics import FEWEST
from shoal.reports.chart import interval_mark, legend, panels, shade, show
from shoal.reports.facts import Facts
from shoal.reports.markup import Cell, Html, cell, code, render, soft, table, tag
from shoal.reports.page import Section
from shoal.reports.words import counted, few, score_in_words, with_interval
from shoal.training.lives import best_members, hyperparameters_in, scores_in
from shoal.viz.chart import Chart, Dots
from shoal.viz.heatmap import scores_of_grid
from shoal.viz.scale import Scale, is_logarithmic, scale_for
from shoal.viz.words import exact, number

MOST_SETTINGS = 60  # rows of the table of settings; of more, the best ones
MOST_MEMBERS = 64  # rows of the table of members; of more, the best and the worst ones
SHOWN_BEST, SHOWN_WORST = 30, 10  # of a population that has more
MOST_DOTS = 3000  # settings or trials in one chart
NAMES_FIT = 40  # characters of names that have room below a small chart
INTERVAL = ("iqm", "iqm_low", "iqm_high")
WIDEST_HEAT = 24  # columns of a table of colors


def result_in_words(facts: Facts) -> Html:
    """Return the result of a run as paragraphs: the score with its interval, what it was measured on, and cautions."""
    if not facts.is_evaluated:
        returns = facts.curves.get("train_return", np.zeros((0, 1)))
        there = np.flatnonzero(np.isfinite(returns).any(axis=1))
        known = {"mean": float(np.nanmean(returns[there[-1]])), "record": there[-1]} if len(there) else None
        return render("result_in_training", facts=facts, known=known)
    settings, scores = facts.spec.settings(), facts.score_of_settings
    index = max(range(len(scores)), key=lambda i: scores[i].get("mean", -np.inf))
    best = best_members(facts.curves, 1)[0] if facts.selector else None
    unit = "member" if facts.selector else "seed"
    sentence = score_in_words(scores[index], unit)
    middle = number(scores[index]["iqm"] if scores[index].get("members", 0) >= FEWEST else scores[index].get("mean"))
    before, found, after = sentence.partition(f" is {middle}")  # the first number of the sentence is in bold
    score = Html("{} is <strong>{}</strong>{}").format(before, middle, after) if found else sentence
    return render("result", facts=facts, best=best, settings=settings, setting=settings[index], score=score)


def settings_section(facts: Facts) -> Section | None:
    """Return the section on the settings of a run: a row for each, and how the score depends on hyperparameters."""
    settings = facts.spec.settings()
    if len(settings) < 2 or facts.selector or not facts.is_evaluated:
        return None
    scores = facts.score_of_settings
    shown = sorted(range(len(settings)), key=lambda i: -scores[i].get("mean", -np.inf))[:MOST_SETTINGS]
    scale = scale_of([scores[i] for i in shown])
    rows = [
        [
            *map(cell, settings[i].values()),
            *score_cells(scores[i], scale),
            *map(cell, (scores[i].get(name, np.nan) for name in ("mean", "min"))),
        ]
        for i in shown
    ]
    paths = [*settings[0]]
    head = [*map(code, paths), "IQM (95 % interval)", "", "mean", "worst"]
    more = f" The best {len(shown)} of {len(settings):,} are shown." if len(shown) < len(settings) else ""
    seeds = counted(facts.spec.seeds, "seed")
    about = soft(f"Return of the last evaluation over {seeds} for each setting, the best mean first.{more}")
    parts = [about, table(head, rows, sortable=True)]
    if len(paths) == 2 and not facts.spec.points:
        parts.append(_heat(facts, paths))
    elif facts.spec.points:
        means = np.array([score.get("iqm", np.nan) for score in scores])
        parts += slices({path: [setting[path] for setting in settings] for path in paths}, means, "IQM of the seeds")
    return Section("settings", "Settings", parts)


def scale_of(scores: Sequence[Mapping[str, Any]]) -> Scale:
    """Return the axis on which `score_cells` draws the intervals of these scores."""
    return scale_for([[score[name] for score in scores for name in INTERVAL if name in score]])


def score_cells(score: Mapping[str, Any], scale: Scale) -> list[Any]:
    """Return the cells of an interquartile mean with its interval: in words, and as a picture."""
    middle, low, high = (score.get(name, np.nan) for name in INTERVAL)
    return [cell(float(middle), with_interval(middle, low, high)), interval_mark(middle, low, high, scale)]


def members_section(facts: Facts) -> Section | None:
    """Return the section on the members of a run: the distribution of their scores, and a row for each."""
    if not facts.curves or facts.members < 2:
        return None
    latest = scores_in(facts.curves)[-1] if not facts.is_evaluated else facts.scores
    order = np.argsort(-np.where(np.isnan(latest), -np.inf, latest), kind="stable")
    shown = order if len(order) <= MOST_MEMBERS else np.concatenate([order[:SHOWN_BEST], order[-SHOWN_WORST:]])
    columns = _columns(facts, latest)
    rows = [[column[member] for column in columns.values()] for member in shown]
    left_out = len(order) - len(shown)
    cut = f"The best {SHOWN_BEST} and the worst {SHOWN_WORST} are shown; {left_out:,} in between are left out."
    parts = [
        _distribution(facts, latest),
        soft(cut) if left_out else None,
        table([*columns], rows, sortable=True),
    ]
    return Section("members", "Members", parts)


def _columns(facts: Facts, latest: np.ndarray) -> dict[Any, list[Any]]:
    """The columns of the table of members, each with the cells [M], by what stands above it."""
    numbers = range(facts.members)
    found: dict[Any, list[Any]] = {"slot" if facts.selector else "member": [*map(cell, numbers)]}
    if not facts.selector:
        settings = np.repeat(np.array(facts.spec.settings(), object), facts.spec.seeds)
        found |= {code(path): [cell(setting[path]) for setting in settings] for path in settings[0]}
        found["seed"] = [cell(facts.spec.seed_indices[member % facts.spec.seeds]) for member in numbers]
    elif "occupant" in facts.curves:
        occupants = facts.curves["occupant"][-1].tolist()
        found["occupant"] = [Cell("idle", -1) if occupant < 0 else cell(occupant) for occupant in occupants]
        found |= {
            code(path): [*map(cell, facts.curves[path][-1].tolist())] for path in hyperparameters_in(facts.curves)
        }
    found["last evaluation" if facts.is_evaluated else "last return"] = [*map(cell, latest.tolist())]
    if facts.is_evaluated and not facts.selector:  # a slot of a selector held several members
        found["best evaluation"] = [*map(cell, facts.best_scores.tolist())]
    if not facts.alive.all():
        found["state"] = ["" if is_alive else tag("span", "stopped", class_="tag") for is_alive in facts.alive]
    return found


def _distribution(facts: Facts, scores: np.ndarray) -> Html | None:
    """How the scores of the members are distributed: as words if all are equal, else as their quantiles."""
    known = np.sort(scores[np.isfinite(scores)])
    if known.size < 2:
        return None
    members = counted(known.size, "member")
    if np.ptp(known) == 0:
        return tag("p", f"All {members} have the same score: {number(float(known[0]))}.")
    share = 100 * (np.arange(known.size) + 0.5) / known.size
    dots = Dots(share, known, "c0" if known.size < 200 else "c0 faint")
    labels = "members with at most this score (%)", "episode return", "scores of all members in increasing order"
    note = f"Each dot is one of {members}, in the order of their scores."
    return show(Chart([dots], *labels, note=note, x_words=number, small=True, tight_x=False))


def slices(values: Mapping[str, Sequence[Any]], scores: np.ndarray, what: str) -> list[Any]:
    """Return a small chart for each hyperparameter: the score of every setting over its value.

    `values` are lists [N] by path, and `scores` is [N]. Values that are no numbers are at the positions of a list.
    """
    kept = np.flatnonzero(np.isfinite(scores))[:MOST_DOTS]
    if kept.size < 2:
        return []
    best = kept[[np.argmax(scores[kept])]]
    charts = []
    for path, column in values.items():
        numeric = all(isinstance(v, int | float) and not isinstance(v, bool) or v is None for v in column)
        labels = [] if numeric else sorted({exact(v) for v in column})
        at = [np.nan if v is None else v for v in column] if numeric else [labels.index(exact(v)) for v in column]
        x = np.asarray(at, float)
        fit = sum(len(label) + 2 for label in labels) <= NAMES_FIT
        names = "" if fit else f" ({few([f'{i}: {label}' for i, label in enumerate(labels)], 6)})"
        charts.append(
            Chart(
                [Dots(x[kept], scores[kept], "faint c0"), Dots(x[best], scores[best], "large c1")],
                path + names,
                "score",
                f"{what} over {path}",
                title=path,
                log_x=numeric and is_logarithmic(x),
                x_words=number,
                x_names=labels if fit else (),
                whole_x=not numeric,
                tight_x=False,
            )
        )
    key = legend([("c0 dotted", what), ("c1 dotted", "the best")])
    return [tag("h3", "Score by hyperparameter"), key, panels(charts)]


def _heat(facts: Facts, paths: Sequence[str]) -> Html:
    """The score of every combination of two hyperparameters as a table with colors."""
    rows, columns, values = scores_of_grid(facts.data, paths, facts.scores)
    shown, known = values[:, :WIDEST_HEAT], values[np.isfinite(values)]
    shades = shade(shown, *((known.min(), known.max()) if known.size else (0, 1)))
    return render("heat", paths=paths, rows=rows, columns=columns, values=shown.tolist(), shades=shades)
