"""Event sinks for tests: one stores messages, the other interrupts a run."""

import os
import signal

from shoal.tracking.events import Message, Recorded, Sink


class Listener(Sink):
    """Stores the messages."""

    def __init__(self):
        self.heard = []

    def receive(self, event):
        if isinstance(event, Message):
            self.heard.append(event.text)


class Interrupt(Listener):
    """Raises SIGINT, as Ctrl-C does, after some events of a kind: by default, after records were written."""

    def __init__(self, after, kind=Recorded):
        super().__init__()
        self.left, self.kind = after, kind

    def receive(self, event):
        super().receive(event)
        if isinstance(event, self.kind):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGINT)
