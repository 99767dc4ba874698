"""Tables of settings and members, the distribution of their scores, and the result of a run in words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shoal.ops.statistics import FEWEST
from shoal.reports.chart import chart, interval_mark, shade
from shoal.reports.facts import Facts
from shoal.reports.markup import Cell, Html, joined, table, tag, with_code
from shoal.reports.page import Section
from shoal.reports.words import counted, exact, few, number, score_in_words, setting_in_words, with_interval
from shoal.specs.spec import plain
from shoal.training.lives import best_members, hyperparameters_in, scores_in
from shoal.viz.chart import Dots
from shoal.viz.run_data import RunData
from shoal.viz.scale import is_logarithmic, scale_for

MOST_SETTINGS = 60  # rows of the table of settings; of more, the best ones
MOST_MEMBERS = 64  # rows of the table of members; of more, the best and the worst ones
SHOWN_BEST, SHOWN_WORST = 30, 10  # of a population that has more
MOST_DOTS = 3000  # settings or trials in one chart
NAMES_FIT = 40  # characters of names that have room below a small chart
WIDEST_HEAT = 24  # columns of a table of colors


def result_in_words(facts: Facts) -> list[Html]:
    """Return the result of a run as paragraphs: the score with its interval, what it was measured on, and cautions."""
    if not facts.is_evaluated:
        return _result_in_training(facts)
    episodes = counted(facts.spec.eval_episodes, "fresh episode")
    how = f"Every member was evaluated on {episodes} with greedy actions and its last weights."
    settings, scores = facts.spec.settings(), facts.score_of_settings
    if facts.selector:
        best = best_members(facts.curves, 1)[0]
        lead = [
            f"The best of {counted(facts.members, 'member')} reaches a mean return of ",
            tag("strong", number(best["score"])),
        ]
        if best["hyperparameters"]:
            lead.append(f" with {setting_in_words(best['hyperparameters'])}")
        caution = (
            "The best of many members is partly the luckiest one, so new seeds reach a somewhat lower return on "
            "average. To measure it, train its hyperparameters again with another `--seed`."
        )
        return [
            _lead([*lead, "."]),
            tag("p", score_in_words(scores[0], "member")),
            tag("p", with_code(f"{how} {caution}")),
        ]
    if len(settings) == 1:
        return [_lead([_emphasized(score_in_words(scores[0], "seed"), scores[0])]), tag("p", how)]
    index = _best_setting(scores)
    lead = [
        f"The best of {counted(len(settings), 'setting')} is {setting_in_words(settings[index])}. ",
        _emphasized(score_in_words(scores[index], "seed"), scores[index]),
    ]
    caution = (
        f"The best setting was chosen among {len(settings):,} by the same evaluation, so its score is somewhat too "
        "high; a run of it with another `--seed` gives a score that is not."
    )
    return [_lead(lead), tag("p", with_code(f"{how} {caution}"))]


def _result_in_training(facts: Facts) -> list[Html]:
    if not facts.curves:
        return [_lead(["There is no result yet."])]
    returns = facts.curves["train_return"]
    there = np.flatnonzero(np.isfinite(returns).any(axis=1))
    if not len(there):
        return [_lead(["No episode has ended yet, so there is no return."])]
    mean = float(np.nanmean(returns[there[-1]]))
    steps = int(facts.curves["env_steps"][there[-1]])
    words = [f"After {steps:,} steps, the mean return in training is ", tag("strong", number(mean))]
    return [_lead([*words, f" ({counted(facts.members, 'member')}). There was no evaluation yet."])]


def _lead(parts: Sequence[Any]) -> Html:
    return tag("p", *parts, class_="lead")


def _emphasized(sentence: str, score: dict[str, Any]) -> Html:
    """The sentence of a score with its first number in bold."""
    value = number(score["iqm"] if score.get("members", 0) >= FEWEST else score.get("mean"))
    before, found, after = sentence.partition(f" is {value}")
    return joined([before, " is ", tag("strong", value), after]) if found else joined([sentence])


def _best_setting(scores: Sequence[dict[str, Any]]) -> int:
    return max(range(len(scores)), key=lambda i: scores[i].get("mean", -np.inf))


def settings_section(facts: Facts) -> Section | None:
    """Return the section on the settings of a run: a row for each, and how the score depends on hyperparameters."""
    settings = facts.spec.settings()
    if len(settings) < 2 or facts.selector or not facts.is_evaluated:
        return None
    scores = facts.score_of_settings
    order = sorted(range(len(settings)), key=lambda i: -scores[i].get("mean", -np.inf))
    shown = order[:MOST_SETTINGS]
    bounds = [
        value for i in shown for value in (scores[i].get("iqm"), scores[i].get("iqm_low"), scores[i].get("iqm_high"))
    ]
    scale = scale_for([[value for value in bounds if value is not None]])
    paths = [*settings[0]]
    rows = []
    for i in shown:
        score = scores[i]
        low, high = score.get("iqm_low", np.nan), score.get("iqm_high", np.nan)
        rows.append(
            [
                *(_value_cell(settings[i][path]) for path in paths),
                Cell(with_interval(score.get("iqm"), low, high), _known(score.get("iqm"))),
                interval_mark(score.get("iqm"), low, high, scale),
                Cell(number(score.get("mean")), _known(score.get("mean"))),
                Cell(number(score.get("min")), _known(score.get("min"))),
            ]
        )
    seeds = counted(facts.spec.seeds, "seed")
    head = [*(tag("code", path) for path in paths), "IQM (95 % interval)", "", "mean", "worst"]
    more = f" The best {len(shown)} of {len(settings):,} are shown." if len(shown) < len(settings) else ""
    about = tag(
        "p", f"Return of the last evaluation over {seeds} for each setting, the best mean first.{more}", class_="soft"
    )
    parts = [about, table(head, rows, sortable=True)]
    if len(paths) == 2 and not facts.spec.points:
        parts.append(_heat(facts.data, paths, scores))
    elif facts.spec.points:
        means = np.array([score.get("iqm", np.nan) for score in scores])
        parts += slices({path: [setting[path] for setting in settings] for path in paths}, means, "IQM of the seeds")
    return Section("settings", "Settings", parts)


def members_section(facts: Facts) -> Section | None:
    """Return the section on the members of a run: the distribution of their scores, and a row for each."""
    if not facts.curves or facts.members < 2:
        return None
    paths = hyperparameters_in(facts.curves) if facts.selector else []
    latest = scores_in(facts.curves)[-1] if not facts.is_evaluated else facts.scores
    order = np.argsort(-np.where(np.isnan(latest), -np.inf, latest), kind="stable").tolist()
    shown, left_out = order, 0
    if len(order) > MOST_MEMBERS:
        shown, left_out = [*order[:SHOWN_BEST], *order[-SHOWN_WORST:]], len(order) - SHOWN_BEST - SHOWN_WORST
    members = None if facts.selector else _names_of_members(facts)
    rows = [
        [Cell(f"{m}", m), *_about_member(facts, m, members, paths), *_scores_of_member(facts, m, latest)] for m in shown
    ]
    last = "last evaluation" if facts.is_evaluated else "last return"
    own = [] if members is None else [tag("code", path) for path in facts.spec.settings()[0]] + ["seed"]
    lives = (
        ["occupant", *(tag("code", path) for path in paths)] if facts.selector and "occupant" in facts.curves else []
    )
    best = ["best evaluation"] if _shows_best(facts) else []
    stopped = ["state"] if not facts.alive.all() else []
    head = ["slot" if facts.selector else "member", *own, *lives, last, *best, *stopped]
    cut = f"The best {SHOWN_BEST} and the worst {SHOWN_WORST} are shown; {left_out:,} in between are left out."
    parts = [
        _distribution(facts, latest),
        tag("p", cut, class_="soft") if left_out else None,
        table(head, rows, sortable=True),
    ]
    return Section("members", "Members", parts)


def _names_of_members(facts: Facts) -> list[list[Cell]]:
    return [
        [*(_value_cell(value) for value in setting.values()), Cell(f"{seed}", seed)]
        for setting in facts.spec.settings()
        for seed in range(facts.spec.seeds)
    ]


def _about_member(facts: Facts, member: int, names: Any, paths: Sequence[str]) -> list[Cell]:
    if names is not None:
        return names[member]
    if "occupant" not in facts.curves:
        return []
    occupant = int(facts.curves["occupant"][-1, member])
    first = Cell("idle", -1) if occupant < 0 else Cell(f"{occupant}", occupant)
    return [first, *(_value_cell(facts.curves[path][-1, member].item()) for path in paths)]


def _scores_of_member(facts: Facts, member: int, latest: np.ndarray) -> list[Cell]:
    cells = [Cell(number(float(latest[member])), float(latest[member]))]
    if _shows_best(facts):
        cells.append(Cell(number(float(facts.best_scores[member])), float(facts.best_scores[member])))
    if not facts.alive.all():
        cells.append(Cell("" if facts.alive[member] else tag("span", "stopped", class_="tag")))
    return cells


def _shows_best(facts: Facts) -> bool:
    return facts.is_evaluated and not facts.selector  # a slot of a selector held several members


def _distribution(facts: Facts, scores: np.ndarray) -> Html | None:
    """How the scores of the members are distributed: as words if all are equal, else as their quantiles."""
    known = scores[np.isfinite(scores)]
    if known.size < 2:
        return None
    if np.ptp(known) == 0:
        return tag("p", f"All {counted(known.size, 'member')} have the same score: {number(float(known[0]))}.")
    share = (np.arange(known.size) + 0.5) / known.size
    return chart(
        [Dots(100 * share, np.sort(known), "c0" if known.size < 200 else "c0 faint")],
        "members with at most this score (%)",
        "episode return",
        about="scores of all members in increasing order",
        note=f"Each dot is one of {counted(known.size, 'member')}, in the order of their scores.",
        x_words=number,
        small=True,
        tight_x=False,
    )


def slices(values: Mapping[str, Sequence[Any]], scores: np.ndarray, what: str) -> list[Any]:
    """Return a small chart for each hyperparameter: the score of every setting over its value.

    `values` are lists [N] by path, and `scores` is [N]. Values that are no numbers are at the positions of a list.
    """
    kept = np.flatnonzero(np.isfinite(scores))[:MOST_DOTS]
    if kept.size < 2:
        return []
    best = kept[np.argmax(scores[kept])]
    panels = []
    for path, column in values.items():
        numeric = all(isinstance(v, int | float) and not isinstance(v, bool) or v is None for v in column)
        labels = [] if numeric else sorted({exact(v) for v in column})
        at = [np.nan if v is None else v for v in column] if numeric else [labels.index(exact(v)) for v in column]
        x = np.asarray(at, float)
        fit = sum(len(label) + 2 for label in labels) <= NAMES_FIT
        names = "" if fit else f" ({few([f'{i}: {each}' for i, each in enumerate(labels)], 6)})"
        panels.append(
            chart(
                [Dots(x[kept], scores[kept], "faint c0"), Dots(x[[best]], scores[[best]], "large c1")],
                path + names,
                "score",
                about=f"{what} over {path}",
                title=path,
                log_x=numeric and is_logarithmic(x),
                x_words=number,
                x_names=labels if fit else (),
                whole_x=not numeric,
                tight_x=False,
                small=True,
            )
        )
    key = tag("ul", tag("li", what, class_="c0 dotted"), tag("li", "the best", class_="c1 dotted"), class_="legend")
    return [tag("h3", "Score by hyperparameter"), key, tag("div", *panels, class_="panels")]


def _heat(data: RunData, paths: Sequence[str], scores: Sequence[dict[str, Any]]) -> Html:
    """The score of every combination of two hyperparameters as a table with colors."""
    rows, columns = (data.values_of(path) for path in paths)
    by_setting = {
        tuple(str(plain(v)) for v in s.values()): score for s, score in zip(data.settings, scores, strict=True)
    }
    shown = columns[:WIDEST_HEAT]
    values = np.array(
        [[by_setting[str(plain(r)), str(plain(c))].get("iqm", np.nan) for c in shown] for r in rows], float
    )
    known = values[np.isfinite(values)]
    shades = shade(values, float(known.min()), float(known.max())) if known.size else np.full(values.shape, -1)
    head = tag(
        "tr", tag("th", f"{paths[0]} ↓  {paths[1]} →", scope="col"), *(tag("th", exact(c), scope="col") for c in shown)
    )
    body = (
        tag(
            "tr",
            tag("th", exact(row), scope="row"),
            *(
                tag("td", number(float(value)), class_=f"v{color}" if color >= 0 else None)
                for value, color in zip(line, colors, strict=True)
            ),
        )
        for row, line, colors in zip(rows, values, shades, strict=True)
    )
    made = tag("table", tag("thead", head), tag("tbody", *body), class_="heat")
    box = tag("div", made, class_="scroll", tabindex="0", role="region", aria_label="scores by two hyperparameters")
    more = f" The first {len(shown)} of {len(columns)} columns are shown." if len(shown) < len(columns) else ""
    return joined(
        [tag("h3", f"{paths[0]} and {paths[1]} together"), tag("p", f"IQM over seeds.{more}", class_="soft"), box]
    )


def _value_cell(value: Any) -> Cell:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return Cell(number(value) if isinstance(value, float) else exact(value), value if is_number else None)


def _known(value: Any) -> float:
    return float("nan") if value is None else float(value)
