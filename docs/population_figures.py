"""Make the figures of docs/populations.md: runs with PBT and with halving, drawn by `shoal plot`'s functions.

Run it from the root of the repository; it takes about a minute.
"""

import shutil
import tempfile
from pathlib import Path

import shoal
from shoal.viz.curves import plot_figures

IMAGES = Path(__file__).parent / "images"
VARY = ["learning_rate", "discount", "epsilon_end", "exploration"]
LENGTH = {"steps": 24_000, "records": 20, "evaluations": 20, "eval_episodes": 4, "eval_max_steps": 100}
RUNS = {
    "pbt": (shoal.PBT(vary=VARY), 16, ("lineage", "hyperparameters")),
    "halving": (shoal.Halving(vary=VARY), 27, ("rungs",)),
}


def main() -> None:
    for name, (selector, seeds, figures) in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            fields = {"is_slippery": True}
            options = {"selector": selector, "seeds": seeds, "env_fields": fields, "figures": False, **LENGTH}
            run = shoal.train("q-learning", "CliffWalking-v1", folder=f"{folder}/run", **options)
            plot_figures(run.folder)
            for figure in figures:
                shutil.copy(run.folder / "figures" / f"{figure}.png", IMAGES / f"{name}-{figure}.png")


if __name__ == "__main__":
    main()
