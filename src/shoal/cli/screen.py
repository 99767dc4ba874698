"""The terminal during `shoal play`: reads single keys, shows pictures as half-block characters, restores itself."""

import contextlib
import os
import re
import select
import signal
import sys
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from shoal.core.errors import printable

Picture = UInt8[np.ndarray, "_ _ 3"]

# The names of the escape sequences that keys send. Letters and digits stand for themselves.
KEYS = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left",
    "\x1bOA": "up", "\x1bOB": "down", "\x1bOC": "right", "\x1bOD": "left",
    "\x1b[5~": "pageup", "\x1b[6~": "pagedown",
    "\r": "enter", "\n": "enter", " ": "space", "\t": "tab", "\x7f": "backspace", "\b": "backspace",
    "\x1b": "escape", "\x03": "escape", "\x04": "escape", "": "escape",
}  # fmt: skip
ONE_KEY = re.compile("\x1b\\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)
REST_OF_A_KEY = 0.05  # seconds in which what follows an escape belongs to the same key
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[0m\x1b[?25h\x1b[?1049l"  # alternate screen without cursor; and back
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
CUBE = np.array([0, 95, 135, 175, 215, 255])  # intensities of each channel in the 6 x 6 x 6 cube of the 256 colors


class Size(NamedTuple):
    """The size of a terminal in characters."""

    columns: int
    rows: int


class Screen:
    """A context manager that reads keys from the terminal and shows pictures. Raises OSError without a terminal."""

    def __init__(self) -> None:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise OSError("shoal play reads single keys and shows pictures: run it in a terminal, without pipes.")
        try:
            import termios
            import tty
        except ImportError:
            raise OSError("shoal play needs a Unix terminal, as on Linux and macOS.") from None
        self._termios, self._tty = termios, tty
        self._input = sys.stdin.fileno()
        self._waiting: list[str] = []
        self._true_color = os.environ.get("COLORTERM", "") in ("truecolor", "24bit")

    def __enter__(self) -> "Screen":
        """Switch to single-key input and the alternate screen; handle signals so that the terminal is restored."""
        self._before = self._termios.tcgetattr(self._input)
        self._handlers: dict[int, Any] = {number: signal.signal(number, self._leave_first) for number in ENDING}
        self._tty.setcbreak(self._input, self._termios.TCSANOW)  # Ctrl-C still interrupts
        self._write(ENTER)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Restore signal handlers and terminal, also after an error."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._restore()

    def _leave_first(self, signum: int, frame: FrameType | None) -> None:
        """A signal handler: restore the terminal, then call the previous handler."""
        self._restore()
        handler = self._handlers[signum]
        if callable(handler):
            handler(signum, frame)
        elif handler is signal.SIG_DFL:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)

    def _restore(self) -> None:
        with contextlib.suppress(OSError, self._termios.error):  # the terminal may be closed
            self._termios.tcsetattr(self._input, self._termios.TCSANOW, self._before)
            os.write(sys.stdout.fileno(), LEAVE.encode())  # not `print`, which a signal may have interrupted

    @property
    def size(self) -> Size:
        """The current size of the terminal; 80 x 24 if it reports none."""
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
        return Size(columns, rows) if columns and rows else Size(80, 24)

    def key(self, seconds: float | None = None) -> str:
        """Wait for a key and return it: a letter, a digit, or a name such as `left`; `escape` at the end of the input.

        Returns "" if no key is pressed within `seconds`.
        """
        if not self._waiting:
            if not select.select([self._input], [], [], seconds)[0]:
                return ""
            sent = os.read(self._input, 64).decode(errors="replace")
            while sent.endswith(("\x1b", "\x1b[", "\x1bO")) and select.select([self._input], [], [], REST_OF_A_KEY)[0]:
                sent += os.read(self._input, 64).decode(errors="replace")
            self._waiting = ONE_KEY.findall(sent) or [""]
        key = self._waiting.pop(0)
        return KEYS.get(key, key.lower())

    def show(self, picture: Picture | None, lines: list[str]) -> None:
        """Show a picture, which should fit into the terminal, and lines of text below it."""
        columns = self.size.columns
        rows = [] if picture is None else half_blocks(picture, self._true_color)
        text = "".join(f"{row}{CLEAR_LINE}\r\n" for row in [*rows, *(printable(line[: columns - 1]) for line in lines)])
        self._write(HOME + text + CLEAR_BELOW)

    def _write(self, text: str) -> None:
        stream = getattr(sys.stdout, "unfiltered", sys.stdout)  # pictures are escape sequences
        stream.write(text)
        stream.flush()


def half_blocks(picture: Picture, true_color: bool = True) -> list[str]:
    """Lines of text that show a picture: each character shows two pixels, one above the other."""
    if len(picture) % 2:
        picture = np.concatenate([picture, np.zeros_like(picture[:1])])
    return [_line(upper, lower, true_color) for upper, lower in zip(picture[::2], picture[1::2], strict=True)]


def shrunk(picture: Picture, size: Size) -> Picture:
    """A picture resized to fit into `size` characters: averaged down, or enlarged by a whole factor."""
    from PIL import Image

    height, width = picture.shape[:2]
    scale = min(size.columns / width, 2 * size.rows / height)
    if scale < 1:
        room = max(1, int(width * scale)), max(1, int(height * scale))
        return np.asarray(Image.fromarray(picture).resize(room, Image.Resampling.BOX))
    return picture.repeat(int(scale), axis=0).repeat(int(scale), axis=1)


def _line(upper: Any, lower: Any, true_color: bool) -> str:
    code = _true if true_color else _nearest
    parts, last = [], None
    for pair in zip(map(tuple, upper.tolist()), map(tuple, lower.tolist()), strict=True):
        if pair != last:
            parts.append(f"\x1b[38;{code(pair[0])};48;{code(pair[1])}m")
            last = pair
        parts.append("▀")
    return "".join(parts) + "\x1b[0m"


def _true(color: tuple[int, int, int]) -> str:
    return "2;{};{};{}".format(*color)


def _nearest(color: tuple[int, int, int]) -> str:
    red, green, blue = (int(np.abs(CUBE - part).argmin()) for part in color)
    return f"5;{16 + 36 * red + 6 * green + blue}"
