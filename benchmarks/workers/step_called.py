"""Steps of environments that Python calls in every step, with random actions and automatic resets.

    envpool  all of them by EnvPool's C++, on `--threads` threads
    numpy    all of them as NumPy arrays: Gymnasium's own vectorized version
    alone    one environment in this process
    sync     several, one after the other, in this process: Gymnasium's SyncVectorEnv
    async    several, each in a process of its own: Gymnasium's AsyncVectorEnv

Actions are drawn before the clock starts. Nothing is done with the observations: all of these compute them in any case.
"""

import argparse
import contextlib
import importlib
import io
import time

import measure

REGISTERED_BY = {"MiniGrid": "minigrid", "BabyAI": "minigrid", "Doors": "doors_gymnasium"}

parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=("envpool", "numpy", "alone", "sync", "async"), default="envpool")
parser.add_argument("--env", default="MiniGrid-DoorKey-8x8-v0")
parser.add_argument("--envs", type=int, default=2048, help="1 with `--mode alone`")
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--repeats", type=int, default=3)
parser.add_argument("--threads", type=int, default=2, help="of EnvPool")
args = parser.parse_args()

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402

family = args.env.partition("-")[0]
if args.mode != "envpool" and family in REGISTERED_BY:
    importlib.import_module(REGISTERED_BY[family])


def stepped():
    """A function that takes a step of all environments, their number, and the number of actions."""
    if args.mode == "envpool":
        import envpool

        envs = envpool.make_gymnasium(args.env, num_envs=args.envs, num_threads=args.threads, seed=0)
        envs.reset()
        return envs.step, args.envs, envs.action_space.n
    if args.mode == "alone":
        env = gymnasium.make(args.env, disable_env_checker=True).unwrapped
        env.reset(seed=0)

        def step(actions):
            _, _, terminated, truncated, _ = env.step(int(actions[0]))
            if terminated or truncated:
                env.reset()

        return step, 1, env.action_space.n
    mode = "vector_entry_point" if args.mode == "numpy" else args.mode
    envs = gymnasium.make_vec(args.env, args.envs, vectorization_mode=mode, wrappers=wrappers())
    envs.reset(seed=0)
    return envs.step, args.envs, envs.single_action_space.n


def wrappers():
    """MiniGrid's images alone: missions cannot be stacked."""
    if REGISTERED_BY.get(family) != "minigrid":
        return ()
    from minigrid.wrappers import ImgObsWrapper

    return (ImgObsWrapper,)


def main():
    step, num_envs, num_actions = stepped()
    draw, walls, cpus = np.random.default_rng(0), [], []
    for _ in range(args.repeats):
        rows = draw.integers(0, num_actions, (args.steps, num_envs), dtype=np.int32)
        wall, cpu = time.perf_counter(), time.process_time()
        for actions in rows:
            step(actions)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {"steps": num_envs * args.steps, "wall_s": walls, "cpu_s": cpus}


if __name__ == "__main__":  # the processes of `async` import this file again
    with contextlib.redirect_stdout(io.StringIO()):  # MiniGrid prints every layout that it rejects
        found = main()
    measure.report(**found)
