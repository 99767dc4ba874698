"""Steps of Gymnasium's own NumPy-vectorised environment with random actions, called from Python in every step."""

import argparse
import time

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--env", default="CartPole-v1")
parser.add_argument("--envs", type=int, default=2048)
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--repeats", type=int, default=5)
args = parser.parse_args()

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402

envs = gymnasium.make_vec(args.env, args.envs, vectorization_mode="vector_entry_point")
checksum = envs.reset(seed=0)[0]
draw = np.random.default_rng(0)
walls, cpus = [], []
for _ in range(args.repeats):
    wall, cpu = time.perf_counter(), time.process_time()
    for actions in draw.integers(0, envs.single_action_space.n, (args.steps, args.envs)):
        checksum = checksum + envs.step(actions)[0]
    walls.append(time.perf_counter() - wall)
    cpus.append(time.process_time() - cpu)
measure.report(steps=args.envs * args.steps, checksum=float(checksum.sum()), wall_s=walls, cpu_s=cpus)
