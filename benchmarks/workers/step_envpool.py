"""Steps of EnvPool's environments with random actions and its automatic resets, called from Python in every step.

EnvPool's threads and the caller run on the cores that the process is given; its processor time includes both.
"""

import argparse
import json
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="BabyAI-GoToLocal-v0")
parser.add_argument("--envs", type=int, default=2048)
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--repeats", type=int, default=3)
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()

import envpool  # noqa: E402
import numpy as np  # noqa: E402

envs = envpool.make(args.env, env_type="gymnasium", num_envs=args.envs, num_threads=args.threads, seed=0)
obs, _ = envs.reset()
draw, ended, walls, cpus = np.random.default_rng(0), 0, [], []
for _ in range(args.repeats):
    actions = draw.integers(0, 7, (args.steps, args.envs)).astype(np.int32)
    wall, cpu = time.perf_counter(), time.process_time()
    for row in actions:
        obs, _, terminated, truncated, _ = envs.step(row)
        ended += int((terminated | truncated).sum())
    walls.append(time.perf_counter() - wall)
    cpus.append(time.process_time() - cpu)
versions = {"python": sys.version.split()[0], "envpool": envpool.__version__, "numpy": np.__version__}
found = {"steps": args.envs * args.steps, "ended": ended, "wall_s": walls, "cpu_s": cpus, "versions": versions}
print(json.dumps({**found, "shapes": {name: list(np.shape(part)) for name, part in obs.items()}}))
