"""Compare PBT, PB2 and successive halving with random search, for the same number of environment steps.

    python benchmarks/compare_selectors.py [--env NAME ...] [--repetitions N] [--members M] [--steps N] [--agent ppo]

All methods search the same ranges, those that the agent's hyperparameters declare, and train for the same number of
environment steps: `random` trains M members, one sample each, `pbt` and `pb2` train M with copies, and `halving` begins
with more members, of which it keeps a third after a fifth of the steps, and a third of these after three fifths.
Repetition r has seed r for all methods. The result of a repetition is the member with the best last
evaluation, played again for EPISODES fresh episodes with other random numbers than the evaluations of the run. Reported
are the interquartile mean over repetitions, its 95 % bootstrap interval, and the interval of the paired difference to
random search. Rows are written to results/selectors.json as they are measured, and those that are there are kept.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import shoal

shoal.prepare()  # before anything imports JAX

import numpy as np  # noqa: E402

from shoal.ops.aggregates import paired_difference  # noqa: E402
from shoal.ops.statistics import FEWEST, bootstrap_interval, iqm  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "selectors.json"
METHODS = ("random", "pbt", "pb2", "halving")
ENVS = ("Pendulum-v1", "Acrobot-v1")
RECORDS, EPISODES, SEED_OF_TEST = 20, 200, 12345
FIRST, ETA = 4, 3  # of halving


def selector_of(method: str) -> shoal.Selector:
    if method in ("pbt", "pb2"):
        return shoal.PBT() if method == "pbt" else shoal.PB2()
    return shoal.Halving(first=FIRST, eta=ETA) if method == "halving" else shoal.RandomSearch(every=RECORDS)


def members_of(method: str, members: int) -> int:
    """The largest number of members that a method can begin with and take at most the steps of `members` members."""
    return max(m for m in range(1, 20 * members) if trained_records(method, m) <= members * RECORDS)


def trained_records(method: str, members: int) -> int:
    """The records of all members together."""
    if method != "halving":
        return members * RECORDS
    total, last = 0, 0
    while last < RECORDS:
        rung = min(last * ETA or FIRST, RECORDS)
        total, last, members = total + members * (rung - last), rung, max(members // ETA, 1)
    return total


def repetition(method: str, agent: str, env: str, seed: int, members: int, steps: int) -> dict[str, Any]:
    """Train once with a method, and play the best member again: one row of the results."""
    with tempfile.TemporaryDirectory() as folder:
        begun = members_of(method, members)
        options = {
            "seeds": begun,
            "seed": seed,
            "steps": steps,
            "records": RECORDS,
            "evaluations": RECORDS,
        }
        quiet = {"preset": None, "figures": False, "progress": False, "eval_episodes": 20}
        selector = selector_of(method)
        result = shoal.train(agent, env, selector=selector, folder=f"{folder}/run", **options, **quiet)
        best = result.summary["best_members"][0]
        played = shoal.evaluate(result.policy(best["member"]), episodes=EPISODES, seed=SEED_OF_TEST + seed)
        row = {"method": method, "agent": agent, "env": env, "seed": seed, "members": members}
        curves = result.curves
        trained = int(np.sum(np.diff(curves["env_steps"], prepend=0) * (curves["occupant"] >= 0).sum(axis=1)))
        row |= {"steps": trained, "begun": begun}
        row |= {"last": best["score"], "return": float(np.mean(played.episode_return))}
        return {**row, "hyperparameters": best["hyperparameters"], "seconds": result.summary["total_seconds"]}


def read() -> list[dict[str, Any]]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else []


def returns_of(rows: list[dict[str, Any]], asked: dict[str, Any], method: str) -> np.ndarray:
    """The returns of a method in the order of seeds."""
    own = [row for row in rows if row["method"] == method and all(row[name] == asked[name] for name in asked)]
    return np.asarray([row["return"] for row in sorted(own, key=lambda row: row["seed"])])


def report(rows: list[dict[str, Any]], asked: dict[str, Any]) -> None:
    baseline = returns_of(rows, asked, "random")
    for method in METHODS:
        returns = returns_of(rows, asked, method)
        if not len(returns):
            continue
        text = f"{asked['env']:14} {method:8} {len(returns)} repetitions  IQM {iqm(returns):.4g}"
        if len(returns) >= FEWEST:
            low, high = bootstrap_interval(returns, iqm)
            text += f" [{low:.4g}, {high:.4g}]"
        if method != "random" and len(returns) == len(baseline) >= FEWEST:
            _, low, high = paired_difference([returns], [baseline])
            text += f"  minus random: [{low:.4g}, {high:.4g}]"
        print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="ppo")
    parser.add_argument("--env", nargs="+", default=list(ENVS))
    parser.add_argument("--repetitions", type=int, default=16)
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--steps", type=int, default=200_000, help="of each member")
    options = parser.parse_args()
    for env in options.env:
        for seed in range(options.repetitions):
            for method in METHODS:
                rows = read()
                asked = {"agent": options.agent, "env": env, "members": options.members, "asked_steps": options.steps}
                if any(
                    row["method"] == method and row["seed"] == seed and asked.items() <= row.items() for row in rows
                ):
                    continue
                row = repetition(method, options.agent, env, seed, options.members, options.steps)
                rows.append({**row, "asked_steps": options.steps})
                RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
                print(f"{env} seed {seed} {method}: {row['return']:.4g} in {row['seconds']:.0f} s", flush=True)
        report(read(), asked)


if __name__ == "__main__":
    main()
