"""Make the trackers that a `Tracking` asks for."""

from pathlib import Path

from shoal.tracking.request import TRACKERS, Tracking
from shoal.tracking.tracker import Tracker


def tracker_for(name: str, tracking: Tracking, folder: Path, root: Path, experiment: str) -> Tracker:
    """Return a tracker; nothing is imported, opened or written yet.

    `folder` is that of the run or study, `root` the folder that it lies in. `experiment` is the experiment's name if
    `tracking` has none.
    """
    experiment = tracking.experiment or experiment
    match name:
        case "mlflow":
            from shoal.tracking.mlflow import Mlflow

            return Mlflow(tracking.uri, root, experiment)
        case "tensorboard":
            from shoal.tracking.tensorboard import TensorBoard

            return TensorBoard(folder / "tensorboard")
        case "wandb":
            from shoal.tracking.wandb import Wandb

            return Wandb(folder, experiment)
    raise ValueError(f"tracker {name!r} is unknown: choose {', '.join(TRACKERS)}.")
