"""Does it learn? Train every preset of an agent with seeds fixed beforehand and keep what came out.

    python benchmarks/evidence.py [PRESET ...] [--agent ppo] [--out benchmarks/results/evidence.json]

Scores are of the last weights, over 100 fresh episodes a member: greedy, and with actions drawn from the policy. Rows
of presets that are not run again are kept.
"""

import argparse
import json
import tempfile
from pathlib import Path

SEEDS = {"CartPole-v1": 64}
OTHERWISE = 16

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("presets", nargs="*", help="such as CartPole-v1:fast; default: all")
parser.add_argument("--agent", default="ppo")
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "evidence.json")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402
import numpy as np  # noqa: E402

from shoal.agents.presets import presets  # noqa: E402
from shoal.train.records import score_summary  # noqa: E402


def measure(preset):
    """One row: how a preset did over its seeds."""
    seeds = SEEDS.get(preset.name, OTHERWISE)
    with tempfile.TemporaryDirectory() as root:
        agent = preset.build()
        result = shoal.train(
            agent, preset.env, steps=preset.steps, seeds=seeds, root=root, figures=False, progress=False, evaluations=5
        )
        sampled = shoal.evaluate(result.folder, episodes=100, greedy=False, seed=1)
        returns = np.asarray(sampled.episode_return).reshape(seeds, -1).mean(axis=1)
        return {
            "agent": preset.agent,
            "preset": preset.name,
            "steps": preset.steps,
            "seeds": f"0 to {seeds - 1}",
            "greedy": result.summary["last"],
            "greedy_per_member": [m["last"] for m in result.summary["per_member"]],
            "sampled": score_summary(returns),
            "train_seconds": result.summary["train_seconds"],
            "jax": jax.__version__,
        }


known = presets(args.agent)
rows = {row["preset"]: row for row in json.loads(args.out.read_text())} if args.out.exists() else {}
for name in args.presets or known:
    rows[name] = measure(known[name])
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(list(rows.values()), indent=1, default=float) + "\n")
    print(name, json.dumps({k: rows[name][k] for k in ("greedy", "sampled")}, default=float), flush=True)
