"""How well what an evolution has found trains agents from the beginning, in its environments and in others."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shoal.ops.aggregates import AGGREGATES, Estimate, estimate, paired_difference
from shoal.training.compare import compare

START, FOUND = "start", "found"
TRANSFER = "normalized returns with new seeds, with 95 % intervals; differences are paired by seed"
TRANSFER_HEAD = ("environment", "", "seeds", START, FOUND, "difference")
IN_WORDS = {START: "the start", FOUND: "the end of the search"}


class Pairs(NamedTuple):
    """The normalized scores [S] in one environment with the values of the start, and with those that were found."""

    start: np.ndarray
    found: np.ndarray
    about: str  # the returns that are normalized to 0 and to 1


def transfer_rows(
    folders: Mapping[tuple[str, str], Path], trained: Collection[str], metric: str
) -> list[dict[str, Any]]:
    """Return a row for each environment, then the means over the environments, as data for `summary.json`.

    `folders` has the run folders by environment and `START` or `FOUND`; the evolution trained in those in `trained`.
    Scores are those of `shoal.compare` with this `metric`, paired by seed.
    """
    rows, known = [], dict[str, Pairs]()
    for env in dict.fromkeys(env for env, _ in folders):
        row = {"env": env, "held_out": env not in trained, "metric": metric}
        try:
            known[env] = _pairs(folders[env, START], folders[env, FOUND], metric)
        except ValueError as error:  # no seed has a score
            rows.append({**row, "seeds": 0, "about": str(error)})
            continue
        rows.append({**row, **_row([known[env]]), "about": known[env].about})
    for held_out in (False, True):
        inside = [pairs for env, pairs in known.items() if (env not in trained) == held_out]
        if len(inside) > 1:
            about = f"mean over {len(inside)} environments"
            rows.append({"env": "", "held_out": held_out, "metric": metric, **_row(inside), "about": about})
    return rows


def _pairs(start: Path, found: Path, metric: str) -> Pairs:
    """Return the pairs of two runs in one environment. Raises ValueError if no seed has a score in both."""
    comparison = compare(start, found, metric=metric)
    (env,), cells = comparison.environments, [group.cells[0] for group in comparison.groups]
    scores = [dict(zip(cell.names, env.reference.normalized(cell.scores), strict=True)) for cell in cells]
    common = sorted({*scores[0]} & {*scores[1]})
    if not common:
        raise ValueError("no seed has a score with both values.")
    of_start, of_found = (np.array([of_run[name] for name in common]) for of_run in scores)
    return Pairs(of_start, of_found, env.reference.about)


def _row(pairs: Sequence[Pairs]) -> dict[str, Any]:
    start, found = [own.start for own in pairs], [own.found for own in pairs]
    return {
        "seeds": min(map(len, start)),
        START: _named(estimate(AGGREGATES["mean"], start)),
        FOUND: _named(estimate(AGGREGATES["mean"], found)),
        "difference": _named(paired_difference(found, start)),
    }


def _named(found: Estimate) -> dict[str, float]:
    return {name: float(value) for name, value in found._asdict().items()}


def cells_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[Any]]:
    """Return the rows as cells below `TRANSFER_HEAD`."""
    for row in rows:
        where = "held out" if row["held_out"] else "trained"
        numbers = [_in_words(row.get(name)) for name in (START, FOUND, "difference")]
        yield [row["env"] or "mean", where, row["seeds"], *numbers]


def references_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each environment: what is normalized to 0 and 1, or why it has no score."""
    known = [(row["env"], row["about"], row["seeds"]) for row in rows if row["env"]]
    return [f"{env}: 0 and 1 are {about}" if seeds else f"{env}: {about}" for env, about, seeds in known]


def _in_words(found: Mapping[str, Any] | None) -> str:
    """Return a mean with its interval; without one if there are too few seeds."""
    if found is None:
        return "no score"
    low, high = found["low"], found["high"]
    return f"{found['value']:.3f}" + ("" if low is None or low != low else f" [{low:.3f}, {high:.3f}]")
