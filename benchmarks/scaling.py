"""Measure the time per agent for populations of 1 to 512 members: PPO on CartPole, each size in a fresh process.

    .venv-peers/bin/python benchmarks/scaling.py [--sizes 1 2 8 32 128 512] [--steps 51200] [--rounds 3]

Writes benchmarks/results/scaling.json and a table beside it. Only training is measured, without compilation and
evaluation.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

from run import Side, ask, machine, training_rate

OUT = Path(__file__).parent / "results" / "scaling.json"


def main() -> None:
    """Measure every size and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", type=int, default=[1, 2, 8, 32, 128, 512])
    parser.add_argument("--steps", type=int, default=51_200, help="environment steps of each agent")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    stamp, rows = machine(), []
    for seeds in options.sizes:
        arguments = ("--seeds", str(seeds), "--total-steps", str(options.steps), "--evaluations", "0", "--records", "1")
        rounds = options.rounds if seeds <= 32 else 1
        rates = [training_rate(ask(Side("shoal", "ppo_shoal", arguments), sys.executable, None)) for _ in range(rounds)]
        rate = statistics.median(rates)
        rows.append({"seeds": seeds, "k_steps_per_second": rate, "seconds_per_agent": options.steps / rate / 1e3})
        print(rows[-1], flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"machine": stamp, "steps": options.steps, "rows": rows}, indent=1) + "\n")
    lines = [
        f"PPO on CartPole, {options.steps:,} steps per agent; {stamp['cpu']}, {stamp['cores']} cores; commit "
        f"{stamp['commit']}; {stamp['time']}.",
        "",
        "| agents | k steps/s, all together | seconds per agent |",
        "|---|---|---|",
        *(f"| {r['seeds']} | {r['k_steps_per_second']:.0f} | {r['seconds_per_agent']:.3f} |" for r in rows),
        "",
    ]
    OUT.with_suffix(".md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
