"""Measure a step of shoal's environments under Gymnasium's calls, beside Gymnasium's own and EnvPool's.

    python benchmarks/gymnasium_adapter.py [--rounds 7] [--envs 1024]

single    One CartPole, stepped from Python: shoal/CartPole-v1 and Gymnasium's CartPole-v1. "empty call" is the least
          that a step costs: calling a compiled program that adds 1 to as many numbers, and reading its result.
minigrid  One MiniGrid-DoorKey-8x8, likewise.
cartpole  E CartPoles: ShoalVectorEnv, Gymnasium's SyncVectorEnv, and EnvPool where it is installed.
doorkey   E MiniGrid-DoorKey-8x8: ShoalVectorEnv, and EnvPool's version in C++ where it is installed.

The sides take turns in one process; the result is the median over rounds of the microseconds per call of `step`.
Actions are random and chosen before.

`--processor-time` counts the processor time of the calling thread, so that it can be measured while the machine does
other work. It measures the parts with one environment only, whose steps run in this thread.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import run

import shoal

shoal.prepare()

import jax  # noqa: E402

import shoal.gym  # noqa: E402

OUT = run.HERE / "results" / "gymnasium-adapter.json"
ONE_OUT = run.HERE / "results" / "gymnasium-adapter-one.json"
Step = Callable[[int], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--envs", type=int, default=1024)
    parser.add_argument("--calls", type=int, default=300, help="of `step` in each round")
    parser.add_argument("--processor-time", action="store_true", help="of the calling thread")
    options = parser.parse_args()
    clock = time.thread_time if options.processor_time else time.perf_counter
    command = f"python benchmarks/gymnasium_adapter.py --rounds {options.rounds} --envs {options.envs}"
    command += " --processor-time" if options.processor_time else ""
    packages = [name for name in ("gymnasium", "envpool", "jax") if importlib.util.find_spec(name)]
    versions = {name: importlib.metadata.version(name) for name in packages}
    report: dict[str, Any] = {
        "command": command,
        "versions": versions,
        "envs": options.envs,
        "machine": run.machine_without_command(),
    }
    measured = one_environment() if options.processor_time else {**one_environment(), **many_environments(options.envs)}
    for part, sides in measured.items():
        times: dict[str, list[float]] = {name: [] for name in sides}
        for step in sides.values():
            step(20)  # compile
        for _ in range(options.rounds):
            for name, step in sides.items():
                calls = (
                    max(10, options.calls // 10)
                    if name == "gymnasium" and part not in ("single", "minigrid")
                    else options.calls
                )
                begin = clock()
                step(calls)
                times[name].append((clock() - begin) / calls * 1e6)
        medians = {name: round(statistics.median(values), 1) for name, values in times.items()}
        ratios = {f"{name} / shoal": round(value / medians["shoal"], 2) for name, value in medians.items()}
        del ratios["shoal / shoal"]
        report[part] = {"microseconds_per_call": medians, **ratios}
        print(part, json.dumps(report[part]), flush=True)
    (ONE_OUT if options.processor_time else OUT).write_text(json.dumps(report, indent=1) + "\n")


def one_environment() -> dict[str, dict[str, Step]]:
    """The sides of each part with one environment: functions that take a number of steps."""
    return {
        "single": {
            "shoal": single(gymnasium.make("shoal/CartPole-v1")),
            "gymnasium": single(gymnasium.make("CartPole-v1")),
            "empty call": empty_call(),
        },
        "minigrid": {
            "shoal": single(gymnasium.make("shoal/MiniGrid-DoorKey-8x8-v0")),
            "gymnasium": single(gymnasium.make("minigrid:MiniGrid-DoorKey-8x8-v0")),
        },
    }


def many_environments(envs: int) -> dict[str, dict[str, Step]]:
    """The sides of each part with E environments."""
    found = {
        "cartpole": {
            "shoal": many(gymnasium.make_vec("shoal/CartPole-v1", envs), envs, 2),
            "gymnasium": many(gymnasium.make_vec("CartPole-v1", envs, vectorization_mode="sync"), envs, 2),
        },
        "doorkey": {"shoal": many(gymnasium.make_vec("shoal/MiniGrid-DoorKey-8x8-v0", envs), envs, 7)},
    }
    if importlib.util.find_spec("envpool"):
        import envpool

        for part, name, actions in (("cartpole", "CartPole-v1", 2), ("doorkey", "MiniGrid-DoorKey-8x8-v0", 7)):
            found[part]["envpool"] = many(envpool.make_gymnasium(name, num_envs=envs), envs, actions, seeded=False)
    return found


def single(env: Any) -> Step:
    """Steps of one environment, with resets."""
    env.reset(seed=0)

    def step(calls: int) -> None:
        for i in range(calls):
            *_, terminated, truncated, _ = env.step(i & 1)
            if terminated or truncated:
                env.reset()

    return step


def empty_call() -> Step:
    """Calls of a compiled program with one array in and one out, which is read."""
    array = jax.device_put(np.zeros(15, np.float32))
    program = jax.jit(lambda x: x + 1)

    def step(calls: int) -> None:
        for _ in range(calls):
            np.asarray(program(array))

    return step


def many(env: Any, envs: int, actions: int, seeded: bool = True) -> Step:
    """Steps of many environments, which reset themselves."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(actions, size=(64, envs), dtype=np.int64 if seeded else np.int32)
    env.reset(**({"seed": 0} if seeded else {}))

    def step(calls: int) -> None:
        for i in range(calls):
            env.step(chosen[i % 64])

    return step


if __name__ == "__main__":
    main()
