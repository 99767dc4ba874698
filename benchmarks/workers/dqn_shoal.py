"""shoal's DQN as `shoal train` runs it, with records and checkpoints: CleanRL's recipe, or rejax's.

In each recipe the sizes, networks and gradient steps per environment step are the peer's.
"""

import argparse
import tempfile

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--total-steps", type=int, default=50_000)
parser.add_argument("--seeds", type=int, default=32)
parser.add_argument("--recipe", choices=("cleanrl", "rejax"), default="cleanrl")
parser.add_argument("--num-envs", type=int, default=1, help="of CleanRL's recipe: 10 is PureJaxRL's")
parser.add_argument("--buffer", type=int, default=10_000)
parser.add_argument("--prioritized", action="store_true")
parser.add_argument("--block", type=int, default=0, help="members that run together; 0: shoal's choice")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import_s = measure.seconds_since_start()
RECIPES = {
    "cleanrl": {"num_envs": args.num_envs, "num_steps": 10 // args.num_envs, "horizon": 500_000},
    "rejax": {
        "num_envs": 10,
        "num_steps": 1,
        "learning_starts": 0,
        "train_iterations": 5,
        "batch_size": 100,
        "learning_rate": 1e-3,
        "max_grad_norm": 10,
        "target_period": 1,
        "target_mix": 0.02,
        "double": True,
        "dueling": True,
        "hidden": (64, 64),
        "activation": "silu",
    },
}
with tempfile.TemporaryDirectory() as directory:
    result = shoal.train(
        shoal.DQN(**RECIPES[args.recipe], buffer_size=args.buffer, prioritized=args.prioritized),
        args.env,
        steps=args.total_steps,
        seeds=args.seeds,
        evaluations=0,
        records=1,
        block=args.block,
        root=directory,
        figures=False,
        progress=False,
    )
    summary, curves = result.summary, result.curves
measure.report(
    steps=summary["steps_per_member"] * args.seeds,
    import_s=import_s,
    compile_s=summary["compile_seconds"],
    run_s=summary["train_seconds"],
    last_return=float(curves["train_return"][-1].mean()),
)
