"""Random steps of copies of Doors in a vector environment of Gymnasium, one copy after another or in processes."""

import argparse
import json
import time
import warnings

import doors_gymnasium  # noqa: F401 - registers Doors
import gymnasium

parser = argparse.ArgumentParser()
parser.add_argument("--kind", choices=("sync", "async"), default="sync")
parser.add_argument("--envs", type=int, nargs="+", default=[101])
parser.add_argument("--steps", type=int, default=512, help="of all copies")
args = parser.parse_args()

warnings.filterwarnings("ignore", module="gymnasium")


def seconds(envs):
    """Step this many copies."""
    vector = {"sync": gymnasium.vector.SyncVectorEnv, "async": gymnasium.vector.AsyncVectorEnv}[args.kind]
    copies = vector([lambda: gymnasium.make("Doors-v0", max_episode_steps=25)] * envs)
    copies.reset(seed=0)
    copies.action_space.seed(0)
    actions = [copies.action_space.sample() for _ in range(args.steps)]
    begin = time.perf_counter()
    for action in actions:
        copies.step(action)
    took = time.perf_counter() - begin
    copies.close()
    return took


if __name__ == "__main__":  # the processes of copies import this file again
    print(json.dumps({"envs": args.envs, "wall_s": [seconds(envs) for envs in args.envs]}))
