"""Train the policies that come with shoal and write them into the package: the best member of each preset's population.

    python benchmarks/zoo.py [AGENT/ENV ...] [--seeds N]

The member with the best last evaluation is chosen. The return that `shoal zoo` shows is measured in 1,000 other
episodes, with the stored weights, which have half precision.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

ZOO = Path(__file__).resolve().parents[1] / "src" / "shoal" / "zoo"
POLICIES = (
    "ppo/CartPole-v1",
    "ppo/Acrobot-v1",
    "ppo/Pendulum-v1",
    "ppo/MountainCar-v0",
    "ppo/MountainCarContinuous-v0",
    "ppo/bsuite/catch/0",
    "ppo/bsuite/memory_len/4",
    "ppo/MiniGrid-Empty-8x8-v0",
    "ppo/MiniGrid-DoorKey-5x5-v0",
    "ppo/MiniGrid-LavaGapS5-v0",
    "ppo/MiniGrid-SimpleCrossingS9N1-v0",
    "ppo/MiniGrid-Dynamic-Obstacles-5x5-v0",
    "dqn/CartPole-v1",
    "dqn/Acrobot-v1",
    "pqn/CartPole-v1",
    "sac/Pendulum-v1",
    "es/CartPole-v1",
    "es/Pendulum-v1",
    "q-learning/CliffWalking-v1",
)
SMALL = {
    "MiniGrid-": {"hidden": (16,)},
    "bsuite/memory_len": {"memory_size": 32},
}  # smaller networks than those of the presets
EPISODES = 1000

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("policies", nargs="*", default=POLICIES, help="for example ppo/CartPole-v1; default: all")
parser.add_argument("--seeds", type=int, default=4, help="members to choose from (4)")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import numpy as np  # noqa: E402

from shoal.training.export import export  # noqa: E402
from shoal.training.folder import RunFolder  # noqa: E402

for name in args.policies:
    agent, _, env = name.partition("/")
    with tempfile.TemporaryDirectory() as root:
        fields = next((fields for start, fields in SMALL.items() if env.startswith(start)), {})
        folder = Path(root) / name.replace("/", "-")
        result = shoal.train(agent, env, fields=fields, seeds=args.seeds, folder=folder, figures=False, progress=False)
        shutil.rmtree(ZOO / name, ignore_errors=True)
        folder = RunFolder(export(result.folder, ZOO / name, half=True))
    returns = np.asarray(shoal.evaluate(shoal.load(folder.path), episodes=EPISODES, seed=1).episode_return)
    summary = folder.read_json("summary.json")
    summary["checked"] = {
        "command": f"python benchmarks/zoo.py {name} --seeds {args.seeds}",
        "episodes": EPISODES,
        "mean": returns.mean(),
        "min": returns.min(),
    }
    folder.write_json("summary.json", summary)
    size = sum(file.stat().st_size for file in folder.path.rglob("*") if file.is_file())
    print(f"{name}: mean {returns.mean():.1f}, worst {returns.min():.1f} of {EPISODES} episodes, {size / 1000:.0f} kB")
