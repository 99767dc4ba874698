"""A log file as a storage of Optuna, which survives kills and full disks, and whose memory does not grow."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optuna.storages.journal import BaseJournalBackend, JournalFileSymlinkLock


class Journal(BaseJournalBackend):
    """The operations of studies, one line of JSON each: the format of Optuna's JournalFileBackend."""

    def __init__(self, path: Path) -> None:
        """Read and write the file at `path`."""
        self._path = path
        self._lock = JournalFileSymlinkLock(str(path))
        self._read = (0, 0)  # lines read so far, and the bytes that they take

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the complete lines from number `log_number_from` on."""
        number, offset = self._read if log_number_from >= self._read[0] else (0, 0)
        with open(self._path, "rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # being written, or torn by a kill
                number, offset = number + 1, offset + len(line)
                if number > log_number_from:
                    self._read = (number, offset)
                    yield json.loads(line)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append lines, and wait until they are on the disk."""
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        self._lock.acquire()
        try:
            with open(self._path, "ab") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        finally:
            self._lock.release()
