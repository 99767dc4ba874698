"""shoal's tabular Q-learning with Pegoud's hyperparameters, as `shoal train` runs it, without its checkpoints."""

import argparse
import tempfile

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="GridWorld-v0")
parser.add_argument("--agents", type=int, default=1)
parser.add_argument("--steps", type=int, default=100_000, help="of each agent")
parser.add_argument("--block", type=int, default=0, help="members that run together; 0: shoal's choice")
parser.add_argument("--repeats", type=int, default=3)
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

FIELDS = {"learning_rate": 0.1, "discount": 0.9, "epsilon_end": 0.1, "exploration": 0.0}

walls, summary, goals = [], {}, 0
for _ in range(args.repeats + 1):  # the first is not counted
    with tempfile.TemporaryDirectory() as directory:
        result = shoal.train(
            "q-learning",
            args.env,
            preset=None,
            fields=FIELDS,
            steps=args.steps,
            seeds=args.agents,
            evaluations=0,
            records=1,
            block=args.block,
            root=directory,
            figures=False,
            progress=False,
        )
        summary = result.summary
        walls.append(summary["train_seconds"])
        goals = float(result.curves["episodes"].sum(axis=0).mean())
measure.report(
    steps=summary["steps_per_member"] * args.agents,
    wall_s=walls[1:],
    goals=goals,
    compile_s=summary["compile_seconds"],
)
