"""bsuite's radar figure: an agent's mean score for each of seven abilities (tags).

Source: Osband et al. 2020, figure 1; bsuite 0.3.6 `experiments/summary_analysis.py`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal.viz.style import INK, PALE_INK, PALETTE, figure_style, save_figure

SMALLEST = 0.05  # smaller scores are drawn at this radius, so that a polygon never shrinks to a point
RINGS = (0.25, 0.5, 0.75, 1.0)
SHADES = (0.06, 0.05, 0.03, 0.015)


def radar(agents: Mapping[str, Mapping[str, float]], out: str | Path, title: str = "bsuite") -> Path:
    """Draw scores by tag, `{agent: {tag: score}}`, as one polygon per agent. Returns the path of the figure.

    All agents must have the same tags, three or more; otherwise ValueError is raised. A tag whose score is NaN for all
    agents is labeled "not run".
    """
    tags = sorted(next(iter(agents.values()), {}))
    if len(tags) < 3 or any(sorted(scores) != tags for scores in agents.values()):
        raise ValueError("a radar needs at least three tags, the same for every agent.")
    with figure_style():
        return save_figure(_drawn(agents, tags, title), out)


def _drawn(agents: Mapping[str, Mapping[str, float]], tags: list[str], title: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 6.4), dpi=120, layout="constrained")
    axes = figure.add_subplot(projection="polar")
    angles = np.linspace(0, 2 * np.pi, len(tags), endpoint=False)
    _rings(axes)
    for index, (name, scores) in enumerate(agents.items()):
        values = np.maximum(np.nan_to_num([scores[tag] for tag in tags]), SMALLEST)
        around, color = np.append(angles, angles[0]), PALETTE[index % len(PALETTE)]
        axes.plot(around, np.append(values, values[0]), color=color, linewidth=3, label=name, zorder=3)
        axes.fill(around, np.append(values, values[0]), color=color, alpha=0.2, zorder=2)
    _label_tags(axes, angles, [_words(tag, agents) for tag in tags])
    axes.set_title(title, fontsize=13, fontweight="bold", color=INK, pad=18)
    if len(agents) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.05, 1.05), frameon=False)
    return figure


def _rings(axes: Any) -> None:
    around = np.linspace(0, 2 * np.pi, 100)
    for ring, shade in zip(RINGS, SHADES, strict=True):
        axes.fill(around, np.full(100, ring), color="black", alpha=shade, zorder=0)
    axes.set_ylim(0, 1)
    axes.set_yticks(RINGS, [f"{ring:g}" for ring in RINGS], color=PALE_INK, fontsize=9)
    axes.set_rlabel_position(360 / 14)  # between two of seven axes
    axes.grid(color="grey", linestyle=":", alpha=0.7)
    axes.spines["polar"].set_visible(False)


def _label_tags(axes: Any, angles: np.ndarray, words: Sequence[str]) -> None:
    axes.set_xticks(angles, words, fontsize=11, color=INK)
    axes.tick_params(axis="x", pad=6)
    for label, angle in zip(axes.get_xticklabels(), angles, strict=True):
        right, left = np.cos(angle) > 0.1, np.cos(angle) < -0.1
        label.set_horizontalalignment("left" if right else "right" if left else "center")


def _words(tag: str, agents: Mapping[str, Mapping[str, float]]) -> str:
    """The label of a tag, such as `Credit Assignment`; with the score in a second line if there is one agent."""
    found = [scores[tag] for scores in agents.values()]
    name = tag.replace("_", " ").title()
    if np.isnan(found).all():
        return f"{name}\nnot run"
    return f"{name}\n{found[0]:.2f}" if len(found) == 1 else name
