"""Compare the speed of an evolution with that of a plain population of the same size, records and loss.

    python benchmarks/evolution_overhead.py [--rounds 3] [--candidates 16] [--generations 5] [--steps 50000]

Both train the same number of members for the same number of steps, with the same learned value loss, and write the same
number of records and checkpoints. The evolution also begins new members and asks its strategy in each generation. They
run alternately in one process. The speed is that of the whole run without compiling.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--candidates", type=int, default=16)
parser.add_argument("--generations", type=int, default=5)
parser.add_argument("--steps", type=int, default=50_000, help="environment steps of a training run")
parser.add_argument("--records", type=int, default=10, help="of a training run")
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "evolution-overhead.json")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402

SEEDS = 2
LOSS = shoal.LearnedValueLoss.init(shoal.make_key(0), form="residual")
QUIET = {"figures": False, "progress": False}


def evolved(folder):
    """The result of an evolution."""
    sizes = {"generations": args.generations, "candidates": args.candidates, "seeds": SEEDS, "steps": args.steps}
    return shoal.evolve(
        "ppo", "CartPole-v1", {"value_loss": LOSS}, **sizes, records=args.records, preset=None, folder=folder, **QUIET
    )


def plain(folder):
    """The result of as much training without a selector."""
    return shoal.train(
        "ppo",
        "CartPole-v1",
        fields={"value_loss": LOSS},
        steps=args.generations * args.steps,
        seeds=args.candidates * SEEDS,
        records=args.generations * args.records,
        evaluations=0,
        preset=None,
        folder=folder,
        **QUIET,
    )


def speed(result):
    """Environment steps of all members per second, without compiling."""
    summary = result.summary
    steps = int(result.curves["env_steps"][-1]) * summary["members"]
    return steps / (summary["total_seconds"] - summary["compile_seconds"])


speeds = {"evolved": [], "plain": []}
with tempfile.TemporaryDirectory() as root:
    for number in range(args.rounds):
        for name, run in (("plain", plain), ("evolved", evolved)):
            speeds[name].append(speed(run(Path(root) / f"{name}-{number}")))
            print(f"{name}: {speeds[name][-1]:,.0f} steps/s", flush=True)
ratio = statistics.median(e / p for e, p in zip(speeds["evolved"], speeds["plain"], strict=True))
report = {
    "command": "python benchmarks/evolution_overhead.py",
    "jax": jax.__version__,
    "device": jax.devices()[0].device_kind,
    **{name: getattr(args, name) for name in ("candidates", "generations", "steps", "records")},
    "steps_per_second": {name: [round(speed) for speed in values] for name, values in speeds.items()},
    "median_ratio": round(ratio, 3),
}
args.out.parent.mkdir(parents=True, exist_ok=True)
args.out.write_text(json.dumps(report, indent=1) + "\n")
print(f"evolution / plain: {ratio:.3f}")
