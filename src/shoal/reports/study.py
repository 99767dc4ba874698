"""The report of a study: its best trial on fresh seeds, its history, and how the score depends on hyperparameters."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shoal.core.errors import DamagedError
from shoal.core.ranges import SCALES
from shoal.ops.statistics import FEWEST
from shoal.reports.chart import show
from shoal.reports.facts import Facts
from shoal.reports.hyperparameters import fields_to_set
from shoal.reports.markup import Cell, Html, cell, code, code_block, joined, render, soft, table, tag, with_code
from shoal.reports.members import slices
from shoal.reports.page import Section, data_address, key_figures, page, warning_box
from shoal.reports.trials import BEST, COMPLETE, FAILED, FRESH, PRUNED, RUNNING, WAITING, Study, is_study
from shoal.reports.videos import read_picture
from shoal.reports.words import counted, interval, score_in_words, seconds_in_words
from shoal.specs.describe import Described
from shoal.training.reading import opened
from shoal.viz.chart import Chart, Dots, Line, Mark
from shoal.viz.curves import curves_chart
from shoal.viz.scale import is_logarithmic
from shoal.viz.words import NONE, exact, number

__all__ = ["is_study", "study_report"]

MOST_TRIALS = 60  # rows of the table
MOST_DOTS = 4000  # trials in the history
SHORT = 200  # characters of a value of study.json that are shown
INTERVAL = "95\u00a0% interval"
SHARES = {
    "busy": "slots with a trial",
    "busy_until_last": "until the last trial began",
    "training": "time in training",
}
STATES = {COMPLETE: "trained to the end", PRUNED: "pruned", FAILED: "failed", RUNNING: "running", WAITING: "waiting"}


def study_report(folder: Path) -> Html:
    """Return the page of a study. Raises DamagedError for a damaged `study.json`."""
    study = Study(folder)
    fresh = _fresh(study)
    score = _fresh_score(study, fresh)
    summary = [
        _in_words(study, fresh, score),
        key_figures(_figures(study, score)),
        warning_box(_warnings(study, fresh)),
    ]
    sections = [
        _history_section(study),
        _best_section(study, fresh),
        _slices_section(study),
        _trials_section(study),
        _pictures_section(study),
        _search_section(study),
        _reproduce_section(study),
    ]
    under = joined([code(study.name), counted(len(study), "trial")], " · ")
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


class Score(NamedTuple):
    """The score of the best trial on fresh seeds."""

    middle: float
    about: str  # its interval, or why it has none
    seeds: int
    words: str  # in a sentence or two


def _fresh_score(study: Study, fresh: Facts | None) -> Score | None:
    """The score of the best trial on fresh seeds; None without one.

    By default a study has no evaluations, and nor has the run of its best trial on fresh seeds: then its score is a
    return of training, which `summary.json` has.
    """
    best = study.summary.get("best")
    best = best if isinstance(best, dict) and study.best else {}
    is_best = "trial" in best and best["trial"] == study.numbers[study.best[0]]
    is_of_training = study.run is not None and not study.run.evaluations
    if is_best and is_of_training and _is_number(best.get("fresh_score")):
        low, high = best.get("fresh_low"), best.get("fresh_high")
        about = f"{INTERVAL} {interval(low, high)}" if _is_number(low) and _is_number(high) else "mean"
        words = f"{str(best.get('words', '')).partition('. ')[0]}. Scores are returns of training episodes."
        return Score(best["fresh_score"], about, best.get("fresh_seeds", 0), words)
    if fresh is None or not fresh.is_evaluated:
        return None
    again = fresh.score_of_settings[0]
    has_interval = again["members"] >= FEWEST
    about = f"{INTERVAL} {interval(again.get('iqm_low'), again.get('iqm_high'))}" if has_interval else "mean"
    about = "the same for all" if again["min"] == again["max"] else about
    middle = again["iqm"] if has_interval else again["mean"]
    return Score(middle, about, again["members"], score_in_words(again, "seed"))


def _in_words(study: Study, fresh: Facts | None, score: Score | None) -> Html:
    row = study.best[0] if study.best else None
    return render(
        "study",
        study=study,
        complete=int(study.complete.sum()),
        trial=None if row is None else study.numbers[row],
        in_study=None if row is None else float(study.scores[row, 0]),
        setting=None if row is None else study.parameters_of(row),
        fresh=fresh if fresh is not None and fresh.is_evaluated else None,
        score=score,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and bool(np.isfinite(value))


def _figures(study: Study, score: Score | None) -> list[tuple]:
    figures: list[tuple] = []
    if score:
        figures.append(("on fresh seeds", number(score.middle), f"{score.about}, {counted(score.seeds, 'seed')}"))
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
            Html("<strong>This study is not finished.</strong> {:,} of {:,} trials have ended.").format(done, asked)
        )
    if failed := study.count(FAILED):
        verb = "has" if failed == 1 else "have"
        notes.append(Html("<strong>{} failed</strong> and {} no score.").format(counted(failed, "trial"), verb))
    if not len(study):
        notes.append(Html("There is no table of trials yet (trials.csv)."))
    if study.best and fresh is None and len(study.objectives) == 1:
        notes.append(Html("The best trial was not trained again on fresh seeds, so its score is too high on average."))
    return notes + [
        Html("<strong>Fresh seeds: </strong>{}").format(note) for note in (fresh.warnings() if fresh else ())
    ]


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
    made = Chart(marks, "trial", "score", "scores of the trials", legend, x_words=number, tight_x=False, whole_x=True)
    return Section("history", "History", [show(made)])


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
    log_x, log_y = (is_logarithmic(study.scores[rows, i]) for i in (0, 1))
    about = f"{second} over {first}"
    return show(Chart(marks, first, second, about, legend, "", "", log_x, log_y, x_words=number, tight_x=False))


def _best_section(study: Study, fresh: Facts | None) -> Section | None:
    if not study.best:
        return None
    rows, preset = study.best[:MOST_TRIALS], study.folder / BEST
    text, run = _text(preset), [study.run.agent, study.run.env] if study.run else []
    curves = (
        fresh.data.curves() if fresh is not None and np.isfinite(fresh.curves.get("train_return", np.nan)).any() else []
    )
    made = render(
        "best_trial",
        study=study,
        front=_trials_table(study, rows) if len(study.best) > 1 else None,
        values={path: number(v) if isinstance(v, float) else v for path, v in study.parameters_of(rows[0]).items()},
        chosen=shlex.join(["shoal", "trials", str(study.folder), "--preset", str(study.numbers[rows[0]])]),
        text=text,
        name=BEST,
        saved=data_address("application/toml", (text or "").encode()),
        command=shlex.join(["shoal", "train", *run, "--preset", str(preset)]),
        curves=show(curves_chart(curves, curves, "seed")) if curves else None,
    )
    return Section("best", "Best trial" if len(study.best) == 1 else "Best trials", [made])


def _trials_table(study: Study, rows: Sequence[int], extra: Sequence[str] = (), *, with_state: bool = False) -> Html:
    """The table of some trials: their scores, their parameters, and `extra` columns of `trials.csv`."""
    states = [
        [tag("span", STATES.get(study.states[row], study.states[row]), class_="tag")] * with_state for row in rows
    ]
    columns = [*study.parameters.values(), *(study.columns[name] for name in extra)]
    cells = [
        [*map(cell, (int(study.numbers[row]), *study.scores[row])), *state, *(_cell(column[row]) for column in columns)]
        for row, state in zip(rows, states, strict=True)
    ]
    scores = study.objectives or ["score"]
    head = ["trial", *scores, *["state"] * with_state, *map(code, study.parameters), *extra]
    return table(head, cells, sortable=True)


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
    order = sorted(range(len(study)), key=lambda row: (study.states[row] != COMPLETE, -sign * scores[row]))
    shown = order[:MOST_TRIALS]
    extra = [name for name in ("records", "seconds", "worker", "group") if name in study.columns]
    more = f"The best {len(shown)} of {len(study):,} trials; trials.csv has all."
    parts = [soft(more) if len(shown) < len(order) else None, _trials_table(study, shown, extra, with_state=True)]
    return Section("trials", "Trials", parts)


def _pictures_section(study: Study) -> Section | None:
    """Optuna's figures, as far as the folder has them as PNG."""
    parts: list[Html] = []
    for path in sorted((study.folder / "figures").glob("*.png")):
        content, words = read_picture(path), path.stem.replace("_", " ").replace("-", " ")
        if isinstance(content, bytes):
            picture = tag("img", src=data_address("image/png", content), alt=words, class_="picture")
            parts += [tag("h3", f"{words[:1].upper()}{words[1:]}"), picture]
        else:
            parts.append(soft(code(path.name), f" is not shown here: {content}."))
    return Section("figures", "Optuna's figures", parts) if parts else None


