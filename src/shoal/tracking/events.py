"""What a run reports while it goes: typed events of plain data, and the sinks that receive them.

A sink is any object with `hear(event)`. It handles the events that concern it, ignores the others, and may answer with
a `Message` for all of them. `Sinks` passes every event on to several of them, and keeps a sink that fails from
stopping the run.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Opened(NamedTuple):
    """A run is planned and about to compile."""

    agent: str
    env: str
    members: int
    steps: int  # of each member, whole updates
    updates: int | None  # of each member; None where a selector decides when the run ends
    notes: str  # where it runs, and what was rounded or split up: the end of a headline


class Compiled(NamedTuple):
    """All programs are compiled."""

    seconds: float


class Recorded(NamedTuple):
    """A record was written."""

    updates: int  # of each member, so far
    line: Mapping[str, Any]  # as in `metrics.jsonl`: a number, or {"mean", "p05", "p50", "p95"} over members
    steps_per_second: float  # of all members together
    seconds_left: float | None  # None where the end is not known


class Turned(NamedTuple):
    """A selector changed who is trained."""

    updates: int
    occupant: Sequence[int]  # [M], who is in each slot from now on; -1: nobody
    parent: Sequence[int]  # [M], whom the occupant was copied from; -1: from nobody
    notes: Sequence[str]  # what the selector says of it


class Message(NamedTuple):
    """Something worth a sentence happened."""

    text: str


class Finished(NamedTuple):
    """The run came to its end, and its summary is written."""

    summary: Mapping[str, Any]


class Closed(NamedTuple):
    """No more events will come, whether the run ended, was stopped or failed."""


Event = Opened | Compiled | Recorded | Turned | Message | Finished | Closed


class Sink(abc.ABC):
    """Receives the events of a run."""

    @abc.abstractmethod
    def hear(self, event: Event) -> Message | None:
        """Handle an event, or ignore it. A message that is returned is passed on to all sinks."""


class Sinks(Sink):
    """Passes every event on to several sinks, in order.

    A sink that raises is named once in a message to the others and hears nothing from then on: the run goes on.
    """

    def __init__(self, sinks: Sequence[Sink] = ()) -> None:
        """All of these are listening."""
        self._listening = list(sinks)

    def hear(self, event: Event) -> None:
        """Pass an event on, and then the messages that sinks answer it with. Answers to a message are dropped."""
        for sink in list(self._listening):
            try:
                answer = sink.hear(event)
            except Exception as error:
                self._listening.remove(sink)
                text = f"{type(sink).__name__} failed with {error!r} and is left out from here on; the run goes on"
                self.say(text)
            else:
                if answer is not None and not isinstance(event, Message):
                    self.hear(answer)

    def say(self, text: str) -> None:
        """Send a message to every sink."""
        self.hear(Message(text))
