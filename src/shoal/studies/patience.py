"""A storage that waits for its database server: calls that fail because it is away are made again until it is back."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage

from shoal.studies.errors import StorageError

PATIENCE = 300.0  # seconds
PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between two attempts, doubled each time
METHODS = tuple(name for name, value in vars(BaseStorage).items() if callable(value) and not name.startswith("_"))


class _Patient:
    """Makes the calls of another storage, again where the database server was away.

    A call whose answer was lost may have been made: `outages` counts the attempts that failed, so that a caller knows
    when to look at what the storage holds.
    """

    def __init__(
        self,
        storage: BaseStorage,
        name: str,
        say: Callable[[str], object],
        clean: Callable[[str], str],
        patience: float = PATIENCE,
    ) -> None:
        """Call `storage`; `name` is for messages, which go to `say`; `clean` removes passwords from a text."""
        self._storage, self._name, self._say, self._clean, self.patience = storage, name, say, clean, patience
        self.outages = 0
        self._is_away = False
        self._lock = threading.Lock()

    def _insist(self, call: Callable[[], Any]) -> Any:
        began, pause = time.monotonic(), PAUSE
        while True:
            try:
                result = call()
            except Exception as error:
                if (reason := _outage(error)) is None:
                    if (reason := _damage(error)) is None:
                        raise
                    raise StorageError(
                        f"{self._name} holds what cannot be read or written: {self._clean(reason)}. If it is damaged, "
                        f"restore it from a copy, or begin a new study with another --storage."
                    ) from error
                reason = self._clean(reason)
                self.outages += 1
                seconds = time.monotonic() - began
                if seconds > self.patience:
                    raise StorageError(
                        f"{self._name} did not answer for {seconds:.0f} s: {reason}. What it holds is kept; resume the "
                        f"study when it is back."
                    ) from None
                self._tell(True, f"{self._name} does not answer, trying again for {self.patience:.0f} s: {reason}")
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self._tell(False, f"{self._name} answers again")
                return result

    def _tell(self, is_away: bool, text: str) -> None:
        with self._lock:
            changed, self._is_away = self._is_away is not is_away, is_away
        if changed:
            self._say(text)


def _made_again(name: str) -> Callable[..., Any]:
    def method(self: _Patient, *args: Any, **keywords: Any) -> Any:
        return self._insist(lambda: getattr(self._storage, name)(*args, **keywords))

    method.__name__ = name
    return method


PatientStorage: Any = type("PatientStorage", (_Patient, BaseStorage), {name: _made_again(name) for name in METHODS})


def _outage(error: BaseException) -> str | None:
    """The first line of what the database's driver said, where the connection or the server was the reason."""
    from sqlalchemy.exc import InterfaceError, OperationalError

    if not isinstance(error, (StorageInternalError, OperationalError, InterfaceError)):
        return None
    for cause in _causes(error):
        if isinstance(cause, (OperationalError, InterfaceError)):
            return str(cause.orig or cause).strip().split("\n")[0]
    return None


def _damage(error: BaseException) -> str | None:
    """The first line of an error that comes from what a database holds, not from the call."""
    from sqlalchemy.exc import SQLAlchemyError

    if not isinstance(error, (StorageInternalError, SQLAlchemyError, json.JSONDecodeError, UnicodeDecodeError)):
        return None
    cause = list(_causes(error))[-1]
    return str(cause).strip().split("\n")[0]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
