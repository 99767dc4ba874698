"""Measure what selectors cost: the time between two chunks, as a share of the chunk.

    python benchmarks/selector_cost.py [--members 32] [--records 20] [--steps 200000] [--rounds 3] [--agent ppo]

Trains the same population without a selector, with one that changes nothing, with PBT (a quarter of the members is
replaced after every record), and with halving that refills its slots. They run alternately. For each is reported the
median share of the selection (select, copy and begin members) in the time of a chunk (train, evaluate), without the
first selection, which compiles; the time of the first one; and the median time of all chunks compared with the run
without a selector.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--agent", default="ppo")
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--members", type=int, default=32)
parser.add_argument("--records", type=int, default=20)
parser.add_argument("--steps", type=int, default=200_000, help="environment steps of each member")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "selector-cost.json")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402
from unchanged import Unchanged  # noqa: E402

from shoal.training.folder import RunFolder  # noqa: E402
from shoal.training.jobs import make_job  # noqa: E402
from shoal.training.loop import Run  # noqa: E402


def selectors():
    vary = {"learning_rate": (1e-4, 1e-2, "log")}
    return {
        "none": None,
        "unchanged": Unchanged(),
        "pbt": shoal.PBT(vary=vary),
        "halving": shoal.Halving(vary=vary, refill="fresh"),
    }


class Timed:
    """Adds up the time of the calls of a method of an object."""

    def __init__(self, owner, name):
        self.method, self.seconds = getattr(owner, name), 0.0
        setattr(owner, name, self)

    def __call__(self, *arguments, **options):
        started = time.perf_counter()
        try:
            return self.method(*arguments, **options)
        finally:
            self.seconds += time.perf_counter() - started


def measured(selector, folder):
    """The seconds of the training and of the selection of every record: two lists."""
    sizes = {"steps": args.steps, "seeds": args.members, "records": args.records, "evaluations": 0}
    plan = make_job(args.agent, args.env, preset=None, selector=selector, **sizes).plan()
    target = RunFolder(folder)
    target.create()
    run = Run(plan, target)
    chunk, selection = Timed(run.population, "advance"), Timed(run, "_select")
    run.open()
    rows = []
    while True:
        chunk.seconds = selection.seconds = 0.0
        if not run.step():
            return list(zip(*rows, strict=True))
        jax.block_until_ready(run.population._waves)
        rows.append((chunk.seconds, selection.seconds))


rows = {name: {"share": [], "first": [], "chunk": []} for name in selectors()}
with tempfile.TemporaryDirectory() as root:
    for number in range(args.rounds):
        for name, selector in selectors().items():
            chunks, selections = measured(selector, Path(root) / f"{name}-{number}")
            rows[name]["chunk"].append(statistics.median(chunks))
            rows[name]["first"].append(selections[0])
            # the last record has no selection
            shares = [s / c for c, s in zip(chunks[1:-1], selections[1:-1], strict=True)]
            rows[name]["share"].append(statistics.median(shares))
report = {
    "command": "python benchmarks/selector_cost.py",
    "jax": jax.__version__,
    "device": jax.devices()[0].device_kind,
    **{name: getattr(args, name) for name in ("agent", "env", "members", "records", "steps", "rounds")},
    "selectors": {
        name: {
            "share_of_chunk": round(statistics.median(row["share"]), 5),
            "first_selection_seconds": round(statistics.median(row["first"]), 4),
            "chunk_seconds": round(statistics.median(row["chunk"]), 4),
            "chunk_relative_to_none": round(
                statistics.median(c / n for c, n in zip(row["chunk"], rows["none"]["chunk"], strict=True)), 4
            ),
        }
        for name, row in rows.items()
    },
}
args.out.parent.mkdir(parents=True, exist_ok=True)
args.out.write_text(json.dumps(report, indent=1) + "\n")
for name, row in report["selectors"].items():
    print(
        f"{name:10} selection {100 * row['share_of_chunk']:.2f} % of a chunk of {row['chunk_seconds']:.3f} s "
        f"(the first {row['first_selection_seconds']:.3f} s); chunks take {row['chunk_relative_to_none']:.3f} of none's"
    )
