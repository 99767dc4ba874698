"""Make docs/images/population.gif: 24 agents of one population at work, one episode of each, side by side.

Rows are pole lengths (half of the length, in meters), columns are seeds. Run it from the root of the repository; it
takes some minutes on a CPU.
"""

import tempfile
from pathlib import Path

import shoal

LENGTHS = [0.3, 0.5, 0.8, 1.1]
SEEDS = 6


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = shoal.train(
            "ppo",
            "CartPole-v1",
            env_fields={"reset_low": -0.15, "reset_high": 0.15},
            env_sweep={"length": LENGTHS},
            seeds=SEEDS,
            steps=200_000,
            evaluations=1,
            figures=False,
            folder=f"{folder}/run",
        )
        out = Path(__file__).parent / "images" / "population.gif"
        shoal.render(result.folder, members="all", columns=SEEDS, size=120, max_steps=160, seed=1, out=out)


if __name__ == "__main__":
    main()
