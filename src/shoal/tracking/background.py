"""Work in a thread that is repeated when it fails: how trackers are written without slowing down a run."""

import math
import threading
import time
from collections.abc import Callable

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds after a failure; the pause doubles with every further one
PATIENCE = 20.0  # seconds for which `finish` lets work that fails be repeated
LONGEST_SILENCE = 20.0  # seconds without progress after which `finish` gives up


class Background:
    """Calls `work` in a daemon thread each time it is asked to, and again after a pause when `work` raised an error.

    `work` does everything that is to do at the moment, and calls `progress` now and then. Nothing is queued here:
    `work` knows what is left, so any number of requests need no memory.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        """Nothing starts before the first `ask`."""
        self.error: Exception | None = None  # of the newest call of `work`
        self._work, self._name = work, name
        self._changed = threading.Condition()
        self._asked = self._finishing = self._given_up = False
        self._moved = 0.0  # when `work` made progress
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Let the thread call `work` soon. Returns at once."""
        with self._changed:
            self._asked = True
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                self._thread.start()

    def progress(self) -> None:
        """Note that `work` is not stuck. Raises RuntimeError, which ends `work`, after `finish` has given up."""
        if self._given_up:
            raise RuntimeError("nobody waits for this any more")
        self._moved = time.monotonic()

    @property
    def is_done(self) -> bool:
        """Whether the thread has done all work and has ended, or was never asked."""
        return self._thread is None or not self._thread.is_alive()

    def finish(self, seconds: float, most: float = math.inf) -> bool:
        """Call `work` once more and wait up to `seconds` for its end. Returns whether there is no point in waiting on.

        That is when everything is done, when it has failed for PATIENCE seconds since the first call of `finish`, or
        when there was no progress for LONGEST_SILENCE seconds; each for `most` seconds, where these are fewer. After
        the end `error` is None if all work was done.
        """
        with self._changed:
            if not self._finishing:
                self._finishing = self._asked = True
                self._began = self._moved = time.monotonic()
                self._changed.notify()
        until = time.monotonic() + seconds
        while not self.is_done and time.monotonic() < until:
            if self._thread is not None:
                self._thread.join(0.05)
            now = time.monotonic()
            longest = min(LONGEST_SILENCE, most)
            silent = now - self._moved > longest
            if silent or self.error is not None and now - self._began > min(PATIENCE, most):
                self.error = self.error or TimeoutError(f"no answer for {longest:.0f} s")
                self.give_up()
                return True
        return self.is_done

    def give_up(self) -> None:
        """End the thread as soon as `work` calls `progress` or returns; what it has not done stays undone."""
        self._given_up = True

    def _loop(self) -> None:
        pause = FIRST_PAUSE
        while not self._given_up:
            with self._changed:
                self._changed.wait_for(lambda: self._asked)
                self._asked, last = False, self._finishing
            try:
                self._work()
            except Exception as error:
                if self._given_up:
                    return
                self.error = error
                with self._changed:
                    self._asked = True
                    if last:
                        self._changed.wait(FIRST_PAUSE)
                    else:  # `finish` ends the pause
                        self._changed.wait_for(lambda: self._finishing, pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self.error, pause = None, FIRST_PAUSE
                self.progress()
                if last and not self._asked:
                    return
