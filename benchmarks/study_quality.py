"""Compare a study that trains many trials at a time with one that trains one at a time, at equal environment steps.

    python benchmarks/study_quality.py [--repetitions 8] [--trials 48] [--parallel 16] [--agent ppo] [--env CartPole-v1]

With one trial at a time the sampler knows the scores of all trials before, as in a loop of Optuna alone; with several
it chooses without those that still train (TPE's constant liar). Nothing is pruned, so both train the same steps. The
result of a study is the mean return of its best trial, trained again on 16 seeds that no trial had. Repetitions differ
in the seed of the study. Stopped studies in --root are resumed, and finished ones are not repeated. It takes about 10
minutes on two CPU cores.
"""

import argparse
import json
import time
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--repetitions", type=int, default=8)
parser.add_argument("--trials", type=int, default=48)
parser.add_argument("--parallel", type=int, default=16)
parser.add_argument("--agent", default="ppo")
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--steps", type=int, default=20_000, help="environment steps of each of the 4 members of a trial")
parser.add_argument("--sampler", default="tpe")
parser.add_argument("--root", type=Path, default=Path("runs/study-quality"))
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "study-quality.json")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402
import numpy as np  # noqa: E402
from resumable import own_command  # noqa: E402

from shoal.ops.aggregates import paired_difference  # noqa: E402
from shoal.ops.statistics import bootstrap_interval  # noqa: E402
from shoal.studies.study import StudyResult  # noqa: E402


def study(parallel: int, seed: int) -> StudyResult:
    """Begin, finish or read the study of a repetition."""
    name = f"{args.sampler}-{parallel}-{seed}"
    quiet = {"figures": False, "progress": False, "fresh_seeds": 16}
    folder = args.root / name
    if (folder / "study.json").exists():
        done = StudyResult(folder)
        has_ended = (folder / "summary.json").exists() and "fresh_score" in (done.summary["best"] or {})
        return done if has_ended else shoal.tune(resume=folder, **quiet)
    sizes = {"trials": args.trials, "parallel": parallel, "steps": args.steps, "records": 3, "seed": seed}
    return shoal.tune(
        args.agent,
        args.env,
        **sizes,
        sampler=args.sampler,
        pruner="none",
        preset=None,
        name=name,
        root=args.root,
        **quiet,
    )


started, scores, seconds = time.perf_counter(), {1: [], args.parallel: []}, {1: [], args.parallel: []}
for repetition in range(args.repetitions):
    for parallel in scores:
        result = study(parallel, repetition)
        scores[parallel].append(result.summary["best"]["fresh_score"])
        seconds[parallel].append(result.summary["workers"]["w0"]["seconds"])
        print(f"repetition {repetition}, {parallel} at a time: {scores[parallel][-1]:.4g}", flush=True)
together, alone = np.asarray(scores[args.parallel]), np.asarray(scores[1])
report = {
    "command": own_command(),
    "jax": jax.__version__,
    "optuna": __import__("optuna").__version__,
    "device": str(jax.devices()[0].device_kind),
    **{name: getattr(args, name) for name in ("agent", "env", "sampler", "trials", "parallel", "steps", "repetitions")},
    "fresh_scores": {str(parallel): values for parallel, values in scores.items()},
    "study_seconds": {str(parallel): values for parallel, values in seconds.items()},
    "means": {"together": float(together.mean()), "alone": float(alone.mean())},
    "intervals": {"together": bootstrap_interval(together, np.mean), "alone": bootstrap_interval(alone, np.mean)},
    "difference": float((together - alone).mean()),
    "difference_interval": paired_difference([together], [alone])[1:],
    "seconds": round(time.perf_counter() - started, 1),
}
args.out.write_text(json.dumps(report, indent=1) + "\n")
low, high = report["difference_interval"]
print(
    f"{args.parallel} at a time {together.mean():.4g}, one at a time {alone.mean():.4g}, difference "
    f"{report['difference']:.4g} [{low:.4g}, {high:.4g}] over {args.repetitions} repetitions"
)
