"""Signals and standard streams of the process that runs a command.

Outside of training a signal ends the command immediately, and the cursor is shown again. Threads that are compiling are
not waited for, and no file is left half written, because files are always replaced by an atomic rename. During
training, the first Ctrl-C, SIGTERM or SIGHUP lets the run save what it has trained (`training/stopping.py`).
"""

import contextlib
import io
import os
import signal
import sys
from types import FrameType
from typing import Any, TextIO

from shoal.core.errors import printable

INTERRUPTED = 128 + signal.SIGINT
SHOW_CURSOR = b"\x1b[?25h"
ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
OUT, ERR = 1, 2


def take_over(reports_only: bool) -> None:
    """Install the signal handlers, and let writes to standard error never fail (a closed pipe or terminal).

    With `reports_only` the results of the command are files, so writes to standard output never fail either.
    """
    for number in (getattr(signal, name) for name in ENDING if hasattr(signal, name)):
        if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGINT:
            signal.signal(number, _end)
    for number in (0, OUT, ERR):  # if one is closed, the next opened file would get its number
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdout = _opened(sys.stdout, OUT)
    sys.stderr = _never_failing(_opened(sys.stderr, ERR))
    if reports_only:
        sys.stdout = _never_failing(sys.stdout)


def leave(status: int) -> int:
    """Flush standard output and return the exit status. After a signal the process ends here."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    if status > 128:
        os._exit(status)  # without waiting for programs that run or compile
    return status


class Printable(io.TextIOBase):
    """A text stream that writes control characters of names and messages visibly, so that no terminal obeys them."""

    def __init__(self, stream: Any) -> None:
        """Write to this stream."""
        self.unfiltered = stream

    def write(self, text: str) -> int:
        """Write a text as `printable` has it."""
        self.unfiltered.write(printable(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream, unless it is closed: Python flushes a stream once more when nothing uses it any longer."""
        if not getattr(self.unfiltered, "closed", False):
            self.unfiltered.flush()

    def fileno(self) -> int:
        """The file descriptor of the stream."""
        return self.unfiltered.fileno()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self.unfiltered.isatty()


def silence(stream: Any) -> None:
    """Discard everything that is written to a stream from now on."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _end(signum: int, frame: FrameType | None) -> None:
    text = SHOW_CURSOR if os.isatty(ERR) else b""
    if signum == signal.SIGINT:
        text += b"shoal: interrupted.\n"
    with contextlib.suppress(OSError):
        os.write(ERR, text)  # not `print`, which the signal may have interrupted
    if signum == getattr(signal, "SIGQUIT", None):  # the default handler writes a core dump
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
    else:
        os._exit(128 + signum)


def _opened(stream: TextIO | None, number: int) -> TextIO:
    """A standard stream; a new one if it was closed when Python started."""
    return open(number, "w", closefd=False) if stream is None else stream


def _never_failing(stream: TextIO) -> TextIO:
    """The same stream, but writing to it never fails."""
    try:
        raw = _NeverFailing(stream.fileno(), "w", closefd=False)
    except (OSError, ValueError):
        return stream
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, "backslashreplace", line_buffering=True)


class _NeverFailing(io.FileIO):
    """A file that discards all data after the first failed write (pipe or terminal closed, or disk full)."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            silence(self)
            return len(data)
