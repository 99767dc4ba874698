"""Compare DPO's drift with PPO's clipping: the same preset and seeds, only the surrogate differs.

    python benchmarks/dpo.py [ENV ...] [--seeds 16] [--steps N] [--root DIR] [--out FILE]

The score of a member is the mean return of its last weights over 100 fresh episodes. Stopped runs in --root are
resumed, and finished ones are not repeated. Rows of environments that are not run again are kept.
"""

import argparse
import json
from pathlib import Path

ENVS = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "MinAtar/Breakout-v1", "MinAtar/Asterix-v1")

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("envs", nargs="*", default=ENVS)
parser.add_argument("--seeds", type=int, default=16)
parser.add_argument("--steps", type=int, help="default: those of the preset")
parser.add_argument("--root", type=Path, default=Path("runs/dpo"))
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "dpo.json")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402
import numpy as np  # noqa: E402
from resumable import finished  # noqa: E402

from shoal.ops.statistics import bootstrap_interval, iqm  # noqa: E402
from shoal.training.records import member_scores  # noqa: E402


def trained(env, surrogate):
    """The result of PPO's preset for an environment with this surrogate."""
    folder = args.root / f"{env}-{surrogate}".replace("/", "-")
    sizes = {"steps": args.steps, "seeds": args.seeds, "evaluations": 1, "figures": False}
    return finished(
        folder,
        lambda folder: shoal.train("ppo", env, fields={"surrogate": surrogate}, folder=folder, **sizes),
        figures=False,
    )


def row(env):
    """IQM of both, and the paired difference."""
    runs = {surrogate: trained(env, surrogate) for surrogate in ("dpo", "clipped")}
    scores = {name: member_scores(result.curves) for name, result in runs.items()}
    found = shoal.compare(runs["dpo"].folder, runs["clipped"].folder)
    return {
        "env": env,
        "steps": runs["dpo"].spec.steps,
        "seeds": args.seeds,
        **{
            name: {"iqm": float(iqm(s)), "interval": bootstrap_interval(s), "mean": float(np.mean(s))}
            for name, s in scores.items()
        },
        "mean_difference": found["difference"],
        "difference_interval": found["difference_interval"],
        "returns": {name: np.round(s, 2).tolist() for name, s in scores.items()},
        "jax": jax.__version__,
        "command": f"python benchmarks/dpo.py {env}" + f" --steps {args.steps}" * (args.steps is not None),
    }


rows = {r["env"]: r for r in json.loads(args.out.read_text())} if args.out.exists() else {}
for env in args.envs:
    rows[env] = row(env)
    dpo, ppo = rows[env]["dpo"], rows[env]["clipped"]
    print(
        f"{env}: IQM {dpo['iqm']:.4g} DPO, {ppo['iqm']:.4g} PPO; {rows[env]['mean_difference']:+.4g} in the mean",
        flush=True,
    )
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(list(rows.values()), indent=1) + "\n")
