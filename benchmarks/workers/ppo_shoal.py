"""shoal's PPO with CleanRL's hyperparameters, its defaults, as `shoal train` runs it: with records and checkpoints.

`--evaluations 0` trains alone, as `ppo_gymnax.py` does. The compilation cache follows the environment's variables, on
both sides.
"""

import argparse
import tempfile

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--total-steps", type=int, default=500_000)
parser.add_argument("--seeds", type=int, default=1)
parser.add_argument("--evaluations", type=int, default=5)
parser.add_argument("--records", type=int, default=20)
parser.add_argument("--block", type=int, default=0, help="members that run together; 0: shoal's choice")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

from shoal.train.folder import RunFolder  # noqa: E402
from shoal.train.loop import Run  # noqa: E402
from shoal.train.plan import make_plan  # noqa: E402
from shoal.train.spec import RunSpec  # noqa: E402

import_s = measure.seconds_since_start()
spec = RunSpec(
    agent="ppo",
    env=args.env,
    steps=args.total_steps,
    seeds=args.seeds,
    evaluations=args.evaluations,
    records=args.records,
    block=args.block,
)
with tempfile.TemporaryDirectory() as directory:
    folder = RunFolder(f"{directory}/run")
    folder.create()
    plan = make_plan(spec)
    planned_s = measure.seconds_since_start()
    summary = Run(plan, folder).train()
measure.report(
    steps=plan.steps * plan.members,
    import_s=import_s,
    plan_s=planned_s - import_s,
    compile_s=summary["compile_seconds"],
    run_s=summary["train_seconds"],
    eval_s=summary["eval_seconds"],
    block=plan.placement.block,
    last_return=summary["last"]["mean"] if args.evaluations else None,
)
