"""The base class of experiment trackers, and what they are given: runs with parameters, points and files.

A tracker is called from one background thread, and any of its methods may raise any error, for example while a server
is away. The thread then calls again, so a call that is repeated must not change the result.
"""

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

AXIS = "env_steps"  # the metric of every point of a training run that is its step
SHARED = "shared"  # how a process ends its part of a run that another process ends


class Entry(NamedTuple):
    """A run of a tracker: that of a command, or a child, such as one of its settings or a trial."""

    key: str  # identifies it for good; a continued run has the same one
    name: str
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    started: float  # seconds since 1970
    parent: str = ""  # the key of the run that it is a child of
    axis: str = AXIS  # the metric that counts the steps of its points
    worker: str = ""  # of several processes that write to the same run, the name of this one
    live: bool = True  # False: all its points come at once, and then its end


class Point(NamedTuple):
    """The metrics of a run at one step."""

    step: int
    time: float  # seconds since 1970
    metrics: Mapping[str, float]


class Known(NamedTuple):
    """The part of a run that a tracker has already."""

    steps: frozenset[int] = frozenset()  # of its points
    is_complete: bool = False


class Target(NamedTuple):
    """Where a tracker writes: every tracker is made from one of these."""

    folder: Path  # of the run or study
    root: Path  # the folder of the default store: the one that has the run folders
    experiment: str  # the name of the experiment or project
    uri: str = ""  # that the user has given


class Tracker(abc.ABC):
    """Writes runs to one experiment tracker. A subclass takes a `Target`; making it opens and writes nothing."""

    title: str  # its name in sentences
    package: str = ""  # that it imports, and that may not be installed
    install: str = ""  # what pip installs it from; empty: `package`
    longest_experiment: int = 1_000  # characters of an experiment's name
    uri_variable: str = ""  # the environment variable for its URI; empty for a tracker that takes no URI
    uri: str = ""  # of its server, if there is one; it may hold a password
    newest: Mapping[str, Any] = MappingProxyType({})  # for `tracking.json`: the newest run of a command, such as its id
    seconds_per_child: float = 0.01  # to write a child of a run: measured, for estimates

    @abc.abstractmethod
    def connect(self) -> None:
        """Import the package and open the store. May take seconds."""

    @abc.abstractmethod
    def open(self, entry: Entry) -> Known:
        """Begin a run, or continue it if the tracker has one of this key."""

    @abc.abstractmethod
    def write(self, key: str, points: Sequence[Point]) -> None:
        """Add points to a run, in the order of their steps."""

    @abc.abstractmethod
    def attach(self, key: str, files: Mapping[str, Path]) -> None:
        """Add files and folders to a run, by the name that they get there; those of the same name are replaced."""

    @abc.abstractmethod
    def end(self, key: str, status: str) -> None:
        """End a run: "complete", "stopped" (it can be continued), "pruned" or "failed".

        SHARED ends only the part of this process: another process ends the run.
        """

    def children(self, key: str) -> set[str]:
        """Return the keys of the children of a run that the tracker has, and that have ended.

        Default: none, as for a tracker whose runs are written anew, or continued by `open`.
        """
        del key
        return set()

    def add_policy(self, key: str, folder: Path, loader: str) -> str:
        """Add an exported policy as a model that the tracker can load. Returns its name, empty where there is none.

        `loader` is the module whose function `_load_pyfunc(folder)` returns the policy.
        """
        del key, folder, loader
        return ""

    def abandon(self) -> None:  # noqa: B027  # most keep nothing running
        """Called when the tracker is given up: end what would keep this process from ending."""

    @property
    def where(self) -> str:
        """Where a user finds the runs: a sentence's end, such as `runs/mlflow.db (see them with shoal ui)`."""
        return ""
