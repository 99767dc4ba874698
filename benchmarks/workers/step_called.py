"""Steps of environments that are called from Python in every step: EnvPool's C++ MiniGrid, or MiniGrid itself.

EnvPool steps all its environments on two threads. MiniGrid steps one in this process, or with `--envs` several, each in
a process of its own (`gymnasium.make_vec`, as in the code of NAVIX's paper). Random actions, auto-reset.
"""
# pyright: reportMissingImports=false

import argparse
import time

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--library", choices=("envpool", "minigrid"), default="envpool")
parser.add_argument("--env", default="MiniGrid-DoorKey-8x8-v0")
parser.add_argument("--envs", type=int, default=0, help="default: 2048 for EnvPool, 1 for MiniGrid")
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--repeats", type=int, default=3)
args = parser.parse_args()

import numpy as np  # noqa: E402

draw = np.random.default_rng(0)
args.envs = args.envs or (2048 if args.library == "envpool" else 1)
if args.library == "envpool":
    import envpool

    envs = envpool.make_gymnasium(args.env, num_envs=args.envs, num_threads=2)
    envs.reset()

    def advance(actions):
        """Take a step of all environments; return the sum of the observations."""
        return envs.step(actions)[0]["image"].sum(dtype=np.int64)

    num_actions = envs.action_space.n
elif args.envs > 1:
    import gymnasium
    from minigrid.wrappers import ImgObsWrapper

    many = gymnasium.make_vec(args.env, args.envs, vectorization_mode="async", wrappers=[ImgObsWrapper])
    many.reset(seed=0)

    def advance(actions):
        """Take a step of all environments; return the sum of the observations."""
        return many.step(actions)[0].sum(dtype=np.int64)

    num_actions = many.single_action_space.n
else:
    import gymnasium
    import minigrid  # noqa: F401  # registers its environments

    alone = gymnasium.make(args.env, disable_env_checker=True)
    alone.reset(seed=0)

    def advance(actions):
        """Take a step of all environments; return the sum of the observations."""
        obs, _, terminated, truncated, _ = alone.step(int(actions[0]))
        if terminated or truncated:
            alone.reset()
        return int(obs["image"].sum())

    num_actions = alone.action_space.n

walls, cpus, checksum = [], [], 0
for _ in range(args.repeats):
    steps = draw.integers(0, num_actions, (args.steps, args.envs), dtype=np.int32)
    wall, cpu = time.perf_counter(), time.process_time()
    for actions in steps:
        checksum += int(advance(actions))
    walls.append(time.perf_counter() - wall)
    cpus.append(time.process_time() - cpu)
measure.report(steps=args.envs * args.steps, checksum=checksum, wall_s=walls, cpu_s=cpus)
