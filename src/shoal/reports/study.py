"""The report of a study: its best trial on fresh seeds, its history, and how the score depends on hyperparameters."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np

from shoal.core.errors import DamagedError
from shoal.core.ranges import SCALES
from shoal.ops.statistics import FEWEST
from shoal.reports.chart import chart, show
from shoal.reports.facts import Facts
from shoal.reports.hyperparameters import fields_to_set
from shoal.reports.markup import Cell, Html, code_block, joined, pairs, table, tag, with_code
from shoal.reports.members import slices
from shoal.reports.page import Section, data_address, folded, key_figures, page, warning_box
from shoal.reports.trials import BEST, COMPLETE, FAILED, FRESH, PRUNED, RUNNING, WAITING, Study, is_study
from shoal.reports.videos import LARGEST
from shoal.reports.words import (
    counted,
    exact,
    interval,
    number,
    score_in_words,
    seconds_in_words,
    setting_in_words,
    size_in_words,
)
from shoal.specs.describe import Described
from shoal.training.reading import opened, size_of
from shoal.viz.chart import Dots, Line, Mark
from shoal.viz.curves import curves_chart
from shoal.viz.scale import is_logarithmic

__all__ = ["is_study", "study_report"]

MOST_TRIALS = 60  # rows of the table
MOST_DOTS = 4000  # trials in the history
SHORT = 200  # characters of a value of study.json that are shown
STATES = {COMPLETE: "trained to the end", PRUNED: "pruned", FAILED: "failed", RUNNING: "running", WAITING: "waiting"}


def study_report(folder: Path) -> Html:
    """Return the page of a study. Raises DamagedError for a damaged `study.json`."""
    study = Study(folder)
    fresh = _fresh(study)
    summary = [*_in_words(study, fresh), key_figures(_figures(study, fresh)), warning_box(_warnings(study, fresh))]
    sections = [
        _history_section(study),
        _best_section(study, fresh),
        _slices_section(study),
        _trials_section(study),
        _pictures_section(study),
        _search_section(study),
        _reproduce_section(study),
    ]
    under = joined([tag("code", study.name), counted(len(study), "trial")], " · ")
    return page(study.title, "a study", under, summary, sections)


def _fresh(study: Study) -> Facts | None:
    """The run of the best trial on fresh seeds; None if it was not made, or cannot be read."""
    if not (study.folder / FRESH / "spec.json").exists():
        return None
    try:
        return Facts(study.folder / FRESH)
    except (FileNotFoundError, DamagedError) as error:
        study.damages.append(str(error))
        return None


def _in_words(study: Study, fresh: Facts | None) -> list[Html]:
    if not study.best:
        return [tag("p", "No trial has been trained to the end yet.", class_="lead")]
    if len(study.objectives) > 1:
        best, all_ = len(study.best), int(study.complete.sum())
        verb, them = ("is", "it") if best == 1 else ("are", "them")
        words = (
            f"{best:,} of {counted(all_, 'complete trial')} {verb} on the Pareto front: no other trial beats {them} in "
            f"one objective without being worse in another."
        )
        return [tag("p", words, class_="lead")]
    row = study.best[0]
    score, setting = float(study.scores[row, 0]), setting_in_words(study.parameters_of(row))
    in_study = f"Trial {study.numbers[row]} is the best of {counted(len(study), 'trial')}, with {setting}."
    trained = _training_score(study)
    if trained:
        lead = ["On fresh seeds the best trial reaches ", tag("strong", number(trained["fresh_score"])), ". "]
        words = str(trained.get("words", "")).partition(". ")[0]
        curse = (
            f"{words}. Scores are returns of training episodes. The best of many trials is partly the luckiest one, so "
            f"only the score on fresh seeds may be reported."
        )
        return [tag("p", *lead, in_study, class_="lead"), tag("p", curse)]
    if fresh is None or not fresh.is_evaluated:
        lead = ["The best score is ", tag("strong", number(score)), ". "]
        caution = "It is the highest of many scores, so it is partly luck: on fresh seeds it will be lower on average."
        return [tag("p", *lead, in_study, class_="lead"), tag("p", caution)]
    again = fresh.score_of_settings[0]
    middle = again["iqm"] if again["members"] >= FEWEST else again["mean"]
    lead = ["On fresh seeds the best trial reaches ", tag("strong", number(middle)), ". "]
    change = f"{'lower' if middle < score else 'higher'} by {number(abs(score - middle))}"
    curse = (
        f"Its score in the study was {number(score)}; on seeds that the study never used it is "
        f"{'the same' if middle == score else change}. The best of many trials is partly the "
        f"luckiest one, so only the score on fresh seeds may be reported. {score_in_words(again, 'seed')}"
    )
    return [tag("p", *lead, in_study, class_="lead"), tag("p", curse)]


def _training_score(study: Study) -> dict[str, Any]:
    """What `summary.json` says about the best trial on fresh seeds, if its score is a return of training; else {}.

    By default a study has no evaluations, and nor has the run of its best trial on fresh seeds.
    """
    best = study.summary.get("best")
    if not isinstance(best, dict) or study.run is None or study.run.evaluations or not study.best:
        return {}
    is_this = best.get("trial") == study.numbers[study.best[0]] and _is_number(best.get("fresh_score"))
    return best if is_this else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and bool(np.isfinite(value))


def _figures(study: Study, fresh: Facts | None) -> list[tuple]:
    figures: list[tuple] = []
    if trained := _training_score(study):
        low, high = trained.get("fresh_low"), trained.get("fresh_high")
        about = f"95\u00a0% interval {interval(low, high)}" if _is_number(low) and _is_number(high) else "mean"
        seeds = counted(trained.get("fresh_seeds", 0), "seed")
        figures.append(("on fresh seeds", number(trained["fresh_score"]), f"{about}, {seeds}"))
    elif fresh is not None and fresh.is_evaluated:
        again = fresh.score_of_settings[0]
        middle = again["iqm"] if again["members"] >= FEWEST else again["mean"]
        span = f"95\u00a0% interval {interval(again.get('iqm_low'), again.get('iqm_high'))}"
        about = "the same for all" if again["min"] == again["max"] else span if again["members"] >= FEWEST else "mean"
        figures.append(("on fresh seeds", number(middle), f"{about}, {counted(again['members'], 'seed')}"))
    if study.best and len(study.objectives) == 1:
        figures.append(("in the study", number(float(study.scores[study.best[0], 0])), "score of the best trial"))
    parts = [f"{study.count(state):,} {words}" for state, words in STATES.items() if study.count(state)]
    figures.append(("trials", f"{len(study):,}", ", ".join(parts)))
    seconds = max((part.get("seconds", 0) for part in _workers(study).values()), default=0)
    if seconds:
        figures.append(("time", seconds_in_words(seconds), f"{number(3600 * len(study) / seconds)} trials per hour"))
    return figures


def _warnings(study: Study, fresh: Facts | None) -> list[Html]:
    notes = [with_code(damage) for damage in study.damages]
    asked = study.spec.get("trials")
    done = sum(study.count(state) for state in (COMPLETE, PRUNED, FAILED))
    if isinstance(asked, int) and done < asked:
        notes.append(
            joined([tag("strong", "This study is not finished."), f" {done:,} of {asked:,} trials have ended."])
        )
    if failed := study.count(FAILED):
        verb = "has" if failed == 1 else "have"
        notes.append(joined([tag("strong", f"{counted(failed, 'trial')} failed"), f" and {verb} no score."]))
    if not len(study):
        notes.append(tag("span", "There is no table of trials yet (trials.csv)."))
    if study.best and fresh is None and len(study.objectives) == 1:
        notes.append(
            tag("span", "The best trial was not trained again on fresh seeds, so its score is too high on average.")
        )
    return notes + ([joined([tag("strong", "Fresh seeds: "), note]) for note in fresh.warnings()] if fresh else [])


def _history_section(study: Study) -> Section | None:
    """Scores in the order of the trials, with the best so far; of two objectives, one over the other."""
    if not study.complete.any():
        return None
    if len(study.objectives) > 1:
        return Section("history", "Trade-off", [_front(study)])
    scores, numbers = study.scores[:, 0], study.numbers
    pruned = np.array([state == PRUNED for state in study.states], bool) & np.isfinite(scores)
    order = np.argsort(numbers[study.complete], kind="stable")
    ended = np.flatnonzero(study.complete)[order]
    sign = -1.0 if study.directions[0] == "minimize" else 1.0
    best = sign * np.maximum.accumulate(sign * scores[ended])
    steps = np.union1d(np.flatnonzero(np.diff(best, prepend=np.nan)), [len(best) - 1])  # where it changes, and the end
    marks: list[Mark] = [
        Dots(numbers[pruned][:MOST_DOTS], scores[pruned][:MOST_DOTS], "faint c6"),
        Dots(numbers[ended][:MOST_DOTS], scores[ended][:MOST_DOTS], "faint c0"),
        Line(np.repeat(numbers[ended[steps]], 2)[1:], np.repeat(best[steps], 2)[:-1], "c1", "best so far"),
    ]
    legend = [("c0 dotted", "trained to the end"), ("c1", "best so far")]
    legend[1:1] = [("c6 dotted", "pruned (its last score)")] if pruned.any() else []
    made = chart(
        marks,
        "trial",
        "score",
        about="scores of the trials",
        legend=legend,
        x_words=number,
        tight_x=False,
        whole_x=True,
    )
    return Section("history", "History", [made])


def _front(study: Study) -> Html:
    first, second = study.objectives[:2]
    rows = np.flatnonzero(study.complete)
    front = sorted(study.best, key=lambda row: study.scores[row, 0])
    marks: list[Mark] = [
        Dots(study.scores[rows, 0], study.scores[rows, 1], "faint c0"),
        Line(study.scores[front, 0], study.scores[front, 1], "c1"),
        Dots(study.scores[front, 0], study.scores[front, 1], "c1"),
    ]
    legend = [("c0 dotted", "trial"), ("c1", "Pareto front")]
    logs = [is_logarithmic(study.scores[rows, i]) for i in (0, 1)]
    return chart(
        marks,
        first,
        second,
        about=f"{second} over {first}",
        legend=legend,
        x_words=number,
        tight_x=False,
        log_x=logs[0],
        log_y=logs[1],
    )


def _best_section(study: Study, fresh: Facts | None) -> Section | None:
    if not study.best:
        return None
    parts: list[Any] = []
    if len(study.best) == 1:
        rows = [
            (tag("code", path), number(v) if isinstance(v, float) else v)
            for path, v in study.parameters_of(study.best[0]).items()
        ]
        parts.append(pairs(rows))
    else:
        parts += _front_table(study)
    if (text := _text(study.folder / BEST)) is not None:
        saved = tag("a", BEST, href=data_address("application/toml", text.encode()), download=BEST)
        parts += [tag("p", saved, " is a preset with these values:"), folded("Show it", code_block(text))]
        words = [study.run.agent, study.run.env] if study.run else []
        parts.append(code_block(shlex.join(["shoal", "train", *words, "--preset", str(study.folder / BEST)])))
    if fresh is not None and fresh.curves and np.isfinite(fresh.curves["train_return"]).any():
        curves = fresh.data.curves()
        parts += [tag("h3", "Trained again on fresh seeds"), show(curves_chart(curves, curves, "seed"))]
    return Section("best", "Best trial" if len(study.best) == 1 else "Best trials", parts)


def _front_table(study: Study) -> list[Html]:
    """The trials of the Pareto front, and the command that writes one as a preset."""
    rows = [
        [
            Cell(f"{study.numbers[row]}", int(study.numbers[row])),
            *(Cell(number(float(value)), float(value)) for value in study.scores[row]),
            *(_cell(values[row]) for values in study.parameters.values()),
        ]
        for row in study.best[:MOST_TRIALS]
    ]
    head = ["trial", *study.objectives, *(tag("code", path) for path in study.parameters)]
    chosen = ["shoal", "trials", str(study.folder), "--preset", str(study.numbers[study.best[0]])]
    words = "Choose one of these; this command prints a trial as a preset:"
    return [table(head, rows, sortable=True), tag("p", words), code_block(f"{shlex.join(chosen)} > chosen.toml")]


def _slices_section(study: Study) -> Section | None:
    """A chart of the score over each hyperparameter that took several values."""
    if not study.complete.any():
        return None
    varied = {path: values for path, values in study.parameters.items() if len({str(v) for v in values}) > 1}
    parts: list[Any] = []
    for index, objective in enumerate(study.objectives[:2]):
        found = slices(
            varied, np.where(study.complete, study.scores[:, index], np.nan), "a trial that was trained to the end"
        )
        parts += [tag("h3", objective), *found[1:]] if len(study.objectives) > 1 else found[1:]
    return Section("slices", "Score by hyperparameter", parts)


def _trials_section(study: Study) -> Section | None:
    if not len(study):
        return None
    scores = np.where(np.isnan(study.scores[:, 0]), -np.inf, study.scores[:, 0])
    sign = -1.0 if study.directions[0] == "minimize" else 1.0
    order = sorted(range(len(study)), key=lambda row: (study.states[row] != COMPLETE, -sign * scores[row]))[
        :MOST_TRIALS
    ]
    extra = [name for name in ("records", "seconds", "worker", "group") if name in study.columns]
    paths = [*study.parameters]
    rows = [
        [
            Cell(f"{study.numbers[row]}", int(study.numbers[row])),
            *(Cell(number(float(value)), float(value)) for value in study.scores[row]),
            Cell(tag("span", STATES.get(study.states[row], study.states[row]), class_="tag")),
            *(_cell(study.parameters[path][row]) for path in paths),
            *(_cell(study.columns[name][row]) for name in extra),
        ]
        for row in order
    ]
    head = ["trial", *(study.objectives or ["score"]), "state", *(tag("code", path) for path in paths), *extra]
    more = f"The best {len(order)} of {len(study):,} trials; trials.csv has all." if len(order) < len(study) else ""
    return Section(
        "trials", "Trials", [tag("p", more, class_="soft") if more else None, table(head, rows, sortable=True)]
    )


def _pictures_section(study: Study) -> Section | None:
    """Optuna's figures, as far as the folder has them as PNG."""
    folder = study.folder / "figures"
    found, left_out = [], []
    for path in sorted(folder.glob("*.png")) if folder.is_dir() else []:
        try:
            with opened(path) as file:
                size, content = size_of(file), b"" if size_of(file) > LARGEST else file.read()
        except (OSError, DamagedError):
            continue
        if content[:8] == b"\x89PNG\r\n\x1a\n":
            words = path.stem.replace("_", " ").replace("-", " ")
            picture = tag("img", src=data_address("image/png", content), alt=words, class_="picture")
            found += [tag("h3", f"{words[:1].upper()}{words[1:]}"), picture]
        elif size > LARGEST:
            left_out.append(
                tag("p", tag("code", path.name), f" is not shown here: it has {size_in_words(size)}.", class_="soft")
            )
    return Section("figures", "Optuna's figures", [*found, *left_out]) if found or left_out else None


