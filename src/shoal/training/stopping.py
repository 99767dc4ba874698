"""Requests to stop a run: Ctrl-C (SIGINT), the SIGTERM of a scheduler, or the end of its terminal (SIGHUP)."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

REQUESTS = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP
ANSWER = "stopping when the training so far is saved{}; Ctrl-C again stops at once"


class Stopped(Exception):
    """Raised when a run has stopped after a request, with its checkpoint written. `signal` is the signal's number."""

    def __init__(self, text: str = "", signum: int = signal.SIGINT) -> None:
        super().__init__(text)
        self.signal = int(signum)


class StopRequest:
    """Whether a run was asked to stop, and by which signal: `signal` is its number, or 0."""

    def __init__(self) -> None:
        self.signal = 0

    def is_set(self) -> bool:
        """Return whether a signal has come."""
        return self.signal != 0


@contextmanager
def stop_requests(say: Callable[[str], None], when: Callable[[], str] = str) -> Iterator[StopRequest]:
    """Record SIGINT, SIGTERM and SIGHUP in a `StopRequest` instead of ending the process at once.

    Later signals change nothing, except another Ctrl-C, which calls the handler from before: Python raises
    KeyboardInterrupt, the `shoal` command ends at once. A compiled call in progress is not interrupted; a script that
    ends waits for it. A SIGHUP that is ignored (`nohup`) stays ignored. Outside the main thread no signal is recorded,
    because Python does not allow it. `say` sends a message to the user, in which `when` tells how long it will take.
    """
    request = StopRequest()

    def on_signal(signum: int, frame: FrameType | None) -> None:
        if request.is_set():
            if signum == signal.SIGINT:
                _as_before(before[signum], signum, frame)
            return
        request.signal = signum
        # In a thread, because the signal may have come in the middle of a print.
        threading.Thread(target=say, args=(ANSWER.format(when()),)).start()

    before = _handle(on_signal)
    try:
        yield request
    finally:
        _restore(before)


@contextmanager
def handled(on_signal: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call `on_signal` for SIGINT, SIGTERM and SIGHUP in the block. Which are handled is as in `stop_requests`."""
    before = _handle(on_signal)
    try:
        yield
    finally:
        _restore(before)


class _Interruption(BaseException):
    """Raised inside a block that a signal ends; no `except Exception` of the block catches it."""


@contextmanager
def stopped_at_once(text: str) -> Iterator[None]:
    """Raise Stopped with this text when SIGINT, SIGTERM or SIGHUP comes in the block, in which nothing is to be saved.

    Further signals have the handlers from before. Which signals are handled is as in `stop_requests`.
    """
    signals: list[int] = []

    def on_signal(signum: int, frame: FrameType | None) -> None:
        signals.append(signum)
        _restore(before)
        raise _Interruption

    before = _handle(on_signal)
    try:
        yield
    except _Interruption:
        raise Stopped(text, signals[0]) from None
    finally:
        _restore(before)


@contextmanager
def cleaned_up(clean: Callable[[], None]) -> Iterator[None]:
    """Call `clean` if the block raises an error, and when a signal comes, before the signal's handler.

    A handler may end the process at once, as that of the `shoal` command does; no `finally` is executed then. A signal
    without a handler of Python, such as SIGTERM in a script, ends the process without cleaning up.
    """

    def on_signal(signum: int, frame: FrameType | None) -> None:
        clean()
        _as_before(before[signum], signum, frame)

    before = _handle(on_signal, only_callable=True)
    try:
        yield
    except BaseException:
        clean()
        raise
    finally:
        _restore(before)


def _handle(on_signal: Callable[[int, FrameType | None], None], only_callable: bool = False) -> dict[int, Any]:
    """Install a handler for the signals that ask a run to stop. Returns the handlers from before, by signal.

    A SIGTERM or SIGHUP that is ignored stays so, and with `only_callable` every signal without a handler of Python.
    Outside the main thread nothing is installed, because Python does not allow it.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    numbers = [getattr(signal, name) for name in REQUESTS if hasattr(signal, name)]
    before: dict[int, Any] = {
        number: handler
        for number, handler in zip(numbers, map(signal.getsignal, numbers), strict=True)
        if (callable(handler) if only_callable else number == signal.SIGINT or handler is not signal.SIG_IGN)
    }
    for number in before:
        signal.signal(number, on_signal)
    return before


def _restore(handlers: Mapping[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _as_before(handler: object, signum: int, frame: FrameType | None) -> None:
    if callable(handler):
        handler(signum, frame)
    else:
        raise KeyboardInterrupt
