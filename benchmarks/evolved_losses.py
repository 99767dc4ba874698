"""Evolve a loss of PPO, and compare it with the loss that people wrote, on seeds and environments it has never seen.

    python benchmarks/evolved_losses.py [--experiment value-loss] [--generations N] [--seeds 64] [--root DIR]
        [--figures DIR]

1. Evolve the loss (the experiment), and with the same budget the hyperparameters of the squared loss (the experiment
   `value-loss-baseline`).
2. Train both on held-out seeds and compare the mean return of the whole training, paired by seed. Compare them also
   with the squared loss without tuning: with the default coefficient, and with all defaults.
3. Compare the losses on other environments, each with the preset of PPO there: only the loss is exchanged.

Stopped runs in --root are resumed, and finished ones are not repeated.
"""

import argparse
import json
import shutil
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
parser.add_argument("--figures", type=Path, help="folder for figures of the fitness, the loss and the learning curves")
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "evolved-losses.json")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402
import numpy as np  # noqa: E402
from resumable import difference, evolution, finished, own_command  # noqa: E402

from shoal import PPO  # noqa: E402
from shoal.population.experiments import experiments  # noqa: E402
from shoal.viz.curves import plot_runs  # noqa: E402

HELD_OUT = 1_000_000  # the seed of the runs on held-out seeds; the evolution's is 0
SIZES = {name: getattr(args, name) for name in ("generations", "candidates", "steps")}


def trained(name, env, fields, steps, **options):
    """Train with some fields on held-out seeds."""

    def start(folder):
        sizes = {"steps": steps, "seeds": args.seeds, "seed": HELD_OUT, "records": 20, "evaluations": 1}
        return shoal.train("ppo", env, fields=fields, folder=folder, figures=False, **sizes, **options)

    return finished(args.root / name, start, figures=False)


def compared(first, second, names=("evolved", "baseline")):
    """The means of two runs and their difference, over the whole training and at its end."""
    metrics = {m: difference(first.folder, second.folder, names, m) for m in ("whole", "last")}
    return {"env": first.spec.env_name, "steps": first.spec.steps, "seeds": args.seeds, **metrics}


evolved, about_evolved = evolution(args.experiment, args.root / args.experiment, **SIZES)
baseline, about_baseline = evolution("value-loss-baseline", args.root / "value-loss-baseline", **SIZES)
loss = evolved.found["value_loss"]
experiment = experiments()[args.experiment]
own = {path: value for path, value in experiment.fields.items() if path not in evolved.found}
started = time.perf_counter()
squared = {**own, **baseline.found, "value_loss": "squared"}
fields = {
    "evolved": {**own, **evolved.found},
    "baseline": squared,
    "default-coefficient": {**squared, "value_coef": PPO().value_coef},
    "defaults": {"value_loss": "squared"},
}
runs = {
    name: trained(f"held-out-{name}", experiment.env, each, evolved.spec.steps, preset=None)
    for name, each in fields.items()
}
held_out = compared(runs["evolved"], runs["baseline"])
untuned = {name: compared(runs["evolved"], runs[name], ("evolved", name)) for name in list(runs)[2:]}
transfer = []
for env in args.transfer:
    both = [
        trained(f"transfer-{env}-{label}", env, {"value_loss": each}, args.transfer_steps)
        for label, each in (("evolved", loss), ("baseline", "squared"))
    ]
    transfer.append(compared(*both))
report = {
    "command": own_command(),
    "jax": jax.__version__,
    "device": str(jax.devices()[0].device_kind),
    "evolved": about_evolved,
    "baseline": about_baseline,
    "held_out": held_out,
    "untuned": untuned,
    "transfer": transfer,
    "held_out_and_transfer_seconds": round(time.perf_counter() - started, 1),
    "weights": int(sum(np.size(x) for x in jax.tree.leaves(loss))),
}
args.out.parent.mkdir(parents=True, exist_ok=True)
args.out.write_text(json.dumps(report, indent=1) + "\n")
for answer in (held_out, *untuned.values(), *transfer):
    whole = answer["whole"]
    low, high = whole["interval"]
    other = next(name for name in list(whole) if name not in ("evolved", "difference", "interval", "pairs"))
    print(
        f"{answer['env']}: whole-run return {whole['evolved']:.4g} evolved, {whole[other]:.4g} {other}, "
        f"difference {whole['difference']:.4g} [{low:.4g}, {high:.4g}] over {whole['pairs']} seeds"
    )
if args.figures:
    for name in ("fitness", "value_loss"):
        shutil.copyfile(
            evolved.folder / "figures" / f"{name}.png", args.figures / f"evolved-{name.replace('_', '-')}.png"
        )
    plot_runs([run.folder for run in runs.values()], args.figures / "evolved-curves.png")
