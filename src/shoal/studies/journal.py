"""A log file as a storage of Optuna, which survives kills and full disks.

The format is that of Optuna's `JournalFileBackend`, which reads these files: one operation in each line, as JSON
(docs/architecture.md says why its own class does not do).
Three things differ. Each line ends with a checksum, which Optuna ignores. A line that was torn when its process was
killed is removed before the next one is written. And a line is handed to the operating system at once, but is waited
for (fsync) in `flush` only: a kill loses nothing; a power failure loses what came after the last `flush`, always the
newest lines.
"""

import json
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend, JournalFileSymlinkLock

from shoal.specs.disk import flush
from shoal.studies.errors import StorageError

try:
    import fcntl
except ImportError:  # Windows: only Optuna's lock
    fcntl = None

LOCK_SECONDS = 10  # after which a lock file is a dead process's; the lock of the operating system is freed at once
BEGIN = b'{"op_code":'  # of every line
CHECKSUM = b',"shoal_crc":'  # the CRC-32 of the line before this
BLOCK = 1 << 16


class JournalFile(JournalStorage):
    """A storage in a journal."""

    def __init__(self, path: Path) -> None:
        """Open the journal at `path` and read it. Raises StorageError as `Journal` does, and for damaged operations."""
        self.journal = Journal(path)
        try:
            super().__init__(self.journal)
        except StorageError:
            raise
        except Exception as error:  # of Optuna, for a line without a checksum that is JSON but no operation
            raise self.journal.damaged(self._replay_result.log_number_read) from error

    def flush(self) -> None:
        """Wait until all that was written is on the disk."""
        self.journal.flush()


class Journal(BaseJournalBackend):
    """The operations of studies in a file, in the order in which their workers wrote them."""

    def __init__(self, path: Path) -> None:
        """Open the file at `path`, which is made if it does not exist. A torn last line is removed.

        Raises StorageError where it cannot be read and written, is a pipe or a device, or is not a journal.
        """
        self._path = path.absolute()  # of a relative one Optuna's lock would make a link to nowhere
        self._link = JournalFileSymlinkLock(str(self._path), grace_period=LOCK_SECONDS)
        self._read = (0, 0)  # lines read so far, and the bytes that they take
        with self._named_errors("opened"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(open_file(self._path, BEGIN, "a journal of Optuna"))
            with self._locked() as file:
                _drop_torn_line(file)

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the complete lines from number `log_number_from` on. Raises StorageError for a damaged one."""
        number, offset = self._read if log_number_from >= self._read[0] else (0, 0)
        with self._named_errors("read"), open(self._path, "rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # being written, or torn by a kill
                number, offset = number + 1, offset + len(line)
                if number > log_number_from:
                    operation = self._parsed(line, number)
                    self._read = (number, offset)
                    yield operation

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append operations.

        Raises StorageError if they cannot be written, as on a full disk. The file is then what it was before.
        """
        text = b"".join(_line(log) for log in logs)
        with self._named_errors("written"), self._locked() as file:
            end = _drop_torn_line(file)
            try:
                _write_all(file, text)
            except OSError:
                with suppress(OSError):  # else the next writer removes the torn line
                    os.ftruncate(file, end)
                raise

    def flush(self) -> None:
        """Wait until all lines are on the disk. Raises StorageError if they cannot be written."""
        with self._named_errors("written"):
            flush(self._path)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Hold the lock; gives a descriptor of the file for reading and appending.

        Two locks: the operating system's, which a killed process loses at once, and Optuna's link beside the file,
        for programs of Optuna and for file systems on which machines do not share the first.
        """
        file = os.open(self._path, os.O_RDWR | os.O_APPEND)
        try:
            if fcntl is not None:
                with suppress(OSError):  # a file system without it
                    fcntl.flock(file, fcntl.LOCK_EX)
            self._link.acquire()
            try:
                yield file
            finally:
                with suppress(RuntimeError):  # taken from this process while it was stopped for long
                    self._link.release()
        finally:
            os.close(file)

    @contextmanager
    def _named_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(
                f"the journal {self._path} cannot be {what}: {error.strerror or error}. All that it holds is kept; "
                f"remove the cause and resume the study."
            ) from error

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        body, has_checksum, checksum = line.rpartition(CHECKSUM)
        with suppress(ValueError, RecursionError):
            operation = json.loads(line)
            is_whole = not has_checksum or checksum == _checksum(body)
            if is_whole and isinstance(operation, dict) and "op_code" in operation:
                return operation
        raise self.damaged(number)

    def damaged(self, number: int) -> StorageError:
        return StorageError(
            f"line {number} of the journal {self._path} is damaged, so the lines after it cannot be trusted. Copy the "
            f"file, cut it off before this line (head -n {number - 1}), and resume the study."
        )


def open_file(path: Path, begin: bytes, kind: str) -> int:
    """Open a file of a kind, which begins with `begin`. It is made if it does not exist; its folder must exist.

    Raises OSError where it cannot be opened, and StorageError for another file, and for a pipe or a device, which would
    be waited for.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    is_file = stat.S_ISREG(os.fstat(file).st_mode)
    start = os.pread(file, len(begin), 0) if is_file else b""
    if is_file and start == begin[: len(start)]:
        return file
    os.close(file)
    what = f"not {kind}" if is_file else "a pipe or a device, not a file"
    raise StorageError(f"{path} is {what}. Give the path of a new file.")


def _line(log: dict[str, Any]) -> bytes:
    """The line of an operation: JSON, of which a checksum is the last item."""
    body = json.dumps(log, separators=(",", ":")).encode()[:-1]
    return body + CHECKSUM + _checksum(body)


def _checksum(body: bytes) -> bytes:
    return b"%d}\n" % zlib.crc32(body)


def _write_all(file: int, text: bytes) -> None:
    """Write all bytes; a disk that fills up writes some of them, and fails at the next call."""
    while text:
        text = text[os.write(file, text) :]


def _drop_torn_line(file: int) -> int:
    """Cut off a last line that has no end: its process was killed, and nobody has read it. Returns the file's size."""
    size = end = os.fstat(file).st_size
    if not size or os.pread(file, 1, size - 1) == b"\n":
        return size
    while end:
        begin = max(0, end - BLOCK)
        if (newline := os.pread(file, end - begin, begin).rfind(b"\n")) >= 0:
            end = begin + newline + 1
            break
        end = begin
    os.ftruncate(file, end)
    return end
