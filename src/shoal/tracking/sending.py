"""The base class of sinks that write to an experiment tracker, in a background thread."""

import abc
import math
import time
from collections.abc import Iterator
from typing import ClassVar

from shoal.core.secrets import scrubbed
from shoal.tracking.background import Background
from shoal.tracking.events import Closed, Event, Message, Sink
from shoal.tracking.tracker import Tracker

LONGEST_ERROR = 200  # characters of a tracker's error in a message
QUIET = 2.0  # seconds of waiting at the end before a message says so
SHORT = 3.0  # seconds of waiting at the end for a tracker that did not answer at the end of the run before


class TrackerSink(Sink):
    """Tells a thread that there is something to send; at the end waits for it, and says what was not sent.

    A subclass writes `observe`, which looks at an event, and `send`, which the thread calls. The run is never stopped
    and hardly slowed by a tracker: nothing waits for it before the end, and there only while it makes progress.
    """

    unanswered: ClassVar[set[tuple[str, str]]] = set()  # trackers and URIs for which the run before waited in vain

    def __init__(self, tracker: Tracker) -> None:
        """Nothing is sent before the first event."""
        self.tracker = tracker
        self.began = False  # whether there is something to send: a subclass sets it
        self.status = ""  # how the run ended; empty before
        self._background = Background(self._send, f"shoal {tracker.title}")
        self.remarks: list[str] = []  # about what is left out on purpose, for the user
        self._complained = self._over = False
        self._place = (tracker.title, tracker.uri)

    @property
    def is_sent(self) -> bool:
        """Whether everything was sent; known when the last event was received."""
        return self._background.error is None and self._background.is_done

    @abc.abstractmethod
    def observe(self, event: Event) -> str:
        """Look at an event, in the thread of the run. Returns a message for the user, or an empty text."""

    @abc.abstractmethod
    def send(self, status: str) -> None:
        """Send everything that is to be sent now, in the background thread. Calls `progress` from time to time.

        `status` says how the run has ended; it is empty before. After an error the call is repeated.
        """

    @abc.abstractmethod
    def unsent(self) -> str:
        """Return what was not sent, as a text: `12 of 20 records`; empty if everything was."""

    @abc.abstractmethod
    def resend_command(self) -> str:
        """Return the command that sends what was not sent."""

    def on_end(self) -> None:  # noqa: B027  # most need nothing here
        """Called in the thread of the run when nothing more is sent."""

    def progress(self) -> None:
        """Note that sending makes progress."""
        self._background.progress()

    def receive(self, event: Event) -> Iterator[Message | None]:
        """Let the thread send what is new; yield a message when the tracker stops answering, or answers again."""
        if text := self.observe(event):
            yield Message(text)
        if isinstance(event, Message):
            return
        if isinstance(event, Closed):
            yield from self._close(event.status)
            return
        error = self._background.error
        if (error is not None) != self._complained:
            self._complained = error is not None
            if error is None:
                yield Message(f"{self.tracker.title} can be written again")
            else:
                reason = in_short(error, self.tracker.uri)
                yield Message(
                    f"{self.tracker.title} cannot be written: {reason}. The run goes on, and it is tried again"
                )
        self._background.ask()

    def _send(self) -> None:
        status = self.status
        if self._over:
            return
        self.tracker.connect()
        self.progress()
        self.send(status)
        self.unanswered.discard(self._place)
        self._over = bool(status)

    def _close(self, status: str) -> Iterator[Message | None]:
        """Wait until everything is sent, or until there is no hope, and say what was not sent.

        While it waits it yields None, so that several trackers are waited for at the same time.
        """
        if not self.began:
            return
        self.status = status
        interrupted: KeyboardInterrupt | None = None
        began, said = time.monotonic(), False
        try:
            while not self._background.finish(0.5, SHORT if self._place in self.unanswered else math.inf):
                if said or time.monotonic() - began < QUIET:
                    yield None
                    continue
                said = True
                yield Message(
                    f"waiting for {self.tracker.title} (Ctrl-C ends it; `{self.resend_command()}` sends the rest)"
                )
        except KeyboardInterrupt as error:
            interrupted = error
            self._background.give_up()
        if self._background.error is not None:
            self.unanswered.add(self._place)
        if not self.is_sent:
            self.tracker.abandon()
        self.on_end()
        yield from (Message(text) for text in self.remarks)
        if (error := self._background.error) is not None or interrupted:
            what = self.unsent() or "the end of the run"
            reason = in_short(error, self.tracker.uri) if error is not None else "it was interrupted"
            text = f"{self.tracker.title} does not have {what}: {reason}. To send it: `{self.resend_command()}`"
            yield Message(text, is_warning=True)
        elif where := self.tracker.where:
            yield Message(f"{self.tracker.title}: {where}")
        if interrupted:
            raise interrupted


def in_short(error: Exception, uri: str = "") -> str:
    """Return the beginning of an error's text, or its class where it has none, in one line and without passwords.

    The password of `uri` is replaced in any form.
    """
    text = " ".join(scrubbed(str(error), uri).split()) or type(error).__name__
    return text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}..."
