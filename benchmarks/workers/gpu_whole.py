"""A whole run of PPO on CartPole, as `shoal train` does it: seconds of its parts, and how many agents learned.

An agent has learned if its last evaluation, the mean of its episodes, is at least `--solved`.
"""

import argparse
import json
import tempfile

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--agents", type=int, default=2048)
parser.add_argument("--steps", type=int, default=500_000, help="of each agent")
parser.add_argument("--solved", type=float, default=475.0, help="return at which CartPole-v1 counts as solved")
args = parser.parse_args()

import shoal  # noqa: E402
from shoal.tracking.events import Compiled, Sink  # noqa: E402


class AfterCompilation(Sink):
    """Waits for the turn of this worker when all programs of the run are compiled."""

    def receive(self, event):
        """Wait after the event that says so."""
        if isinstance(event, Compiled):
            measure.wait_for_turn()


with tempfile.TemporaryDirectory() as directory:
    summary = shoal.train(
        "ppo",
        "CartPole-v1",
        preset=None,
        steps=args.steps,
        seeds=args.agents,
        evaluations=1,
        records=1,
        root=directory,
        figures=False,
        progress=False,
        sinks=[AfterCompilation()],
    ).summary
scores = [member["last"] for member in summary["per_member"]]
size = {"agents": args.agents, "steps_per_agent": args.steps, "steps_per_second": summary["steps_per_second"]}
numbers = {name: summary[name] for name in ("compile_seconds", "train_seconds", "eval_seconds", "other_seconds")}
reached = {"solved": sum(score >= args.solved for score in scores), "mean_return": sum(scores) / len(scores)}
print(json.dumps({**size, **numbers, **reached}))
