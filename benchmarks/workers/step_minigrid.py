"""Steps of one environment of MiniGrid with random actions and resets, called from Python in every step."""

import argparse
import contextlib
import io
import time

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="BabyAI-GoToLocal-v0")
parser.add_argument("--steps", type=int, default=10_000)
parser.add_argument("--repeats", type=int, default=3)
args = parser.parse_args()

import gymnasium  # noqa: E402
import minigrid  # noqa: E402
import numpy as np  # noqa: E402

assert minigrid  # which registers its environments
env = gymnasium.make(args.env, disable_env_checker=True).unwrapped
draw, checksum, resets = np.random.default_rng(0), 0, 0
walls, cpus = [], []
with contextlib.redirect_stdout(io.StringIO()):  # MiniGrid prints every layout that it rejects
    env.reset(seed=0)
    for _ in range(args.repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        for action in draw.integers(0, 7, args.steps).tolist():
            obs, _, terminated, truncated, _ = env.step(action)
            checksum += int(obs["direction"])
            if terminated or truncated:
                env.reset()
                resets += 1
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
measure.report(steps=args.steps, resets=resets, checksum=checksum, wall_s=walls, cpu_s=cpus)
