"""Errors of studies that the user can repair. No message has a password."""


class StorageError(OSError):
    """Raised for a storage that cannot be opened, read or written."""


class OtherStudyError(ValueError):
    """Raised for a study of this name that searches something else. The message says what differs."""


class WorkerError(ValueError):
    """Raised where another running process of the study has the name of this worker, and if all workers have failed."""
