"""Compare PBT and successive halving with random search, for the same number of environment steps.

    python benchmarks/compare_selectors.py [--env NAME ...] [--repetitions N] [--members M] [--steps N] [--agent ppo]

Every method trains M members of the same agent for the same steps over the same ranges, those that the agent's
hyperparameters declare: `random` one sample per member, `pbt` with copies, `halving` with freed slots refilled, so that
no slot is idle. Repetition r has seed r for all methods. The result of a repetition is the member with the best last
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

from shoal.ops.statistics import FEWEST, bootstrap_interval, iqm, paired_difference_interval  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "selectors.json"
METHODS = ("random", "pbt", "halving")
ENVS = ("CartPole-v1", "Acrobot-v1")
RECORDS, EPISODES, SEED_OF_TEST = 20, 200, 12345


def selector_of(method: str) -> shoal.Selector:
    if method == "pbt":
        return shoal.PBT()
    return shoal.Halving(refill="fresh") if method == "halving" else shoal.RandomSearch(every=RECORDS)


def repetition(method: str, agent: str, env: str, seed: int, members: int, steps: int) -> dict[str, Any]:
    """Train once with a method, and play the best member again: one row of the results."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"seeds": members, "seed": seed, "steps": steps, "records": RECORDS, "evaluations": RECORDS}
        quiet = {"preset": None, "figures": False, "progress": False, "eval_episodes": 20}
        selector = selector_of(method)
        result = shoal.train(agent, env, selector=selector, folder=f"{folder}/run", **options, **quiet)
        best = result.summary["best_members"][0]
        played = shoal.evaluate(result.policy(best["member"]), episodes=EPISODES, seed=SEED_OF_TEST + seed)
        row = {"method": method, "agent": agent, "env": env, "seed": seed, "members": members}
        row |= {"steps": result.summary["steps_per_member"], "occupants": len(result.lives)}
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
            low, high = paired_difference_interval(returns, baseline)
            text += f"  minus random: [{low:.4g}, {high:.4g}]"
        print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="ppo")
    parser.add_argument("--env", nargs="+", default=list(ENVS))
    parser.add_argument("--repetitions", type=int, default=8)
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
