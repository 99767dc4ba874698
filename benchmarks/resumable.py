"""Runs of the benchmarks that are resumed if they were stopped, and not repeated if they are finished."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shoal
from shoal.core.struct import Struct
from shoal.training.generations import fitness_of_generations

PLACES = ("--root", "--out", "--figures")  # options that change no result


def own_command() -> str:
    """The command line of this process, without the options that name places."""
    words = ["python", f"benchmarks/{Path(sys.argv[0]).name}"]
    for before, word in zip([""] + sys.argv[1:-1], sys.argv[1:], strict=True):
        if before not in PLACES and word.partition("=")[0] not in PLACES:
            words.append(word)
    return shlex.join(words)


def finished(folder: Path, start: Callable[[Path], Any], **resumed: Any) -> Any:
    """Start the run of a folder, finish it, or read it: its result."""
    if (folder / "summary.json").exists():
        return shoal.load_result(folder)
    if (folder / "spec.json").exists():
        return shoal.train(resume=folder, **resumed)
    return start(folder)


def evolution(experiment: str, folder: Path, **sizes: Any) -> tuple[Any, dict[str, Any]]:
    """The result of an experiment of `shoal.evolve`, and what a report says about it."""
    result = finished(folder, lambda folder: shoal.evolve(experiment, folder=folder, **sizes))
    fitness, summary = fitness_of_generations(result), result.summary
    return result, {
        "experiment": experiment,
        "generations": len(fitness),
        "candidates": fitness.shape[1],
        "steps": result.spec.steps,
        "fitness_mean": fitness.mean(axis=1).round(3).tolist(),
        "fitness_best": fitness.max(axis=1).round(3).tolist(),
        "found": {path: float(v) for path, v in result.found.items() if not isinstance(v, Struct)},
        "seconds": round(summary["total_seconds"], 1),
        "seconds_per_generation": round(summary["train_seconds"] / len(fitness), 3),
        "steps_per_second": round(summary["steps_per_second"]),
    }


def difference(first: Path, second: Path, names: tuple[str, str], metric: str) -> dict[str, Any]:
    """Compare two runs in a metric, paired by seed: both means, and the difference with its interval."""
    found = shoal.compare(first, second, metric)
    return {
        names[0]: found["mean"][0],
        names[1]: found["mean"][1],
        "difference": found["difference"],
        "interval": found["difference_interval"],
        "pairs": found["pairs"],
    }
