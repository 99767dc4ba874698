"""A whole run, as `shoal train` does it, of PPO on CartPole unless said: seconds of its parts, and returns at its end.

The returns are those of the last evaluation, each the mean of an agent's episodes. `solved` counts those of at least
`--solved`.
"""

import argparse
import json
import tempfile

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--agent", default="ppo")
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--preset", default="none")
parser.add_argument("--fields", type=json.loads, default={}, help="hyperparameters as JSON")
parser.add_argument("--agents", type=int, default=2048)
parser.add_argument("--steps", type=int, default=500_000, help="of each agent; 0: those of the preset")
parser.add_argument("--eval-max-steps", type=int, help="at which episodes of an evaluation are cut")
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
        args.agent,
        args.env,
        preset=args.preset,
        fields=args.fields,
        steps=args.steps or None,
        eval_max_steps=args.eval_max_steps,
        seeds=args.agents,
        evaluations=1,
        records=1,
        root=directory,
        figures=False,
        progress=False,
        sinks=[AfterCompilation()],
    ).summary
scores = [member["last"] for member in summary["per_member"]]
what = {"agent": args.agent, "env": args.env, "preset": args.preset, "fields": args.fields}
size = {
    "agents": args.agents,
    "steps_per_agent": summary["steps_per_member"],
    "steps_per_second": summary["steps_per_second"],
}
numbers = {name: summary[name] for name in ("compile_seconds", "train_seconds", "eval_seconds", "other_seconds")}
reached = {"solved": sum(score >= args.solved for score in scores), "mean_return": sum(scores) / len(scores)}
print(json.dumps({**what, **size, **numbers, **reached}))
