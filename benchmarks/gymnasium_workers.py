"""Measure the steps that shoal's workers take in an environment of Gymnasium, beside Gymnasium's own AsyncVectorEnv.

    python benchmarks/gymnasium_workers.py [--milliseconds 2] [--num-envs 16] [--workers 0 4 16] [--rounds 5]

Each step of an environment sleeps, which takes no processor time. AsyncVectorEnv has a process for each environment,
and keeps nothing; shoal's side takes T steps as training does, and records them. Both take random actions, in turns.
The results are medians over rounds of environment steps per second.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv

import shoal
from shoal.training.host_envs import HostEnvs

NAME = "SleepingCartPole-v0"
STEPS = 50  # of each environment in a round


class SleepingCartPole(CartPoleEnv):
    """CartPole whose steps sleep."""

    def __init__(self, milliseconds: float = 1.0, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.seconds = milliseconds / 1e3

    def step(self, action: Any) -> Any:
        """Sleep, and take a step."""
        time.sleep(self.seconds)
        return super().step(action)


def own_side(milliseconds: float, num_envs: int) -> Callable[[], None]:
    """T steps of Gymnasium's AsyncVectorEnv."""
    envs = gymnasium.make_vec(NAME, num_envs, "async", {"context": "spawn"}, milliseconds=milliseconds)
    envs.reset(seed=0)

    def take_steps() -> None:
        for _ in range(STEPS):
            envs.step(envs.action_space.sample())

    return take_steps


def shoal_side(milliseconds: float, num_envs: int, workers: int) -> Callable[[], None]:
    """T steps of the same environments in shoal, as an update of an agent takes them."""
    env = shoal.make(f"gymnasium/{NAME}", workers=workers, options=(("milliseconds", milliseconds),))
    envs, random = HostEnvs(env, num_envs, (0, 0, 0)), np.random.default_rng(0)
    envs.begin()

    def act(*_: Any) -> tuple[np.ndarray, dict]:
        return random.integers(2, size=num_envs, dtype=np.int32), {}

    return lambda: envs.collect(act, STEPS, 1, lambda ended: None) and None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--milliseconds", type=float, default=2.0, help="of a step of one environment")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 4, 16])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    sizes = (args.milliseconds, args.num_envs)
    sides = {"AsyncVectorEnv": own_side(*sizes)}
    sides |= {f"shoal, {workers} workers": shoal_side(*sizes, workers) for workers in args.workers}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(args.rounds):
        for side, take_steps in sides.items():
            began = time.perf_counter()
            take_steps()
            rates[side].append(STEPS * args.num_envs / (time.perf_counter() - began))
    for side, found in rates.items():
        print(f"{side}: {statistics.median(found):,.0f} steps/s")


gymnasium.register(NAME, SleepingCartPole, max_episode_steps=500)  # here, because the workers import this file too

if __name__ == "__main__":
    main()
