"""Draw the learning curves that evidence.py recorded: a panel for each level, a line for each seed.

python benchmarks/learning_figure.py [--out docs/images/minigrid-learning.png]
"""

import argparse
import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

HERE = Path(__file__).parent

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "images" / "minigrid-learning.png")
args = parser.parse_args()

rows = json.loads((HERE / "results" / "minigrid-learning.json").read_text())
columns = 5
figure = Figure(figsize=(13, 2.6 * -(-len(rows) // columns)), dpi=110, layout="constrained")
axes = figure.subplots(-(-len(rows) // columns), columns, squeeze=False)
for panel in axes.flat[len(rows) :]:
    panel.set_axis_off()
for panel, row in zip(axes.flat, rows, strict=False):
    steps, curves = np.array(row["curve_steps"]), np.array(row["curves"])
    panel.plot(steps, curves.T, color="#0072B2", alpha=0.3, linewidth=0.8)
    panel.plot(steps, curves.mean(axis=0), color="#0072B2", linewidth=2)
    panel.set_title(row["preset"].removeprefix("MiniGrid-").removesuffix("-v0"), fontsize=10)
    panel.set_ylim(min(-0.05, curves.min() - 0.05), 1.02)
    panel.set_xlim(0, steps[-1])
    panel.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g}M" if x else "0")
    panel.xaxis.set_major_locator(MaxNLocator(4))
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="#E4E4E4", linewidth=0.6)
figure.supxlabel("environment steps of each seed", fontsize=10)
figure.supylabel("greedy return", fontsize=10)
figure.savefig(args.out)
print(args.out)