def _search_section(study: Study) -> Section:
    """What was asked: the ranges, and what is the same in all trials; and how busy the slots of the workers were."""
    search = study.spec.get("search")
    ranges = [[tag("code", path), _range(span)] for path, span in search.items()] if isinstance(search, dict) else []
    rows = [(name, _short(value)) for name, value in study.spec.items() if name not in ("search", "run")]
    run = study.run
    rows += (
        [(name.replace("_", " "), f"{getattr(run, name):,}") for name in ("steps", "seeds", "records")] if run else []
    )
    fixed = [(tag("code", path), _short(exact(value))) for path, value in fields_to_set(run).items()] if run else []
    parts: list[Any] = [table(["hyperparameter", "range"], ranges) if ranges else None, pairs(rows)]
    parts += [tag("h3", "The same in all trials"), pairs(fixed)] if fixed else []
    return Section("asked", "What was asked", [*parts, *_workers_table(study)])


def _workers_table(study: Study) -> list[Any]:
    workers = _workers(study)
    if not workers:
        return []
    rows = [
        [
            name,
            *(_share(part.get(key)) for key in ("busy", "busy_until_last", "training")),
            _seconds(part.get("seconds")),
        ]
        for name, part in workers.items()
    ]
    head = ["worker", "slots with a trial", "until the last trial began", "time in training", "time"]
    about = "Shares of the time of all slots, and of the time in which the compiled program trained."
    return [tag("h3", "Workers"), table(head, rows, sortable=True), tag("p", about, class_="soft")]