def _search_section(study: Study) -> Section:
    """The section on the search: ranges, options of all trials, and how busy the slots of the workers were."""
    run, asked = study.run, study.spec.items()
    rows = [(name, _short(value)) for name, value in asked if name not in ("search", "run")]
    if run:
        rows += [(name.replace("_", " "), f"{getattr(run, name):,}") for name in ("steps", "seeds", "records")]
    workers = [
        [name, *map(_share, map(part.get, SHARES)), _seconds(part.get("seconds"))]
        for name, part in _workers(study).items()
    ]
    made = render(
        "search",
        ranges=[[code(path), _range(span)] for path, span in study.searched.items()],
        rows=rows,
        fixed=[(code(path), _short(exact(value))) for path, value in fields_to_set(run).items()] if run else [],
        workers=workers,
        head=["worker", *SHARES.values(), "time"],
    )
    return Section("asked", "What was asked", [made])


def _workers(study: Study) -> dict[str, dict[str, Any]]:
    workers = study.summary.get("workers")
    return {k: v for k, v in workers.items() if isinstance(v, dict)} if isinstance(workers, dict) else {}


def _share(value: Any) -> Cell:
    return cell(value, f"{100 * value:.1f}\u00a0%") if isinstance(value, int | float) else cell(None, NONE)


def _seconds(value: Any) -> Cell:
    known = value if isinstance(value, int | float) else None
    return cell(known, seconds_in_words(known))


def _reproduce_section(study: Study) -> Section:
    about = (
        "With several workers, what a sampler suggests depends on which trials have ended by then, so a study may try "
        "other values when it is repeated. Every single trial can be repeated: it is the same training as that of "
        "`shoal train` with its hyperparameters."
    )
    note = soft(with_code(about))
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
    for path, span in study.searched.items():
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
    try:
        return Cell("") if value is None else cell(float(value))
    except ValueError:
        return Cell(value)


def _short(value: Any) -> str:
    words = (
        ", ".join(map(_short, value))
        if isinstance(value, list)
        else number(value)
        if isinstance(value, float)
        else str(value)
    )
    return words if len(words) <= SHORT else f"{words[:SHORT]}…"
