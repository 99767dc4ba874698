"""Measure how much of learning and of stepping environments in Python happens at the same time, with `overlap`.

    python benchmarks/host_overlap.py [--agent dqn] [--milliseconds 1.0] [--train-frequency 4] [--rounds 5]

The environment sleeps at each step, which takes no processor time, as a simulator in other processes. Four sides take
turns: stepping alone (no gradient step is due), learning alone (steps do not sleep), and training without and with
`overlap`. The results are milliseconds per update, and the ratio to the larger of the two alone: the median of the
rounds, and the least, which other work on the machine changes less.
"""

import argparse
import statistics
import time
from typing import Any

import numpy as np

from shoal import Box, Discrete, struct
from shoal.core.host_env import HostEnv
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS
from shoal.core.struct import Number, static
from shoal.specs.spec import spec_for
from shoal.training.host_population import HostPopulation
from shoal.training.plan import make_plan


class Sleeper:
    """An environment whose step sleeps for `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def reset(self, seed: int) -> tuple[np.ndarray, None]:
        """Begin an episode."""
        self.obs = np.full(8, seed % 7, np.float32)
        return self.obs, None

    def step(self, action: Any) -> tuple[np.ndarray, None, float, bool, bool]:
        """Sleep. The observation changes a little, so that it is not the same at all steps."""
        if self.seconds:
            time.sleep(self.seconds)
        self.obs = self.obs * np.float32(0.99)
        return self.obs, None, float(np.sum(action)), False, False

    def close(self) -> None:
        """Nothing is open."""


@struct
class Sleeping(HostEnv):
    """The same as an environment of shoal. `milliseconds` is how long a step of one environment takes."""

    milliseconds: Number = 1.0
    continuous: bool = static(False)
    max_steps: Number | None = 100

    observation_space = property(lambda self: Box(-np.inf, np.inf, (8,)))
    action_space = property(lambda self: Box(-1.0, 1.0, (2,)) if self.continuous else Discrete(4))

    def open(self) -> Sleeper:
        """Start one."""
        return Sleeper(float(self.milliseconds) / 1e3)


def population(args: argparse.Namespace, milliseconds: float, overlap: bool, learns: bool) -> HostPopulation:
    """A member that has begun."""
    fields = {"num_envs": 4, "num_steps": 16, "batch_size": 256, "hidden": (128, 128), "buffer_size": 10_000}
    fields |= {"learning_starts": 0 if learns else 1e9, "train_frequency": args.train_frequency}
    env = Sleeping(milliseconds=milliseconds, continuous=args.agent != "dqn")
    agent = AGENTS[args.agent].build(**fields)
    found = HostPopulation(make_plan(spec_for(agent, env, steps=64_000, overlap=overlap), agent, env), make_key(0))
    found.begin()
    found.advance(0, 2)  # which compiles
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--agent", default="dqn", choices=("dqn", "sac", "td3", "crossq", "tqc"))
    parser.add_argument("--milliseconds", type=float, default=1.0, help="of a step of one environment")
    parser.add_argument("--train-frequency", type=float, default=4.0, help="environment steps per gradient step")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=5, help="in a round")
    args = parser.parse_args()
    sides = {
        "stepping alone": population(args, args.milliseconds, False, learns=False),
        "learning alone": population(args, 0.0, False, learns=True),
        "training": population(args, args.milliseconds, False, learns=True),
        "training with overlap": population(args, args.milliseconds, True, learns=True),
    }
    found: dict[str, list[float]] = {side: [] for side in sides}
    for round_ in range(args.rounds):
        for side, trained in sides.items():
            began = time.perf_counter()
            trained.advance(2 + round_ * args.updates, args.updates)
            found[side].append((time.perf_counter() - began) / args.updates * 1e3)
    for name, summary in (("median", statistics.median), ("least", min)):
        times = {side: summary(values) for side, values in found.items()}
        alone = max(times["stepping alone"], times["learning alone"])
        for side, milliseconds in times.items():
            print(f"{name} of {side}: {milliseconds:.1f} ms per update, {milliseconds / alone:.2f} of the larger alone")


if __name__ == "__main__":
    main()
