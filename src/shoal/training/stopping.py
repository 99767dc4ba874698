"""How a run is asked to stop: by Ctrl-C, by the SIGTERM of a scheduler, or by the end of its terminal (SIGHUP)."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

REQUESTS = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows lacks the last
ANSWER = "stopping when this chunk is saved; Ctrl-C again stops at once"


class Stopped(Exception):
    """A run was asked to stop, and its checkpoint is written. `signal` is the number of the signal that asked."""

    def __init__(self, text: str = "", signum: int = signal.SIGINT) -> None:
        super().__init__(text)
        self.signal = int(signum)


class StopRequest:
    """Whether a run was asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal = 0

    def is_set(self) -> bool:
        """Whether it was."""
        return self.signal != 0


@contextmanager
def stop_requests(say: Callable[[str], None]) -> Iterator[StopRequest]:
    """Notice SIGINT, SIGTERM and SIGHUP, instead of ending at once; outside the main thread none of them is noticed.

    Once asked, further requests change nothing, except that another Ctrl-C does what it did before: in Python it raises
    KeyboardInterrupt, the `shoal` command ends at once. Compiled calls that run already end by themselves, and a script
    that ends waits for them. A SIGHUP that is ignored (`nohup`) stays ignored.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def ask(signum: int, frame: FrameType | None) -> None:
        if request.is_set():
            if signum == signal.SIGINT:
                _as_before(before[signum], signum, frame)
            return
        request.signal = signum
        threading.Thread(target=say, args=(ANSWER,)).start()  # a signal may have come in the middle of a print

    numbers = [getattr(signal, name) for name in REQUESTS if hasattr(signal, name)]
    noticed = [n for n in numbers if n == signal.SIGINT or signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.getsignal(number) for number in noticed}
    for number in noticed:
        signal.signal(number, ask)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _as_before(handler: object, signum: int, frame: FrameType | None) -> None:
    if callable(handler):
        handler(signum, frame)
    else:
        raise KeyboardInterrupt
