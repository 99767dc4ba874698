"""The data of figures, read from a run folder: curves by metric, the members of each setting, and warnings."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped

from shoal.core.errors import did_you_mean
from shoal.specs.spec import plain
from shoal.training.comparison import trained_share
from shoal.training.folder import locate
from shoal.training.lives import hyperparameters_in
from shoal.training.records import IDENTITY_COLUMNS
from shoal.training.result import Result
from shoal.viz.words import setting_in_words

X_AXES = {
    "steps": ("env_steps", "environment steps of each member"),
    "wall": ("wall_seconds", "seconds since the start, compilation included"),
}
NO_METRICS = ("env_steps", "wall_seconds", *IDENTITY_COLUMNS)
LABELS = {
    "train_return": "return in training",
    "train_return_std": "standard deviation of the return in training",
    "train_return_min": "lowest return in training",
    "train_return_max": "highest return in training",
    "train_length": "episode length in training (steps)",
    "eval_return": "return in evaluation",
    "eval_length": "episode length in evaluation (steps)",
    "episodes": "episodes that ended since the previous record",
    "resets_reused": "resets that reused a state of the reset bank",
    "alive": "1: trained, 0: stopped because of NaN or infinity",
}


class Curve(NamedTuple):
    """The values of one setting over R records, with a column for each of its M members."""

    label: str
    x: Shaped[np.ndarray, "R"]  # environment steps or seconds
    y: Float[np.ndarray, "R M"]  # returns in training, or values of another metric
    eval_y: Float[np.ndarray, "R M"] | None = None  # returns in evaluations, NaN in records without one
    rank_y: Float[np.ndarray, "R M"] | None = None  # what the best curves are chosen by; None: y
    run: str = ""  # the name of its run in a figure of several
    stopped: int = 0  # members that are not trained any further because of NaN or infinity

    @property
    def is_of_training(self) -> bool:
        """Whether `y` holds returns of training episodes; an agent that collects none (`bc`) has evaluations only."""
        return self.y is not self.eval_y


class RunData:
    """The settings and the recorded values of one run."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = locate(folder)
        self._result = Result(self.folder)
        self.spec = self._result.spec
        self.settings = self._result.settings

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The columns of `curves.npz`: `env_steps` and `wall_seconds` [records], all others [records, M]."""
        return self._result.curves

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics that can be drawn, in alphabetical order."""
        return sorted(name for name in self.arrays if name not in NO_METRICS)

    def values(self, metric: str) -> Float[np.ndarray, "R M"]:
        """Return a metric. Raises ValueError, with the names of all metrics, for an unknown one."""
        if metric not in self.metrics:
            known = ", ".join(self.metrics)
            raise ValueError(
                f"{self.folder} has no metric {metric!r}.{did_you_mean(metric, self.metrics)} Its metrics are: {known}."
            )
        return np.asarray(self.arrays[metric], float)

    def label_of(self, metric: str) -> str:
        """Return the label of a metric on an axis; that of a loss is its name."""
        return LABELS.get(metric, metric)

    def field(self, name: str) -> str:
        """Return the path of a varying hyperparameter. Raises ValueError, with all of them, for another name."""
        found = name.replace("-", "_")
        if found not in self.settings[0]:
            if found in hyperparameters_in(self.arrays):
                raise ValueError(
                    f"{found!r} changes during {self.folder}, so curves cannot be pooled by it: draw it with --metric "
                    f"{found}."
                )
            varying = ", ".join(self.settings[0]) or "nothing"
            hint = did_you_mean(found, self.settings[0])
            raise ValueError(f"{name!r} does not vary in {self.folder}.{hint} What varies is: {varying}.")
        return found

    def values_of(self, field: str) -> list[Any]:
        """Return the distinct values of a varying hyperparameter; numbers in ascending order."""
        distinct = {str(plain(setting[field])): setting[field] for setting in self.settings}
        values = list(distinct.values())
        return sorted(values) if all(isinstance(v, int | float) for v in values) else values

    def members_with(self, values: Mapping[str, Any]) -> Bool[np.ndarray, "M"]:
        """Return which members have these values of hyperparameters."""
        chosen = [all(plain(setting[k]) == plain(v) for k, v in values.items()) for setting in self.settings]
        return np.repeat(np.array(chosen, bool), self.spec.members_of_setting)

    @property
    def title(self) -> str:
        """The agent and the environment, and how much of the run is missing if it is not finished."""
        return " ".join([f"{self.agent} on {self.spec.env_name}", *self.warnings])

    @property
    def agent(self) -> str:
        """The name of the agent; of `file.py:Class` only the class."""
        return self.spec.agent.rpartition(":")[2]

    @property
    def warnings(self) -> list[str]:
        """`["(unfinished: 40 % of its steps)"]` for a run that is not finished, else `[]`."""
        share = trained_share(self._result)
        return [] if self._result.is_finished else [f"(unfinished: {100 * share:.0f} % of its steps)"]

    def curves(self, x: str = "steps", metric: str = "", by: str = "") -> list[Curve]:
        """Return a curve for each setting or, with `by`, for each value of that hyperparameter.

        Without a `metric`, curves hold the returns in training and in evaluations.
        """
        if x not in X_AXES:
            raise ValueError(f"x={x!r} is unknown. Choose 'steps' or 'wall'.")
        if by:
            groups = [({by: value}, self.members_with({by: value})) for value in self.values_of(by)]
        else:
            numbers = np.arange(len(self.settings)).repeat(self.spec.members_of_setting)
            groups = [(setting, numbers == index) for index, setting in enumerate(self.settings)]
        train, evaluation = self.values("train_return"), self.values("eval_return")
        if not np.isfinite(train).any():  # training has no episodes (`bc`), or none has ended yet
            train = evaluation
        stopped = ~np.asarray(self.arrays.get("alive", np.ones_like(train)), bool)[-1]
        found = []
        for setting, members in groups:
            label = setting_in_words(setting)
            returns, evaluated = train[:, members], evaluation[:, members]
            if train is evaluation:
                evaluated = returns  # the same object: `Curve.is_of_training` compares
            curve = Curve(label, self.arrays[X_AXES[x][0]], returns, evaluated, stopped=int(stopped[members].sum()))
            if metric:
                curve = curve._replace(y=self.values(metric)[:, members], eval_y=None, rank_y=returns)
            found.append(curve)
        return found


def distinct_names(folders: Sequence[Path]) -> list[str]:
    """Return the name of each folder; where two different ones have the same name, with its parent's."""
    names = [folder.name for folder in folders]
    different = {folder.resolve() for folder in folders}
    if len(different) == len({folder.name for folder in different}):
        return names
    return [f"{folder.resolve().parent.name}/{folder.name}" for folder in folders]
