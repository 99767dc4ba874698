"""The request of a command to experiment trackers: which ones, and what they show (`--track` and its options)."""

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.core.errors import did_you_mean
from shoal.core.registry import TRACKERS, Entry
from shoal.tracking.tracker import Target, Tracker

CHILDREN = ("auto", "none", "settings", "members", "trials")
LONGEST_TAG = 250  # characters of a tag's name
NOTHING = "none"  # the word of `--track` for no tracker, also where the run to resume has one


@dataclasses.dataclass(frozen=True)
class Tracking:
    """Where a command is tracked, and how: the value of `track=` where the name of a tracker is not enough.

        shoal.train("ppo", "CartPole-v1", track=shoal.Tracking("mlflow", tags={"idea": "small networks"}))

    `to`: "mlflow", "tensorboard", "wandb", one of your own (`my_tracker.py:MyTracker`, or a registered name), or
    several of them. `uri`: MLflow's tracking URI; by default that of the environment variable MLFLOW_TRACKING_URI, and
    without it the file `mlflow.db` beside the run folders. `experiment`: the name of MLflow's experiment and of W&B's
    project; by default AGENT/ENV. `children`: what gets a run of its own below that of the command: "settings",
    "members", in a study "trials", or "none"; "auto" takes settings if there are 2 to 50, and trials in a study.
    `tags`: texts by name.

    Raises ValueError for an unknown tracker or kind of children, and for names that are too long for a tracker;
    TypeError for a name or tags that are no texts, and ImportError for a tracker whose package is not installed.
    """

    to: str | Sequence[str] = "mlflow"
    uri: str = dataclasses.field(default="", repr=False)  # it may hold a password
    experiment: str = ""
    children: str = "auto"
    tags: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        names = self.to.split(",") if isinstance(self.to, str) else list(self.to)
        names = list(dict.fromkeys(name.strip() for name in names if name.strip()))
        if not names:
            raise ValueError(f"no tracker is named: choose {', '.join(TRACKERS)}.")
        entries = [_entry(name) for name in names]
        object.__setattr__(self, "to", tuple(entry.name for entry in entries))
        if self.children not in CHILDREN:
            near = did_you_mean(self.children, CHILDREN)
            raise ValueError(f"children={self.children!r} is unknown.{near} Choose {', '.join(CHILDREN)}.")
        if not isinstance(self.tags, Mapping) or not all(
            isinstance(x, str) for pair in self.tags.items() for x in pair
        ):
            raise TypeError(f"tags={self.tags!r} must be a dict of texts: tags={{'idea': 'small networks'}}.")
        if not isinstance(self.experiment, str):
            raise TypeError(f"experiment={self.experiment!r:.60} must be a text.")
        for entry in entries:
            if len(self.experiment) > entry.cls.longest_experiment:
                raise ValueError(
                    f"experiment={self.experiment!r:.40}... has {len(self.experiment):,} characters, and "
                    f"{entry.cls.title} accepts {entry.cls.longest_experiment}: choose a shorter name."
                )
        if long := [name for name in self.tags if len(name) > LONGEST_TAG]:
            raise ValueError(
                f"the tag {long[0]!r:.40}... has a name of more than {LONGEST_TAG} characters: shorten it."
            )
        if self.uri and not self.uri_variable:
            takers = ", ".join(name for name, entry in TRACKERS.items() if entry.cls.uri_variable)
            raise ValueError(f"a tracking URI is for {takers}, not for the trackers {', '.join(self.to)}.")

    @property
    def trackers(self) -> tuple[str, ...]:
        return tuple(self.to)

    @property
    def uri_variable(self) -> str:
        """The environment variable for the URI of the trackers; empty if none of them takes a URI."""
        return next((variable for name in self.to if (variable := TRACKERS[name].cls.uri_variable)), "")

    def open(self, name: str, target: Target) -> Tracker:
        """Return one of the trackers; nothing is imported, opened or written yet.

        The experiment and the URI of `target` are those of this request, where it has them.
        """
        entry = TRACKERS[name]
        own = target._replace(experiment=self.experiment or target.experiment, uri=self.uri)
        return entry.cls(own, **entry.preset)


Track = str | Sequence[str] | Tracking | None


def tracking_of(track: Any) -> Tracking | None:
    """Return what `track=` asks for: None for None, "" and "none". Errors are those of `Tracking`."""
    if track is None or isinstance(track, Tracking):
        return track
    if not isinstance(track, str) and not (isinstance(track, Sequence) and all(isinstance(x, str) for x in track)):
        raise TypeError(
            f"track={track!r:.60} must be the name of a tracker ({', '.join(TRACKERS)}), several names, or a value of "
            f"shoal.Tracking."
        )
    return Tracking(track) if track and track != NOTHING else None


def tags_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the tags of texts such as `idea=small networks`. Raises ValueError for one without a name or `=`."""
    tags: dict[str, str] = {}
    for text in texts:
        name, equals, content = text.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--tag {text}: a tag is written NAME=TEXT, as in --tag {name.strip() or 'idea'}=first.")
        if name.strip() in tags:
            raise ValueError(f"--tag {name.strip()} is given twice: give each name once.")
        tags[name.strip()] = content.strip()
    return tags


def _entry(name: str) -> Entry:
    """Return a registered tracker, or one in a file or module, as `file.py:Class`, whose package is installed."""
    if name == NOTHING:
        raise ValueError(f"{NOTHING!r} means no tracker at all: leave the others out, or leave it out.")
    entry = TRACKERS[name]
    if not issubclass(entry.cls, Tracker):
        raise TypeError(f"{name} is no tracker: derive the class from shoal.tracking.tracker.Tracker.")
    package = entry.cls.package
    if package and importlib.util.find_spec(package) is None:  # not imported here: that takes seconds
        raise ImportError(
            f"{entry.cls.title} needs the package {package!r}, which is not installed: pip install "
            f"'{entry.cls.install or package}'."
        )
    return entry
