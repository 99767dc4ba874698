"""The options of experiment trackers, which `train`, `evolve` and other commands share."""

import argparse
from typing import Any

CHILDREN = ("none", "settings", "members", "trials")


def add_tracking(parser: argparse.ArgumentParser, option: str = "--track") -> None:
    """Add the options to a command."""
    group = parser.add_argument_group("experiment trackers")
    group.add_argument(
        option,
        dest="track",
        metavar="NAME,...",
        help="send the run to mlflow, tensorboard, wandb or my_tracker.py:MyTracker, in the background; with --resume, "
        "`none` ends that",
    )
    group.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="MLflow's store: a server, a database or sqlite:///FILE (default $MLFLOW_TRACKING_URI, or mlflow.db in "
        "the parent folder of the run)",
    )
    group.add_argument("--experiment", metavar="NAME", help="the tracker's experiment or project (default AGENT/ENV)")
    group.add_argument(
        "--track-children",
        choices=CHILDREN,
        metavar="KIND",
        help="what gets a run of its own below that of the command: none, settings, members, or trials of a study "
        "(default: settings if there are 2 to 50, and trials)",
    )
    group.add_argument("--tag", action="append", metavar="NAME=TEXT", help="a tag of the run; may be repeated")


def tracking_in(options: argparse.Namespace) -> Any:
    """Return what the options ask for, as `track=` of the library. Raises ValueError for options without a tracker."""
    from shoal.core.registry import TRACKERS
    from shoal.tracking.request import NOTHING, Tracking, tags_of

    rest = {
        "uri": options.tracking_uri,
        "experiment": options.experiment,
        "children": options.track_children,
        "tags": tags_of(options.tag or ()),
    }
    rest = {name: content for name, content in rest.items() if content}
    if not options.track or options.track == NOTHING:
        if rest:
            flag = {"uri": "tracking-uri", "children": "track-children", "tags": "tag"}.get(*list(rest)[:1] * 2)
            raise ValueError(f"--{flag} is for an experiment tracker: add --track {', '.join(TRACKERS)} (one of them).")
        return options.track or None
    return Tracking(options.track, **rest)
