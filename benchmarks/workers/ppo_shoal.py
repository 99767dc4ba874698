"""shoal's PPO with its defaults (CleanRL's hyperparameters), as `shoal train` runs it: with records and checkpoints.

With `--evaluations 0` it only trains, as `ppo_gymnax.py` does. On both sides the compilation cache is set by
environment variables.
"""

import argparse
import json
import tempfile

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--total-steps", type=int, default=500_000)
parser.add_argument("--seeds", type=int, default=1)
parser.add_argument("--minatar", action="store_true", help="use PureJaxRL's hyperparameters for MinAtar")
parser.add_argument("--evaluations", type=int, default=5)
parser.add_argument("--records", type=int, default=20)
parser.add_argument("--block", type=int, default=0, help="members that run together; 0: shoal's choice")
parser.add_argument("--pictures", action="store_true", help="draw the learning curve and the videos too")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import_s = measure.seconds_since_start()
MINATAR = {"num_envs": 64, "num_minibatches": 8, "learning_rate": 5e-3, "torso": "mlp", "activation": "relu"}
with tempfile.TemporaryDirectory() as directory:
    result = shoal.train(
        "ppo",
        args.env,
        preset=None,
        fields=MINATAR if args.minatar else {},
        steps=args.total_steps,
        seeds=args.seeds,
        evaluations=args.evaluations,
        records=args.records,
        block=args.block,
        root=directory,
        figures=args.pictures,
        progress=False,
    )
    summary = result.summary
    drawn = sorted(str(path.relative_to(result.folder)) for path in result.folder.glob("[fv]i*/*"))
    block = json.loads((result.folder / "provenance.json").read_text())["block"]
measure.report(
    steps=summary["steps_per_member"] * args.seeds,
    import_s=import_s,
    compile_s=summary["compile_seconds"],
    run_s=summary["train_seconds"],
    eval_s=summary["eval_seconds"],
    block=block,
    last_return=summary["last"]["mean"] if args.evaluations else None,
    pictures=drawn,
)
