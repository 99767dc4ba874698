"""Measure the steps of EnvPool's environments that shoal takes and records, beside EnvPool's own.

    python benchmarks/envpool_rate.py Pong-v5 [--num-envs 16] [--threads 0] [--rounds 9] [--steps 64]

Both sides take random actions in E environments, with the same number of threads. EnvPool's own side calls `step` and
keeps nothing. Shoal's takes T steps as training does: it resets ended episodes, keeps final observations, and stacks
the rollout [T, E] on the device. The sides take turns in one process. The results are medians over rounds of steps per
second, and their ratio; then the same by the processor time of all threads, which other work on the machine changes
less.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import envpool
import numpy as np

import shoal
from shoal.training.host_envs import HostEnvs

Rate = tuple[float, float]  # steps per second, and per second of processor time


def measured(take_steps: Callable[[], object], steps: int) -> Rate:
    """The rate of a call that takes this number of steps."""
    began, processor = time.perf_counter(), time.process_time()
    take_steps()
    return steps / (time.perf_counter() - began), steps / (time.process_time() - processor)


def own_side(name: str, num_envs: int, threads: int, steps: int, random: np.random.Generator) -> Callable[[], None]:
    """T steps of EnvPool. Episodes begin again by themselves."""
    envs = envpool.make(name, env_type="gymnasium", num_envs=num_envs, num_threads=threads, seed=0)
    space = envs.action_space
    envs.reset()

    def take_steps() -> None:
        for _ in range(steps):
            envs.step(random_actions(space, num_envs, random))

    return take_steps


def shoal_side(name: str, num_envs: int, threads: int, steps: int, random: np.random.Generator) -> Callable[[], None]:
    """T steps of the same environments in shoal, as an update of an agent takes them."""
    env = shoal.make(f"envpool/{name}", threads=threads)
    envs = HostEnvs(env, num_envs, (0, 0, 0))
    envs.begin()
    slots = shoal.PPO(num_envs=num_envs, num_steps=steps, num_minibatches=1).bind(env).rollout.final_slots
    space = envpool.make_spec(name).action_space

    def take_steps() -> None:
        envs.collect(lambda *_: (random_actions(space, num_envs, random), {}), steps, slots, lambda ended: None)

    return take_steps


def random_actions(space: Any, num_envs: int, random: np.random.Generator) -> np.ndarray:
    """Uniform actions [E] of a space of Gymnasium."""
    if hasattr(space, "n"):
        return random.integers(space.n, size=num_envs, dtype=np.int32)
    return random.uniform(space.low, space.high, (num_envs, *space.shape)).astype(space.dtype)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--threads", type=int, default=0, help="of EnvPool; 0: as many as there are cores")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=64)
    args = parser.parse_args()
    sizes = (args.name, args.num_envs, args.threads, args.steps, np.random.default_rng(0))
    sides = {"EnvPool": own_side(*sizes), "shoal": shoal_side(*sizes)}
    rates: dict[str, list[Rate]] = {side: [] for side in sides}
    for take_steps in sides.values():
        take_steps()  # the first one compiles
    for _ in range(args.rounds):
        for side, take_steps in sides.items():
            rates[side].append(measured(take_steps, args.steps * args.num_envs))
    print(f"EnvPool {envpool.__version__}, {args.name}, {args.num_envs} environments, {args.rounds} rounds")
    for unit, column in (("steps/s", 0), ("steps/s of processor time", 1)):
        median = {side: statistics.median(rate[column] for rate in found) for side, found in rates.items()}
        ratio = statistics.median(
            ours[column] / own[column] for own, ours in zip(rates["EnvPool"], rates["shoal"], strict=True)
        )
        print(f"{unit}: EnvPool {median['EnvPool']:,.0f}, shoal {median['shoal']:,.0f}, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
