"""Train PPO on Brax's inverted pendulum, whose largest return is 1,000, for at most the steps that Brax trains it.

    python benchmarks/brax_ppo.py [--steps 2_000_000] [--seeds 2]

Brax's notebook (`notebooks/training.ipynb` at google/brax) trains its own PPO for 2,000,000 steps on this environment,
with normalized observations, discount 0.97 and learning rate 3e-4, which are used here too. Its batches (2,048
environments) are made for an accelerator; here they are small.
"""

import argparse
import importlib.metadata
import json
import tempfile
from pathlib import Path
from typing import Any

import run

import shoal

shoal.prepare(threads=16)  # with fewer, Brax's "generalized" physics can stop for ever on a CPU with jaxlib 0.10

OUT = run.HERE / "results" / "brax-ppo.json"
ENV = "brax/inverted_pendulum"
FIELDS = {
    "num_envs": 64,
    "num_steps": 32,
    "num_minibatches": 8,
    "learning_rate": 3e-4,
    "discount": 0.97,
    "normalize_observation": True,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2_000_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=16, help="of each evaluation")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = shoal.train(
            "ppo",
            ENV,
            steps=options.steps,
            seeds=options.seeds,
            fields=FIELDS,
            evaluations=4,
            eval_episodes=options.episodes,
            figures=False,
            folder=Path(folder) / "run",
        )
        print(result)
        summary = json.loads((Path(folder) / "run" / "summary.json").read_text())
    report: dict[str, Any] = {
        "command": f"python benchmarks/brax_ppo.py --steps {options.steps} --seeds {options.seeds} "
        f"--episodes {options.episodes}",
        "versions": {name: importlib.metadata.version(name) for name in ("brax", "jax", "mujoco")},
        "machine": run.machine_without_command(),
        "environment": ENV,
        "fields": FIELDS,
        "summary": summary,
    }
    OUT.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
