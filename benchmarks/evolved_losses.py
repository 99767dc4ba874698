"""Evolve a loss of PPO, and compare it with the loss that people wrote, on seeds and environments it has never seen.

    python benchmarks/evolved_losses.py [--experiment value-loss|lpo] [--generations N] [--seeds 64] [--root DIR]
        [--figures DIR] [--out FILE]

1. Evolve the loss (the experiment). With value-loss, evolve also the hyperparameters of the squared loss with the same
   budget (the experiment `value-loss-baseline`).
2. Train with both losses on held-out seeds and compare the mean returns, of the whole training and at its end, paired
   by seed. Compare also with other losses: with value-loss the squared loss without tuning (with the default
   coefficient, and with all defaults), with lpo the losses `dpo` and `unclipped`. The hyperparameters of lpo do not
   evolve: they are the same for all losses. Only `tuned-clip` is PPO's loss with the best of 24 pairs of `clip` and
   learning rate, chosen on 16 other seeds.
3. Compare the losses on other environments, each with the preset of PPO there: only the loss is exchanged.

Stopped runs in --root are resumed, and finished ones are not repeated.
"""

import argparse
import itertools
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

BY_HAND = {"value_loss": "squared", "surrogate": "clipped"}  # by path: the loss that PPO has
CLIPS = {"clip": [0.02, 0.05, 0.1, 0.15, 0.2, 0.3], "learning_rate": [3e-3, 5e-3, 1e-2, 1.5e-2]}
OTHER = 2_000_000  # the seed of runs that choose hyperparameters
HELD_OUT = 1_000_000  # the seed of the runs on held-out seeds; the evolution's is 0
SIZES = {name: getattr(args, name) for name in ("generations", "candidates", "steps")}


def trained(name, env, fields, steps, **options):
    """Train with some fields on held-out seeds."""

    def start(folder):
        sizes = {"steps": steps, "seeds": args.seeds, "seed": HELD_OUT, "records": 20, "evaluations": 1}
        return shoal.train("ppo", env, fields=fields, folder=folder, figures=False, **sizes, **options)

    return finished(args.root / name, start, figures=False)


def best_of(grid, fields, env, steps):
    """The setting of a grid with the highest mean return of the whole training, over 16 seeds."""

    def start(folder):
        sizes = {"steps": steps, "seeds": 16, "seed": OTHER, "records": 20, "evaluations": 1}
        return shoal.train("ppo", env, fields=fields, sweep=grid, preset=None, folder=folder, figures=False, **sizes)

    curves = finished(args.root / "tuning", start, figures=False).curves["train_return"]  # [records, members]
    whole = np.nanmean(curves, axis=0).reshape(-1, 16).mean(axis=1)
    return dict(zip(grid, list(itertools.product(*grid.values()))[whole.argmax()], strict=True))


def compared(first, second, names=("evolved", "baseline")):
    """The means of two runs and their difference, over the whole training and at its end."""
    metrics = {m: difference(first.folder, second.folder, names, m) for m in ("whole", "last")}
    return {"env": first.spec.env_name, "steps": first.spec.steps, "seeds": args.seeds, **metrics}


evolved, about_evolved = evolution(args.experiment, args.root / args.experiment, **SIZES)
experiment = experiments()[args.experiment]
(path,) = (path for path, start in experiment.vary.items() if isinstance(start, str))  # of the loss
loss, by_hand = evolved.found[path], BY_HAND[path]
own = {path: value for path, value in experiment.fields.items() if path not in evolved.found}
about, tuned = {"evolved": about_evolved}, {}
if f"{args.experiment}-baseline" in experiments():
    baseline, about["baseline"] = evolution(f"{args.experiment}-baseline", args.root / "value-loss-baseline", **SIZES)
    tuned = baseline.found
started = time.perf_counter()
hand_made = {**own, **tuned, path: by_hand}
fields = {"evolved": {**own, **evolved.found}, "baseline": hand_made}
if path == "value_loss":
    fields["default-coefficient"] = {**hand_made, "value_coef": PPO().value_coef}
    fields["defaults"] = {path: by_hand}
else:
    fields |= {name: {**own, path: name} for name in ("dpo", "unclipped")}
    fields["tuned-clip"] = {
        **own,
        **best_of(CLIPS, {"value_coef": own["value_coef"]}, experiment.env, evolved.spec.steps),
    }
runs = {
    name: trained(f"held-out-{name}", experiment.env, values, evolved.spec.steps, preset=None)
    for name, values in fields.items()
}
held_out = compared(runs["evolved"], runs["baseline"])
others = {name: compared(runs["evolved"], runs[name], ("evolved", name)) for name in list(runs)[2:]}
transfer = []
for env in args.transfer:
    both = [
        trained(f"transfer-{env}-{label}", env, {path: value_loss}, args.transfer_steps)
        for label, value_loss in (("evolved", loss), ("baseline", by_hand))
    ]
    transfer.append(compared(*both))
report = {
    "command": own_command(),
    "jax": jax.__version__,
    "device": str(jax.devices()[0].device_kind),
    **about,
    "held_out": held_out,
    "others": others,
    "fields": {name: {k: v for k, v in values.items() if k != path} for name, values in fields.items()},
    "transfer": transfer,
    "held_out_and_transfer_seconds": round(time.perf_counter() - started, 1),
    "weights": int(sum(np.size(x) for x in jax.tree.leaves(loss))),
}
args.out.parent.mkdir(parents=True, exist_ok=True)
args.out.write_text(json.dumps(report, indent=1) + "\n")
for answer in (held_out, *others.values(), *transfer):
    for metric, text in (("whole", "return of the whole training"), ("last", "return at its end")):
        found = answer[metric]
        low, high = found["interval"]
        other = next(name for name in found if name not in ("evolved", "difference", "interval", "pairs"))
        print(
            f"{answer['env']}: {text} {found['evolved']:.4g} evolved, {found[other]:.4g} {other}, "
            f"difference {found['difference']:.4g} [{low:.4g}, {high:.4g}] over {found['pairs']} seeds"
        )
if args.figures:
    prefix = "evolved" if path == "value_loss" else args.experiment
    for name in ("fitness", path):
        target = args.figures / f"{prefix}-{name.replace('_', '-')}.png"
        shutil.copyfile(evolved.folder / "figures" / f"{name}.png", target)
    plot_runs([run.folder for run in runs.values()], args.figures / f"{prefix}-curves.png")
