"""The events that a run reports, as plain data, and the base class of sinks, which receive them.

A sink is an object with a method `receive(event)`. It uses the kinds of events that it needs and ignores the others.
It may return a `Message`, which is then sent to all sinks, or an iterator of messages (`receive` can be a generator or
return one), each of which is sent before the next one is computed; None in it is no message. `Sinks` sends every event
to several sinks; a sink that raises an error does not stop the run.
"""

import abc
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple

from shoal.core.errors import printable


class Opened(NamedTuple):
    """A run was planned and will now compile."""

    agent: str
    env: str
    members: int
    steps: int  # environment steps of each member: whole updates
    updates: int | None  # of the run; None where a selector decides when it ends
    notes: str  # the devices, and what was rounded or split: the end of a headline
    changes: str = ""  # hyperparameters that differ from their defaults: `preset: num_envs=16; also clip=0.1`


class Compiled(NamedTuple):
    """All programs were compiled."""

    seconds: float


class Started(NamedTuple):
    """Training begins or, in a resumed run, continues."""

    steps: int  # environment steps of each member, so far
    next_record: int  # environment steps of each member at the next record


class Recorded(NamedTuple):
    """A record was written."""

    updates: int  # of each member, so far
    line: Mapping[str, Any]  # as in `metrics.jsonl`: by name a number, or {"mean", "p05", "p50", "p95"} over members
    steps_per_second: float  # of all members together
    seconds_left: float | None  # None where the end is not known
    settings: Sequence[tuple[str, float]] = ()  # newest mean score of every setting, where there are several


class Turned(NamedTuple):
    """A selector was called between two chunks and made a turnover."""

    updates: int  # of the run, so far
    occupant: Sequence[int]  # [M], the occupant of each slot from now on; -1: the slot is idle
    parent: Sequence[int]  # [M], the occupant that it was copied from; -1: it is not a copy
    notes: Sequence[str]  # the selector's own lines for the log


class Message(NamedTuple):
    """A text for the user, such as a warning."""

    text: str
    is_warning: bool = False  # shown also where no progress is shown


class Finished(NamedTuple):
    """The run is complete, and its summary was written."""

    summary: Mapping[str, Any]


class TrialEnded(NamedTuple):
    """A trial of a study has ended: its state and its scores are in the study's storage."""

    number: int  # of the trial in the study, from 0
    state: str  # "complete", "pruned" or "failed"
    scores: Mapping[str, float]  # by objective, such as {"score": 480.2}; those that are not known are left out
    parameters: Mapping[str, Any]  # hyperparameters by path
    started: float  # seconds since 1970
    seconds: float  # from its start to its end
    curve: Sequence[tuple[int, float]] = ()  # (environment steps of each member, score) at every report
    tags: Mapping[str, str] = {}  # such as the worker and the group that trained it


class Searched(NamedTuple):
    """A chunk of the trials of a study was trained."""

    finished: int  # trials of the whole study that are complete or pruned
    trials: int  # that were asked for
    busy: int  # trials in the slots of this worker, during the chunk
    slots: int  # trials that it trains at a time
    best: float | None  # the highest score of a complete trial so far; None before the first
    best_trial: int | None  # its number
    trials_per_hour: float  # of this process
    seconds_left: float | None  # None before the first trial has ended
    front: int | None = None  # with several objectives: complete trials on the Pareto front; there is no best one


class Closed(NamedTuple):
    """The last event of every run or study."""

    status: str = "complete"  # or "stopped", after a request to stop, or "failed"


Event = Opened | Compiled | Started | Recorded | Turned | TrialEnded | Message | Finished | Searched | Closed


class Sink(abc.ABC):
    """The base class of objects that receive the events of a run."""

    @abc.abstractmethod
    def receive(self, event: Event) -> Message | Iterator[Message | None] | None:
        """Handle an event, or ignore it. A message that is returned is sent to all sinks; so are several."""


class Sinks(Sink):
    """Sends every event to several sinks, in order.

    A sink that raises an error receives no more events; a message tells the other sinks, and the run goes on.
    """

    def __init__(self, sinks: Sequence[Sink] = ()) -> None:
        self._sinks = list(sinks)

    def receive(self, event: Event) -> None:
        """Send an event to all sinks, and then every message that one returns. Messages in reply to one are dropped.

        At the end (`Closed`) the sinks answer in turns, so that those that wait for a server wait at the same time.
        """
        if isinstance(event, Message):  # it may repeat what a server or code of the user's own says
            event = event._replace(text=printable(event.text))
        answers = [self._answers(sink, event) for sink in self._sinks]
        for message in in_turns(answers) if isinstance(event, Closed) else chain.from_iterable(answers):
            if message is not None and not isinstance(event, Message):
                self.receive(message)

    def say(self, text: str, *, is_warning: bool = False) -> None:
        """Send a message to every sink."""
        self.receive(Message(text, is_warning))

    def _answers(self, sink: Sink, event: Event) -> Generator[Message | None, None, None]:
        """Send an event to a sink when this is iterated; yield its answers. An error removes the sink."""
        try:
            yield from _messages(sink.receive(event))
        except Exception as error:
            if sink not in self._sinks:
                return  # it failed at the message of another sink
            self._sinks.remove(sink)
            text = f"{type(sink).__name__} failed with {error!r} and is left out from here on; the run goes on"
            self.say(text, is_warning=True)


def in_turns(generators: Iterable[Generator[Any, None, None]]) -> Iterator[Any]:
    """Yield an item of each generator in turn until all have ended.

    A KeyboardInterrupt in one of them is raised in all others too, which may yield items before they end.
    """
    left = deque(generators)
    while left:
        generator = left.popleft()
        try:
            for item in islice(generator, 1):
                yield item
                left.append(generator)
        except KeyboardInterrupt as interrupt:
            for other in left:
                with suppress(KeyboardInterrupt):
                    yield next(other, None)  # one that has not begun could not catch it
                    yield other.throw(interrupt)
                    yield from other
            raise


def _messages(answer: object) -> Iterator[Message | None]:
    """The answer of a sink as an iterator of messages."""
    if isinstance(answer, Message):
        return iter([answer])
    return answer if isinstance(answer, Iterator) else iter(())
