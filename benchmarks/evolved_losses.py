"""Evolve a loss of PPO, and compare it with the loss that people wrote, on seeds and environments it has never seen.

    python benchmarks/evolved_losses.py [--experiment value-loss] [--generations N] [--seeds 64] [--root DIR]

1. Evolve the loss (the experiment), and with the same budget the hyperparameters of the squared loss (the experiment
   `value-loss-baseline`).
2. Train both on held-out seeds and compare the mean return of the whole training, paired by seed.
3. Do the same on other environments, each with the preset of PPO there: only the loss is exchanged.

Stopped runs in --root are resumed, and finished ones are not repeated.
"""

import argparse
import json
import time
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--experiment", default="value-loss")
parser.add_argument("--generations", type=int)
parser.add_argument("--candidates", type=int)
parser.add_argument("--steps", type=int, help="environment steps of each training run")
parser.add_argument("--seeds", type=int, default=64, help="held-out seeds")
parser.add_argument("--transfer", nargs="*", default=["Acrobot-v1", "MinAtar/Breakout-v1"], help="other environments")
parser.add_argument("--transfer-steps", type=int, default=200_000)
parser.add_argument("--root", type=Path, default=Path("runs/evolved-losses"))
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "evolved-losses.json")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402
import numpy as np  # noqa: E402
from resumable import difference, evolution, finished  # noqa: E402

from shoal.population.experiments import experiments  # noqa: E402

HELD_OUT = 1_000_000  # the seed of the runs on held-out seeds; the evolution's is 0
SIZES = {name: getattr(args, name) for name in ("generations", "candidates", "steps")}


def compared(name, env, first, second, steps, **options):
    """Train with two sets of fields on held-out seeds, and compare them."""
    runs = []
    for label, fields in (("evolved", first), ("baseline", second)):

        def start(folder, fields=fields):
            sizes = {"steps": steps, "seeds": args.seeds, "seed": HELD_OUT, "records": 20, "evaluations": 1}
            return shoal.train("ppo", env, fields=fields, folder=folder, figures=False, **sizes, **options)

        runs.append(finished(args.root / f"{name}-{label}", start, figures=False))
    names = ("evolved", "baseline")
    metrics = {m: difference(runs[0].folder, runs[1].folder, names, m) for m in ("whole", "last")}
    return {"env": env, "steps": steps, "seeds": args.seeds, **metrics}


evolved, about_evolved = evolution(args.experiment, args.root / args.experiment, **SIZES)
baseline, about_baseline = evolution("value-loss-baseline", args.root / "value-loss-baseline", **SIZES)
loss = evolved.found["value_loss"]
experiment = experiments()[args.experiment]
own = {path: value for path, value in experiment.fields.items() if path not in evolved.found}
started = time.perf_counter()
held_out = compared(
    "held-out",
    experiment.env,
    {**own, **evolved.found},
    {**own, **baseline.found, "value_loss": "squared"},
    evolved.spec.steps,
    preset=None,
)
transfer = [
    compared(f"transfer-{env}", env, {"value_loss": loss}, {"value_loss": "squared"}, args.transfer_steps)
    for env in args.transfer
]
report = {
    "command": "python benchmarks/evolved_losses.py"
    + f" --experiment {args.experiment}" * (args.experiment != "value-loss"),
    "jax": jax.__version__,
    "device": str(jax.devices()[0].device_kind),
    "evolved": about_evolved,
    "baseline": about_baseline,
    "held_out": held_out,
    "transfer": transfer,
    "held_out_and_transfer_seconds": round(time.perf_counter() - started, 1),
    "weights": int(sum(np.size(x) for x in jax.tree.leaves(loss))),
}
args.out.parent.mkdir(parents=True, exist_ok=True)
args.out.write_text(json.dumps(report, indent=1) + "\n")
for answer in (held_out, *transfer):
    whole = answer["whole"]
    low, high = whole["interval"]
    print(
        f"{answer['env']}: whole-run return {whole['evolved']:.4g} evolved, {whole['baseline']:.4g} squared, "
        f"difference {whole['difference']:.4g} [{low:.4g}, {high:.4g}] over {whole['pairs']} seeds"
    )
