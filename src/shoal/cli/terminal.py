"""The process around a command: how it ends when a signal asks, and what it survives.

Outside of training a signal ends the command at once, with the cursor shown again: threads that compile are not waited
for, and no half of anything is on disk, since every file is replaced in one move. While a run trains, the first Ctrl-C,
SIGTERM or SIGHUP lets it finish and save its chunk (`training/stopping.py`).
"""

import contextlib
import io
import os
import signal
import sys
from types import FrameType
from typing import Any, TextIO

INTERRUPTED = 128 + signal.SIGINT
SHOW_CURSOR = b"\x1b[?25h"
ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
OUT, ERR = 1, 2


def take_over(reports_only: bool) -> None:
    """Make this process the command's: signals end it as above, and nobody has to read what it says on the way.

    `reports_only`: its results are files, so that standard output need not be read either.
    """
    for number in (getattr(signal, name) for name in ENDING if hasattr(signal, name)):
        if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGINT:
            signal.signal(number, _end)
    for number in (0, OUT, ERR):  # a file that is closed would lend its number to the next that is opened
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdout = _opened(sys.stdout, OUT)
    sys.stderr = _lasting(_opened(sys.stderr, ERR))
    if reports_only:
        sys.stdout = _lasting(sys.stdout)


def leave(status: int) -> int:
    """The exit status, once everything is written. After a signal the process ends here."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    if status > 128:
        os._exit(status)  # programs that run or compile are not waited for
    return status


def silence(stream: Any) -> None:
    """Send what is written to a stream from now on nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _end(signum: int, frame: FrameType | None) -> None:
    text = SHOW_CURSOR if os.isatty(ERR) else b""
    if signum == signal.SIGINT:
        text += b"shoal: interrupted.\n"
    with contextlib.suppress(OSError):
        os.write(ERR, text)  # `print` may be what was interrupted
    if signum == getattr(signal, "SIGQUIT", None):  # wants a core dump
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
    else:
        os._exit(128 + signum)


def _opened(stream: TextIO | None, number: int) -> TextIO:
    """A standard stream, also where Python found it closed."""
    return open(number, "w", closefd=False) if stream is None else stream


def _lasting(stream: TextIO) -> TextIO:
    """The same stream, which never fails: nobody has to read how a run goes on."""
    try:
        raw = _Lasting(stream.fileno(), "w", closefd=False)
    except (OSError, ValueError):
        return stream
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, "backslashreplace", line_buffering=True)


class _Lasting(io.FileIO):
    """A file that goes nowhere as soon as it cannot be written: its pipe or its terminal is gone, or the disk full."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            silence(self)
            return len(data)
