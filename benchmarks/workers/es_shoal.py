"""shoal's ES, as `shoal train` runs it, a search on each core, with the same networks and settings as `es_evosax.py`.

Steps are counted as the peer counts them, with the full length of every episode, so that the rates refer to the same
work. shoal does not continue episodes that end sooner; `real_steps` is the number of steps that were taken.
"""

import argparse
import tempfile

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--population", type=int, default=256)
parser.add_argument("--episodes", type=int, default=4)
parser.add_argument("--generations", type=int, default=50)
parser.add_argument("--searches", type=int, default=2)
parser.add_argument("--hidden", type=int, nargs="+", default=[32, 32])
parser.add_argument("--memory", type=int, default=0, help="units of a GRU; 0: none")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import_s = measure.seconds_since_start()
LENGTH = {"CartPole-v1": 500, "Pendulum-v1": 200}[args.env]
STEPS = args.generations * args.population * args.episodes * LENGTH
with tempfile.TemporaryDirectory() as directory:
    result = shoal.train(
        shoal.ES(
            population_size=args.population,
            episodes=args.episodes,
            hidden=tuple(args.hidden),
            learning_rate=0.05,
            sigma=0.1,
            normalize_observation=True,
            sample_actions=args.env == "CartPole-v1",
            **({"memory": "gru", "memory_size": args.memory} if args.memory else {}),
        ),
        args.env,
        steps=STEPS,
        seeds=args.searches,
        evaluations=0,
        records=args.generations,
        root=directory,
        figures=False,
        progress=False,
    )
    summary, curves = result.summary, result.curves
measure.report(
    steps=summary["steps_per_member"] * args.searches,
    real_steps=float(curves["steps"].sum()),  # a record is a generation
    import_s=import_s,
    compile_s=summary["compile_seconds"],
    run_s=summary["train_seconds"],
    last_return=float(curves["fitness_mean"][-5:].mean()),
)
