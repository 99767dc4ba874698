"""Figures of an evolution: fitness over generations, and the learned losses beside published ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from shoal.agents.learned_losses import LearnedDrift, LearnedValueLoss
from shoal.core.errors import UntrustedError
from shoal.ops.surrogates import clipped_surrogate, dpo_surrogate
from shoal.training.folder import RunFolder
from shoal.training.generations import fitness_of_generations, is_evolution, what_fitness_is
from shoal.training.result import Result
from shoal.viz.chart import Band, Chart, Levels, Line
from shoal.viz.paint import draw
from shoal.viz.words import number

SIZE = (7.0, 4.0)  # inches
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
    out, fitness = result.folder / "figures", fitness_chart(result)
    title = f"Evolution of {', '.join(RunFolder(result.folder).read_found())} ({result.spec.env_name})"
    paths = [draw(fitness, out / "fitness.png", title, SIZE)]
    charts = loss_charts(_losses(result))
    return paths + [draw(chart, out / f"{path}.png", chart.about, SIZE) for path, chart in charts.items()]


def _losses(result: Result) -> dict[str, Any]:
    """Return what was found by path; nothing where it has code of the user's own, whose figures nobody knows."""
    try:
        return result.found
    except UntrustedError:
        return {}


def fitness_chart(result: Result) -> Chart:
    """Return the chart of the fitness over the generations. Raises ValueError if there is none."""
    fitness = fitness_of_generations(result)
    scored = np.flatnonzero(np.isfinite(fitness).any(axis=1))
    if not scored.size:
        raise ValueError(f"{result.folder} has no fitness to draw: no candidate has finished an episode in training.")
    fitness, generation = fitness[scored], scored + 1
    low, mean, high = (function(fitness, axis=1) for function in (np.nanmin, np.nanmean, np.nanmax))
    marks = [Band(generation, low, high, "c0"), Line(generation, mean, "c0", "mean of the candidates")]
    trained = f"{fitness.shape[1]} candidates per generation, each trained for {result.spec.steps:,} steps"
    words = "generation", f"fitness: {what_fitness_is(result)}", "fitness over the generations"
    legend, note = [("c0", "mean of the candidates")], f"band: worst to best · {trained}"
    return Chart(marks, *words, legend, note, x_words=number, whole_x=True)


def loss_charts(found: Mapping[str, Any]) -> dict[str, Chart]:
    """Return the charts of the learned losses among the values that an evolution has found, by their path."""
    charts = {path: _value_loss_chart(value) for path, value in found.items() if isinstance(value, LearnedValueLoss)}
    return charts | {path: _drift_chart(value) for path, value in found.items() if isinstance(value, LearnedDrift)}


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


def _value_loss_chart(loss: LearnedValueLoss) -> Chart:
    error, slopes = value_loss_slopes(loss)
    styles = {"evolved": "c0", "squared": "c6 dashed"}
    marks = [Levels([0], [0]), *(Line(error, slope, styles[name], name) for name, slope in slopes.items())]
    legend = [(style, name) for name, style in styles.items()]
    about = "An evolved value loss beside the squared one"
    return Chart(marks, ERROR_LABEL, SLOPE_LABEL, about, legend, SLOPE_NOTE, x_words=number)


def _drift_chart(drift: LearnedDrift) -> Chart:
    ratio, added = drifts(drift)
    colors = {"evolved": "c0", "PPO": "c1", "DPO": "c2"}
    styles = {key: colors[key[0]] + " dashed" * (key[1] < 0) for key in added}
    words = {key: f"{key[0]}, A = {key[1]:+.0f}" for key in added}
    marks = [Levels([1]), *(Line(ratio, values, styles[key], words[key]) for key, values in added.items())]
    legend = [(styles[key], words[key]) for key in added]
    about = "An evolved drift beside those of PPO and DPO"
    return Chart(marks, RATIO_LABEL, DRIFT_LABEL, about, legend, DRIFT_NOTE, x_words=number)