def _workers(study: Study) -> dict[str, dict[str, Any]]:
    workers = study.summary.get("workers")
    return {k: v for k, v in workers.items() if isinstance(v, dict)} if isinstance(workers, dict) else {}


def _share(value: Any) -> Cell:
    is_known = isinstance(value, int | float)
    return Cell(f"{100 * value:.1f}\u00a0%" if is_known else "–", float(value) if is_known else float("nan"))


def _seconds(value: Any) -> Cell:
    is_known = isinstance(value, int | float)
    return Cell(seconds_in_words(value if is_known else None), float(value) if is_known else float("nan"))


def _reproduce_section(study: Study) -> Section:
    about = (
        "With several workers, what a sampler suggests depends on which trials have ended by then, so a study may try "
        "other values when it is repeated. Every single trial can be repeated: it is the same training as that of "
        "`shoal train` with its hyperparameters."
    )
    note = tag("p", with_code(about), class_="soft")
    run, spec = study.run, study.spec
    if run is None:
        return Section("reproduce", "How to reproduce it", [note])
    words = ["shoal", "tune", run.agent, run.env]
    for name in ("trials", "parallel", "sampler", "pruner", "score"):
        words += [f"--{name}", str(spec[name])] if spec.get(name) is not None else []
    for name in ("steps", "seeds", "records"):
        words += [f"--{name}", str(getattr(run, name))]
    for path, value in fields_to_set(run).items():
        words += [] if isinstance(value, Described) else [f"--{path.replace('_', '-')}", exact(value)]
    search = spec.get("search")
    for path, span in search.items() if isinstance(search, dict) else ():
        words += ["--search", f"{path}={_range(span)}"]
    return Section("reproduce", "How to reproduce it", [code_block(shlex.join(words)), note])


def _range(span: Any) -> str:
    """Return a range of study.json as `--search` takes it: `log(0.0001,0.01)`, `5..15`, `adam|sgd`."""
    if not isinstance(span, list):
        return _short(span)
    if len(span) == 3 and span[2] in SCALES:
        low, high = (exact(value) for value in span[:2])
        return f"{low}..{high}" if span[2] == "linear" else f"{span[2]}({low},{high})"
    return "|".join(exact(value) for value in span)


def _text(path: Path) -> str | None:
    try:
        with opened(path) as file:
            return file.read(100_000).decode("utf-8")
    except (OSError, DamagedError, UnicodeDecodeError):
        return None


def _cell(value: Any) -> Cell:
    if isinstance(value, float):
        return Cell(number(value), value)
    try:
        return Cell(number(float(value)), float(value))
    except (TypeError, ValueError):
        return Cell("" if value is None else str(value))


def _short(value: Any) -> str:
    words = (
        ", ".join(map(_short, value))
        if isinstance(value, list)
        else number(value)
        if isinstance(value, float)
        else str(value)
    )
    return words if len(words) <= SHORT else f"{words[:SHORT]}…"
