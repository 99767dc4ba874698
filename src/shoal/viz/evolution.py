"""Figures of an evolution: fitness over generations, and the learned losses beside published ones."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from shoal.agents.learned_losses import LearnedDrift, LearnedValueLoss
from shoal.core.errors import UntrustedError
from shoal.ops.surrogates import clipped_surrogate, dpo_surrogate
from shoal.training.folder import RunFolder
from shoal.training.generations import fitness_of_generations, is_evolution
from shoal.training.result import Result
from shoal.viz.style import (
    GRID,
    PALETTE,
    figure_style,
    new_figure,
    place_legend,
    save_figure,
    set_titles,
    whole_numbers,
)

CLIP = 0.2  # of PPO's drift in the figure
LARGEST_ERROR = 30.0  # of the value losses in the figure
RATIOS = (0.4, 2.0)  # of the drifts in the figure
ERROR_LABEL, SLOPE_LABEL = "error: predicted value minus target", "slope of the loss"
SLOPE_NOTE = "the critic moves its prediction against the slope; where the slope is 0, it does not move"
RATIO_LABEL, DRIFT_LABEL = "ratio of the new to the old probability of an action", "drift D(r, A)"
DRIFT_NOTE = f"the policy loss is -r A + D(r, A); PPO's clip is {CLIP}"


def plot_evolution(folder: str | Path) -> list[Path]:
    """Draw the figures of an evolution into `figures/` of its folder, and return their paths; none for other runs.

    Raises ValueError if no generation is finished, or none has a fitness.
    """
    result = Result(folder)
    if not is_evolution(result):
        return []
    out = result.folder / "figures"
    paths = [_plot_fitness(result, out / "fitness.png")]
    for path, value in _losses(result).items():
        if isinstance(value, LearnedValueLoss):
            paths.append(_plot_value_loss(value, out / f"{path}.png"))
        if isinstance(value, LearnedDrift):
            paths.append(_plot_drift(value, out / f"{path}.png"))
    return paths


def _losses(result: Result) -> dict[str, Any]:
    """Return what was found by path; nothing where it has code of the user's own, whose figures nobody knows."""
    try:
        return result.found
    except UntrustedError:
        return {}


def _plot_fitness(result: Result, out: Path) -> Path:
    fitness = fitness_of_generations(result)
    scored = np.flatnonzero(np.isfinite(fitness).any(axis=1))
    if not scored.size:
        raise ValueError(f"{result.folder} has no fitness to draw: no candidate has finished an episode in training.")
    fitness, generation = fitness[scored], scored + 1
    with figure_style():
        figure, axes = new_figure(7, 4)
        low, mean, high = (function(fitness, axis=1) for function in (np.nanmin, np.nanmean, np.nanmax))
        axes.fill_between(generation, low, high, color=PALETTE[0], alpha=0.15, linewidth=0, label="worst to best")
        axes.plot(generation, mean, color=PALETTE[0], label="mean of the candidates")
        axes.xaxis.set_major_locator(whole_numbers())
        axes.set_xlabel("generation")
        axes.set_ylabel("fitness: mean return in training")
        axes.grid(axis="y", color=GRID)
        note = f"{fitness.shape[1]} candidates per generation, each trained for {result.spec.steps:,} steps"
        set_titles(
            figure,
            axes,
            f"Evolution of {', '.join(RunFolder(result.folder).read_found())} ({result.spec.env_name})",
            note,
        )
        place_legend(figure, axes)
        return save_figure(figure, out)


def value_loss_slopes(loss: LearnedValueLoss) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return errors [N] of a critic, and the slopes [N] of an evolved value loss and of the squared one."""
    error = np.linspace(-LARGEST_ERROR, LARGEST_ERROR, 601, dtype=np.float32)
    zeros = jnp.zeros_like(error)
    curves = {"evolved": np.asarray(loss(jnp.asarray(error), zeros, zeros, CLIP)), "squared": 0.5 * error**2}
    return error, {name: np.gradient(curve, error) for name, curve in curves.items()}


def drifts(drift: LearnedDrift) -> tuple[np.ndarray, dict[tuple[str, float], np.ndarray]]:
    """Return ratios [N] of probabilities, and the drift [N] of an evolved loss, of PPO and of DPO.

    The keys of the drifts are (name, advantage), with an advantage of 1 or -1.
    """
    ratio, found = np.linspace(*RATIOS, 401, dtype=np.float32), {}
    for name, loss in {"evolved": drift, "PPO": clipped_surrogate, "DPO": dpo_surrogate}.items():
        for advantage in (1.0, -1.0):
            a = jnp.full_like(ratio, advantage)
            found[name, advantage] = np.asarray(loss(jnp.asarray(ratio), a, jnp.float32(CLIP)) + ratio * a)
    return ratio, found


def _plot_value_loss(loss: LearnedValueLoss, out: Path) -> Path:
    error, slopes = value_loss_slopes(loss)
    with figure_style():
        figure, axes = new_figure(7, 4)
        for (name, slope), color in zip(slopes.items(), (PALETTE[0], PALETTE[6]), strict=True):
            axes.plot(error, slope, color=color, linestyle="-" if name == "evolved" else "--", label=name)
        axes.axhline(0, color=GRID, zorder=0)
        axes.axvline(0, color=GRID, zorder=0)
        axes.set_xlabel(ERROR_LABEL)
        axes.set_ylabel(SLOPE_LABEL)
        set_titles(figure, axes, "An evolved value loss beside the squared one", SLOPE_NOTE)
        place_legend(figure, axes)
        return save_figure(figure, out)


def _plot_drift(drift: LearnedDrift, out: Path) -> Path:
    ratio, added = drifts(drift)
    with figure_style():
        figure, axes = new_figure(7, 4)
        colors: dict[str, str] = dict(zip(("evolved", "PPO", "DPO"), PALETTE, strict=False))
        for (name, advantage), values in added.items():
            style, label = "-" if advantage > 0 else "--", f"{name}, A = {advantage:+.0f}"
            axes.plot(ratio, values, style, color=colors[name], label=label)
        axes.axvline(1, color=GRID, zorder=0)
        axes.set_xlabel(RATIO_LABEL)
        axes.set_ylabel(DRIFT_LABEL)
        set_titles(figure, axes, "An evolved drift beside those of PPO and DPO", DRIFT_NOTE)
        place_legend(figure, axes)
        return save_figure(figure, out)
