"""`shoal track`: send finished runs to experiment trackers. `shoal ui`: open the page of the MLflow store."""

import argparse
from pathlib import Path

from shoal.cli.parser import Line, Parser, whole_number
from shoal.cli.tracking import add_tracking, tracking_in


def track_parser() -> Parser:
    """The options of `shoal track`."""
    parser = Parser("track", track, "RUN... [--to NAME,...] [options]")
    parser.add_argument("run", nargs="+", metavar="RUN", help="folders of runs and studies")
    add_tracking(parser, "--to")
    return parser


def track(line: Line) -> None:
    """Send runs and studies to experiment trackers from their folders. What a tracker has is not sent twice.

    shoal track runs/ppo-CartPole-v1 --to mlflow
    shoal track runs/* --to mlflow --experiment "first week"
    shoal track runs/ppo-CartPole-v1                       what was not sent while the run trained
    """
    from shoal.studies.track import track as send

    options = line.options
    to = tracking_in(options)
    for run in options.run:
        print(run)
        send(run, to, say=lambda text: print(f"  {text}", flush=True))


def ui_parser() -> Parser:
    """The options of `shoal ui`."""
    parser = Parser("ui", ui, "[--root DIR] [--port N]")
    parser.add_argument("--root", default="runs", metavar="DIR", help="parent folder of run folders (default runs)")
    parser.add_argument("--port", type=whole_number, default=5000, metavar="N", help="default 5000")
    parser.add_argument("--tracking-uri", metavar="URI", help="another store of MLflow, such as sqlite:///FILE")
    return parser


def ui(line: Line) -> int:
    """Open the page of the MLflow store of a folder of runs, on this machine only (127.0.0.1). Ctrl-C ends it.

    shoal ui
    shoal ui --root runs --port 5001
    """
    from shoal.studies.page import serve

    options: argparse.Namespace = line.options
    return serve(Path(options.root), options.port, options.tracking_uri or "")
