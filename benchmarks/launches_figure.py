"""Draw when a GPU runs kernels in four steps of an environment, in the form of a CPU and in that of a GPU.

python benchmarks/launches_figure.py [--out docs/images/gpu-launches.png]

The data are the timelines of `gpu.py stepping` and `gpu.py forms`: each box is a kernel, as wide as it took.
"""

import argparse
import json
from pathlib import Path

from matplotlib.figure import Figure

HERE = Path(__file__).parent
ENV, NUM_ENVS, STEPS = "MiniGrid-Empty-8x8-v0", 1024, 4

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "images" / "gpu-launches.png")
args = parser.parse_args()


def timeline(part: str, form: str | None) -> tuple[list[list[float]], float]:
    """(start and microseconds of the kernels of four steps, launches of one step) of a program in this form."""
    rows = json.loads((HERE / "results" / f"gpu-{part}.json").read_text())["rows"]
    row = next(
        row
        for row in rows
        if row.get("timeline") and (row.get("env"), row.get("num_envs")) == (ENV, NUM_ENVS) and row.get("form") == form
    )
    return row["timeline"][: round(STEPS * row["launches"])], row["launches"]


lanes = {"in the form of a CPU": timeline("forms", "cpu"), "in the form of a GPU": timeline("stepping", None)}
figure = Figure(figsize=(11, 2.6), dpi=110, layout="constrained")
axes = figure.subplots()
for height, (kernels, launches) in enumerate(reversed(lanes.values())):
    axes.broken_barh(kernels, (height - 0.3, 0.6), color="#0072B2", linewidth=0.5)
    end = sum(kernels[-1])
    axes.text(end, height, f"  {end:.0f} µs, {launches:.1f} launches a step", va="center", fontsize=9)
axes.set_yticks(range(len(lanes)), list(reversed(lanes)))
axes.set_xlim(0, 1.35 * max(sum(kernels[-1]) for kernels, _ in lanes.values()))
axes.set_xlabel(f"microseconds; {STEPS} steps of {NUM_ENVS:,} {ENV}, under the profiler")
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(args.out)
print(args.out)
