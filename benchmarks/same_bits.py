"""Check that two checkouts of shoal give the same bits: train every agent in both and compare the results.

    python benchmarks/same_bits.py OLD NEW [--agents ppo,dqn] [--members 1,3,17]

OLD and NEW are folders with a `src/` each, such as two `git worktree`s. For every agent and every number of members it
compares the best policies, the curves, and everything in the last checkpoint: weights, optimizers, buffers, random keys
and environment states. The names of arrays may differ (a field may have been renamed); shapes, dtypes, bits and the
number of arrays may not. Prints a line for each case. The exit status is 1 if any of them differs.
"""

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

OPTIONS = {"steps": 960, "records": 3, "evaluations": 2, "eval_episodes": 3, "eval_max_steps": 20}
SMALL = {"num_envs": 4, "num_steps": 16, "hidden": (8,)}
BUFFERED = {**SMALL, "learning_starts": 64, "buffer_size": 512, "batch_size": 16, "train_frequency": 8}
TABLE = {"num_steps": 32}
# agent -> (environment, fields), with more than one variant where code paths differ
CASES = {
    "a2c": [("CartPole-v1", SMALL)],
    "bc": [("CartPole-v1", {"hidden": (8,)})],
    "c51": [("CartPole-v1", {**BUFFERED, "atoms": 11})],
    "crossq": [("Pendulum-v1", BUFFERED)],
    "ddpg": [("Pendulum-v1", BUFFERED)],
    "double-q": [("CliffWalking-v1", TABLE)],
    "dqn": [
        ("CartPole-v1", BUFFERED),
        ("CartPole-v1", {**BUFFERED, "prioritized": True, "noisy": True, "n_step": 3}),
        ("CartPole-v1", {**BUFFERED, "prioritized": True, "memory": "gru", "memory_size": 8, "sequence_length": 16}),
    ],
    "droq": [("Pendulum-v1", BUFFERED)],
    "es": [("CartPole-v1", {"population_size": 8, "hidden": (4,), "episode_steps": 20})],
    "expected-sarsa": [("CliffWalking-v1", TABLE)],
    "fasttd3": [("Pendulum-v1", {**BUFFERED, "atoms": 11})],
    "iqn": [("CartPole-v1", {**BUFFERED, "atoms": 8})],
    "ppo": [
        ("CartPole-v1", {**SMALL, "num_minibatches": 2}),
        ("CartPole-v1", {**SMALL, "num_minibatches": 2, "memory": "lstm", "memory_size": 8, "shared": True}),
        ("Pendulum-v1", {**SMALL, "num_minibatches": 2, "normalize_reward": True}),
        ("MiniGrid-Empty-5x5-v0", {**SMALL, "num_minibatches": 2}),
    ],
    "pqn": [("CartPole-v1", {**SMALL, "num_minibatches": 2})],
    "q-learning": [("CliffWalking-v1", TABLE)],
    "rainbow": [("CartPole-v1", {**BUFFERED, "atoms": 11})],
    "redq": [("Pendulum-v1", {**BUFFERED, "num_critics": 4})],
    "rl2": [
        ("BernoulliBandit-v0", {"num_envs": 8, "num_steps": 16, "num_minibatches": 2, "hidden": (8,), "memory_size": 8})
    ],
    "sac": [
        ("Pendulum-v1", BUFFERED),
        ("Pendulum-v1", {**BUFFERED, "memory": "gru", "memory_size": 8, "sequence_length": 16}),
    ],
    "sarsa": [("CliffWalking-v1", TABLE)],
    "td3": [("Pendulum-v1", BUFFERED)],
    "tqc": [("Pendulum-v1", BUFFERED)],
}


def main() -> int:
    """Run both checkouts and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?")
    parser.add_argument("--agents", default=",".join(CASES))
    parser.add_argument("--members", default="1,3,17")
    parser.add_argument("--worker", action="store_true", help="train with the checkout OLD and print its fingerprints")
    arguments = parser.parse_args()
    names, members = arguments.agents.split(","), [int(m) for m in arguments.members.split(",")]
    if arguments.worker:
        worker(names, members)
        return 0
    old, new = (read(checkout, arguments.agents, arguments.members) for checkout in (arguments.old, arguments.new))
    different = 0
    for case, before in old.items():
        after = new[case]
        wrong = [part for part in before if before[part] != after.get(part)]
        different += bool(wrong)
        arrays = sum(len(part) for part in before.values())
        print(f"{case:70} {'DIFFERENT: ' + ', '.join(wrong) if wrong else f'same, {arrays} arrays'}", flush=True)
    print(f"{len(old) - different} of {len(old)} the same")
    return int(different > 0)


def read(checkout: Path, agents: str, members: str) -> dict:
    """The fingerprints of a checkout: hashes by case and part."""
    env = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
    command = [sys.executable, __file__, str(checkout), "--worker", "--agents", agents, "--members", members]
    return json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout)


def worker(names: list[str], members: list[int]) -> None:
    """Train every case and print its fingerprints as JSON."""
    import shoal

    found = {}
    with tempfile.TemporaryDirectory() as folder_of_all:
        recorded = {"demonstrations": record(Path(folder_of_all) / "demonstrations.npz")} if "bc" in names else {}
        for name, count in itertools.product(names, members):
            for env, fields in CASES[name]:
                folder = Path(folder_of_all) / f"{len(found)}"
                options = {**OPTIONS, "fields": {**fields, **(recorded if name == "bc" else {})}, "seeds": count}
                quiet = {"progress": False, "figures": False, "cache": False}
                shoal.train(name, env, preset=None, folder=folder, **quiet, **options)
                words = " ".join(f"{k}={v}" for k, v in fields.items() if k not in BUFFERED)
                found[f"{name} {env} {words} x {count}"] = fingerprints(folder)
    json.dump(found, sys.stdout)


def record(path: Path) -> str:
    """Write random demonstrations for CartPole to a file; return its path."""
    import numpy as np

    rng = np.random.default_rng(0)
    arrays = {
        "obs": rng.uniform(-0.4, 0.4, (200, 4)).astype(np.float32),
        "action": rng.integers(2, size=200).astype(np.int32),
    }
    np.savez(path, **arrays)
    return str(path)


def fingerprints(folder: Path) -> dict[str, list[str]]:
    """Hashes of the arrays in a run folder: of its last checkpoint, its best policies and its curves."""
    import shoal

    curves = {k: v for k, v in shoal.load_result(folder).curves.items() if k != "wall_seconds"}
    newest = max((folder / "checkpoints").glob("step-*"))
    learners = arrays_in(next(newest / name for name in ("learners.npz", "arrays.npz") if (newest / name).is_file()))
    policies = {}
    if folder.joinpath("checkpoints", "best").is_dir():
        policies = arrays_in(next((folder / "checkpoints" / "best").glob("*.npz")))
    return {"learners": hashes(learners), "best policies": hashes(policies), "curves": hashes(curves)}


def arrays_in(path: Path) -> dict:
    """The arrays of a file by name."""
    import numpy as np

    with np.load(path) as file:
        return dict(file)


def hashes(arrays: dict) -> list[str]:
    """A sorted list with dtype, shape and hash of each array, without names."""
    return sorted(
        f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}" for array in arrays.values()
    )


if __name__ == "__main__":
    sys.exit(main())
