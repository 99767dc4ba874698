"""Draw the pictures of docs/papers.md from the runs of its examples: `python docs/paper_pictures.py [FOLDER]`.

Runs the Python blocks of the page in FOLDER (default: a temporary one), which trains nine runs, or reads those that are
there already. The table of the LaTeX document is drawn with matplotlib in the same font.
"""

import csv
import os
import re
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
BLOCK = re.compile(r"^```python\n(?:# (\w+\.py)\n)?(.*?)^```$", re.MULTILINE | re.DOTALL)
WIDTHS = (1.2, 1.75, 1.75, 1.75)  # inches of the columns
LINE = 0.22  # inches


def run_page():
    """The comparison that the page makes, in the working folder."""
    namespace = {}
    for name, text in BLOCK.findall((DOCS / "papers.md").read_text()):
        if name:
            Path(name).write_text(text)
        elif not ("shoal.train(" in text and Path("runs").is_dir()):
            exec(text, namespace)
    return namespace["found"], namespace["LABELS"]


def draw_table(rows, labels, out):
    """Draw the rows of a table as LaTeX would set them, with the rules of booktabs."""
    from matplotlib.figure import Figure

    from shoal.viz.style import figure_style, save_figure, spelled

    names = list(dict.fromkeys(row["row"] for row in rows))
    lines = [["", *labels]] + [[name, *(row for row in rows if row["row"] == name)] for name in names]
    with figure_style("latex"):
        height = LINE * (len(lines) + 1)
        figure = Figure(figsize=(sum(WIDTHS), height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, sum(WIDTHS)), ylim=(height, 0))
        axes.axis("off")
        for number, cells in enumerate(lines):
            y = LINE * (number + 1)
            for column, cell in enumerate(cells):
                is_bold = isinstance(cell, dict) and cell["bold"] == "1"
                words = cell if isinstance(cell, str) else cell["words"]
                x = sum(WIDTHS[:column]) + (0.05 if column == 0 else WIDTHS[column] / 2)
                font = {"family": "cmb10"} if is_bold else {}
                axes.text(
                    x, y, spelled(words, "latex"), ha="left" if column == 0 else "center", va="center", size=9, **font
                )
            for above, width in ((0, 1.2), (1, 0.7), (len(lines) - 4, 0.7)):
                if number == above:
                    axes.axhline(y - LINE / 2, color="black", linewidth=width)
        axes.axhline(LINE * (len(lines) + 0.5), color="black", linewidth=1.2)
        save_figure(figure, out)


def main(folder):
    """Make both pictures."""
    os.chdir(folder)
    found, labels = run_page()
    import shoal
    from shoal.ops.aggregates import Estimate
    from shoal.reports.results_table import in_words

    shoal.plot_comparison(found, IMAGES / "paper-figure.png", width=5.5, font="latex", labels=labels)
    with open(shoal.comparison_table(found, "results.csv", labels=labels), newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["words"] = in_words(Estimate(*(float(row[name] or "nan") for name in ("value", "low", "high"))))
    draw_table(rows, labels, IMAGES / "paper-table.png")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
