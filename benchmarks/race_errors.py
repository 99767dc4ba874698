"""Measure how often `shoal race` decides falsely, by simulation: races between learners that do not differ.

    python benchmarks/race_errors.py [--races N] [--only SCORES] [--out FILE] [--table]

Scores are normal, skewed (log-normal), bimodal (30 % of the seeds fail) or 0 and 1, or resampled from the 64 returns of
real runs (benchmarks/results/race-comparisons.json, where it exists). Seeds are shared: half of the variance of what is
transformed. A race has 2 or 3 learners of the same distribution, or 2 that differ by exactly the margin, for which "no
difference" is false. For comparison the same looks with a paired t-test at 5 % each. The last rows break the assumption
of the test: two learners of the same mean, of which one has skewed scores and the other one has scores that are nearly
constant. Writes benchmarks/results/race-errors.json after every row, and prints the table of docs/correctness.md;
--table only prints it. Rows that the file has are not measured again. 1,000 races of every kind take about ten minutes
on one core.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.stats import binomtest, ttest_rel

from shoal.ops.sequential import FIRST, NO_DIFFERENCE, SECOND, Design, looks_of, verdicts

RESULTS = Path(__file__).parent / "results"
OUT, REAL = RESULTS / "race-errors.json", RESULTS / "race-comparisons.json"
ALPHA, AT_MOST, BATCH = 0.05, 64, 8
MARGIN = 0.3  # of the learners that differ by it; a standard deviation of the normal scores
STEP = np.array([[MARGIN], [0.0]])
SHAPES = {
    "normal": lambda z: 0.3 * z,
    "skewed": lambda z: 0.25 * (np.exp(z) - np.exp(0.5)),
    "bimodal": lambda z: np.where(z > -0.5244, 0.3, -0.7) + 0.02 * z,
    "0 or 1": lambda z: (z > 0).astype(float),
}


def draw(shape, learners, random):
    """Scores [learners, seeds] of one distribution."""
    shared, own = random.standard_normal((1, AT_MOST)), random.standard_normal((learners, AT_MOST))
    return SHAPES[shape](np.sqrt(0.5) * (shared + own))


def resampled(returns, learners, random):
    """Returns of real runs, drawn with replacement: [learners, seeds]."""
    return random.choice(returns, (learners, AT_MOST))


def unequal(shape, random):
    """Scores of the same mean, skewed in one learner and nearly constant in the other one."""
    first = draw(shape, 1, random)[0]
    mean = {"skewed": 0.0, "0 or 1": 0.5}[shape]
    return np.stack([first, mean + 0.01 * random.standard_normal(AT_MOST)])


def is_false(scores, design, wrong):
    """Whether a race decides a pair as it must not."""
    return any(verdict.outcome in wrong for verdict in verdicts([*scores], design).values())


def t_test_decides(scores):
    """Whether a paired t-test at one of the looks finds a difference between two of the learners."""
    pairs = [(a, b) for a in range(len(scores)) for b in range(a)]
    with np.errstate(all="ignore"):
        return any(
            ttest_rel(scores[a, :seeds], scores[b, :seeds]).pvalue <= ALPHA / len(pairs)
            for seeds in looks_of(AT_MOST, BATCH)
            for a, b in pairs
        )


def measure(about, scores_of, races, margin):
    """The false decisions in so many races, with the 95 % interval of their probability (Clopper and Pearson)."""
    random = np.random.default_rng([races, *map(ord, "".join(map(str, about.values())))])
    found = [scores_of(random) for _ in range(races)]
    wrong = {NO_DIFFERENCE} if margin else {FIRST, SECOND}
    designs = (Design(looks_of(AT_MOST, BATCH), ALPHA, margin, seed) for seed in range(races))
    false = sum(is_false(scores, design, wrong) for scores, design in zip(found, designs, strict=True))
    low, high = binomtest(false, races).proportion_ci()
    row = {**about, "races": races, "false": false, "low": low, "high": high}
    row["t-test"] = None if margin else sum(map(t_test_decides, found))
    print(row, flush=True)
    return row


def kinds():
    """Every kind of race: (its description, scores by a generator, margin)."""
    for shape in SHAPES:
        for learners in (2, 3):
            about = {"scores": shape, "learners": learners, "race": "no difference"}
            yield about, lambda random, s=shape, n=learners: draw(s, n, random), 0.0
    if REAL.exists():
        for name, returns in real_returns().items():
            about = {"scores": f"returns of {name}", "learners": 2, "race": "no difference"}
            yield about, lambda random, r=returns: resampled(r, 2, random), 0.0
    for shape in SHAPES:
        about = {"scores": shape, "learners": 2, "race": "differ by the margin"}
        yield about, lambda random, s=shape: draw(s, 2, random) + STEP, MARGIN
    for shape in ("skewed", "0 or 1"):
        about = {"scores": shape, "learners": 2, "race": "same mean, other shape"}
        yield about, lambda random, s=shape: unequal(s, random), 0.0


def measure_all(file, races, only):
    """Measure every kind whose scores have `only` in their name, unless the file has it, and add it to the file."""
    rows = json.loads(file.read_text())["rows"] if file.exists() else []
    for about, scores_of, margin in kinds():
        is_known = any({**row, **about, "races": races} == row for row in rows)
        if only in about["scores"] and not is_known:
            rows.append(measure(about, scores_of, races, margin))
            found = {"alpha": ALPHA, "looks": looks_of(AT_MOST, BATCH), "margin": MARGIN, "rows": rows}
            file.write_text(json.dumps(found, indent=1) + "\n")


def real_returns():
    """The returns of one learner in every environment of the real comparisons, by name."""
    found = {}
    for comparison in json.loads(REAL.read_text())["comparisons"]:
        found.setdefault(comparison["env"], (comparison["contestants"][0], comparison["scores"][0]))
    return {f"{learner}, {env}": np.array(scores, float) for env, (learner, scores) in found.items()}


def table(found):
    """The table of docs/correctness.md."""
    head = ["scores", "learners", "race", "races", "false decisions", "95 % interval", "t-test at every look"]
    lines = [head, ["---"] * len(head)]
    for row in found:
        share, low, high = (f"{100 * x:.1f}" for x in (row["false"] / row["races"], row["low"], row["high"]))
        other = "" if row["t-test"] is None else f"{100 * row['t-test'] / row['races']:.1f} %"
        about = [row["scores"], str(row["learners"]), row["race"], f"{row['races']:,}"]
        lines.append([*about, f"{share} %", f"{low} to {high} %", other])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--races", type=int, default=1000)
    parser.add_argument("--only", default="", help="a part of the name of the scores")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if not args.table:
        measure_all(args.out, args.races, args.only)
    print(table(json.loads(args.out.read_text())["rows"]), end="")
