"""Compare how soon PPO learns CartPole with PureJaxRL's recipe: equal hyperparameters, many seeds.

    python benchmarks/ppo_learning.py [--seeds 64] [--python .venv-peers/bin/python] [--out FILE]

Both train SEEDS agents for 499,712 steps with the hyperparameters of PureJaxRL's `ppo.py`, which are the defaults of
shoal. A curve has the mean return of each agent's training episodes in blocks of 8,192 steps. Written are the return
averaged over the whole training, and the block in which the mean of all agents first reaches 475; intervals are 95 %
bootstrap intervals over agents. `make peers` makes the Python of the peer.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import shoal

shoal.prepare()

import numpy as np  # noqa: E402

HERE = Path(__file__).parent
BLOCK, BLOCKS, SOLVED, RESAMPLES = 8192, 61, 475, 5000


def curves_of_shoal(seeds: int) -> np.ndarray:
    """Returns [M, blocks] of agents of shoal."""
    sizes = {"seeds": seeds, "seed": 1000, "steps": BLOCK * BLOCKS, "records": BLOCKS, "evaluations": 0}
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"preset": None, "figures": False, "progress": False, "folder": f"{folder}/run"}
        return np.asarray(shoal.train("ppo", "CartPole-v1", **sizes, **quiet).curves["train_return"]).T


def curves_of_peer(seeds: int, python: str) -> np.ndarray:
    """Returns [M, blocks] of agents of PureJaxRL's recipe."""
    words = ["--seeds", seeds, "--total-steps", BLOCK * BLOCKS, "--block", BLOCK]
    command = [python, HERE / "workers" / "ppo_gymnax.py", *words]
    output = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, check=True).stdout
    return np.asarray(json.loads(output.splitlines()[-1])["blocks_of_seeds"], np.float32)


def reached(curves: np.ndarray) -> float:
    """The steps after which the mean return of all agents is at least SOLVED; those of the run if it never is."""
    blocks = np.flatnonzero(np.nanmean(curves, axis=0) >= SOLVED)
    return BLOCK * float(blocks[0] + 1 if len(blocks) else BLOCKS)


def row(found: dict[str, np.ndarray]) -> dict:
    """The numbers of both, and their differences."""
    numbers = {"whole": lambda curves: float(np.nanmean(curves)), "reached": reached}
    rng = np.random.default_rng(0)
    drawn = {
        name: [curves[rng.integers(0, len(curves), len(curves))] for _ in range(RESAMPLES)]
        for name, curves in found.items()
    }
    result: dict = {"seeds": {name: len(curves) for name, curves in found.items()}}
    for what, number in numbers.items():
        samples = {name: np.asarray([number(curves) for curves in sets]) for name, sets in drawn.items()}
        samples["shoal minus PureJaxRL"] = samples["shoal"] - samples["PureJaxRL"]
        values = {name: number(curves) for name, curves in found.items()}
        values["shoal minus PureJaxRL"] = values["shoal"] - values["PureJaxRL"]
        result[what] = {
            name: {"value": v, "interval": np.quantile(samples[name], (0.025, 0.975)).tolist()}
            for name, v in values.items()
        }
    result["curves"] = {name: np.round(np.nanmean(curves, axis=0), 1).tolist() for name, curves in found.items()}
    return result


def main() -> None:
    """Train both, write the numbers, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--python", default=".venv-peers/bin/python")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "ppo-learning.json")
    options = parser.parse_args()
    found = {
        "shoal": curves_of_shoal(options.seeds),
        "PureJaxRL": curves_of_peer(options.seeds, options.python),
    }
    result = row(found) | {"command": f"python benchmarks/ppo_learning.py --seeds {options.seeds}"}
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({name: result[name] for name in ("whole", "reached")}, indent=1))


if __name__ == "__main__":
    main()
