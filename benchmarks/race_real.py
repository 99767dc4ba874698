"""Race real learners: ten comparisons that 64 seeds decide, and a learner against itself.

    python benchmarks/race_real.py comparisons     each as a race, and with all 64 seeds
    python benchmarks/race_real.py same            100 times q-learning on FrozenLake against itself
    python benchmarks/race_real.py --table         print the tables of docs/race.md

The comparisons were fixed before any of them was run; the first ten that 64 seeds decide count, and those that 64 seeds
do not decide are listed too. Each is run by `shoal.race`, and then all 64 seeds are trained by `shoal.train`: the
scores of the race must be theirs, to the last bit. The decision with 64 seeds is that of the same test with one look.
For "same" all seeds are trained at once, and the first --raced (10) races are also run by `shoal.race`.
Writes benchmarks/results/race-comparisons.json and race-same.json.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

import shoal
from shoal.ops.sequential import NEVER, Design, looks_of, statistics, verdicts
from shoal.ops.sequential import path as test_path
from shoal.training.records import member_scores

RESULTS = Path(__file__).parent / "results"
COMPARISONS_FILE, SAME_FILE = RESULTS / "race-comparisons.json", RESULTS / "race-same.json"
AT_MOST = 64
QUIET = {"progress": False, "evaluations": 2, "records": 4, "eval_episodes": 20}
COMPARISONS = (  # environment, steps, the fields of both contestants
    ("FrozenLake-v1", 20_000, ("q-learning", {}), ("q-learning", {"visit_power": 0.5})),
    ("FrozenLake-v1", 20_000, ("q-learning", {}), ("q-learning", {"discount": 0.9})),
    ("FrozenLake-v1", 20_000, ("q-learning", {}), ("q-learning", {"epsilon_end": 0.5})),
    ("FrozenLake-v1", 20_000, ("q-learning", {}), ("sarsa", {})),
    ("CliffWalking-v1", 10_000, ("q-learning", {}), ("sarsa", {})),
    ("CliffWalking-v1", 5_000, ("q-learning", {}), ("q-learning", {"learning_rate": 0.1})),
    ("Taxi-v4", 50_000, ("q-learning", {}), ("q-learning", {"learning_rate": 0.2})),
    ("Taxi-v4", 100_000, ("q-learning", {}), ("sarsa", {})),
    ("CartPole-v1", 30_000, ("ppo", {}), ("ppo", {"learning_rate": 3e-3})),
    ("CartPole-v1", 30_000, ("ppo", {}), ("a2c", {})),
    ("CartPole-v1", 30_000, ("ppo", {}), ("ppo", {"num_epochs": 2})),
    ("CartPole-v1", 30_000, ("ppo", {}), ("ppo", {"gae_lambda": 0.5})),
    ("CartPole-v1", 30_000, ("ppo", {}), ("ppo", {"entropy_coef": 0.1})),
    ("CartPole-v1", 30_000, ("ppo", {}), ("ppo", {"hidden": (16,)})),
    ("Acrobot-v1", 30_000, ("ppo", {}), ("ppo", {"discount": 0.9})),
    ("Acrobot-v1", 30_000, ("ppo", {}), ("a2c", {})),
)


def words(agent, fields):
    """The name of a contestant."""
    return " ".join([agent, *(f"{name}={value}".replace(" ", "") for name, value in fields.items())])


def all_seeds(env, steps, contestant, root):
    """The scores of 64 seeds of a contestant, without a race."""
    agent, fields = contestant
    options = {"fields": fields, "steps": steps, "seeds": AT_MOST, "figures": False, "root": root, **QUIET}
    return member_scores(shoal.train(agent, env, **options).curves)


def decided_by_all(scores):
    """Whether one look at 64 seeds decides, and for which of the two."""
    difference, design = scores[0] - scores[1], Design((AT_MOST,))
    found = test_path(statistics(difference, design), design.shares, design.alpha)
    return "open" if found.look == NEVER else "first" if difference.sum() > 0 else "second"


def compare(comparison):
    """A race and all seeds of one comparison."""
    env, steps, *contestants = comparison
    given = [{"agent": agent, "fields": fields, "name": words(agent, fields)} for agent, fields in contestants]
    with tempfile.TemporaryDirectory() as root:
        begun = time.perf_counter()
        found = shoal.race(*given, env=env, steps=steps, root=root, **QUIET)
        seconds = time.perf_counter() - begun
        whole = [all_seeds(env, steps, contestant, root) for contestant in contestants]
        raced = [found.scores[name] for name in (one["name"] for one in given)]
        is_same = all(np.array_equal(some, every[: len(some)]) for some, every in zip(raced, whole, strict=True))
        (pair,) = found.pairs
    row = {"env": env, "steps": steps, "contestants": [one["name"] for one in given]}
    row |= {"race": pair.outcome, "seeds": pair.seeds, "all": decided_by_all(whole), "same_bits": is_same}
    row |= {"sentence": pair.sentence, "seconds": seconds, "scores": [scores.tolist() for scores in whole]}
    print({name: value for name, value in row.items() if name != "scores"}, flush=True)
    return row


def against_itself(races, raced):
    """Races of q-learning with itself: the seeds of the second one have other random numbers.

    All seeds are trained in two runs. The decision of a race follows from their scores; the first `raced` races are
    also run by `shoal.race`, and must decide the same.
    """
    found = []
    with tempfile.TemporaryDirectory() as root:
        options = {"steps": 10_000, "seeds": AT_MOST * races, "figures": False, "root": root, **QUIET}
        every = [member_scores(shoal.train("q-learning", "FrozenLake-v1", seed=i, **options).curves) for i in (0, 1)]
        for n in range(races):
            scores = [scores[AT_MOST * n : AT_MOST * (n + 1)] for scores in every]
            verdict = verdicts(scores, Design(looks_of(AT_MOST, 8)))[0, 1]
            row = {"first_seed": AT_MOST * n, "outcome": verdict.outcome, "raced": n < raced}
            if n < raced:
                given = [{"agent": "q-learning", "name": name, "seed": i} for i, name in enumerate("ab")]
                race = shoal.race(
                    *given, env="FrozenLake-v1", steps=10_000, first_seed=AT_MOST * n, root=root, check=False, **QUIET
                )
                same = all(np.array_equal(x, y[: len(x)]) for x, y in zip(race.scores.values(), scores, strict=True))
                assert same and race.pairs[0].outcome == verdict.outcome
            print(row, flush=True)
            found.append(row)
    SAME_FILE.write_text(json.dumps({"races": found}, indent=1) + "\n")


def keep(file, rows_of, name):
    """Write the rows after each one; those that the file has are not made again."""
    rows = json.loads(file.read_text())[name] if file.exists() else []
    for make in rows_of[len(rows) :]:
        rows.append(make())
        file.write_text(json.dumps({name: rows}, indent=1) + "\n")


def print_tables():
    """The tables of docs/race.md."""
    rows = json.loads(COMPARISONS_FILE.read_text())["comparisons"]
    print("| environment | contestants | 64 seeds | race | seeds |\n| --- | --- | --- | --- | --- |")
    for row in rows:
        names = dict(zip(("first", "second"), row["contestants"], strict=True)) | {"open": "not decided"}
        cells = [row["env"], " against ".join(row["contestants"]), names[row["all"]], names[row["race"]]]
        print(f"| {' | '.join([*cells, str(row['seeds'])])} |")
    counted = [row for row in rows if row["all"] != "open"][:10]
    used = np.mean([row["seeds"] for row in counted]) / AT_MOST
    same = sum(row["race"] == row["all"] for row in counted)
    bits = all(row["same_bits"] for row in rows)
    print(f"\nthe first {len(counted)} that 64 seeds decide: {same} same decisions with {used:.0%} of the seeds")
    print(f"raced seeds have the same bits: {bits}")
    if SAME_FILE.exists():
        rows = json.loads(SAME_FILE.read_text())["races"]
        false = sum(row["outcome"] != "open" for row in rows)
        low, high = binomtest(false, len(rows)).proportion_ci()
        print(
            f"q-learning against itself: {false} false decisions in {len(rows)} races ({low:.1%} to {high:.1%}), ",
            end="",
        )
        print(f"{sum(row['raced'] for row in rows)} of them by `shoal.race`")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("comparisons", "same"))
    parser.add_argument("--races", type=int, default=100)
    parser.add_argument("--raced", type=int, default=10)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.what == "comparisons" and not args.table:
        keep(COMPARISONS_FILE, [lambda c=c: compare(c) for c in COMPARISONS], "comparisons")
    if args.what == "same" and not args.table:
        against_itself(args.races, args.raced)
    print_tables()
