"""Passwords in URLs, such as `postgresql://user:secret@host/base`: they are never written to a file or a message."""

import re

_IN_NAME = re.compile(
    r"(://[^:/@\s]*):\S*@(?=[^@\s]*(?:\s|$))"
)  # up to the last @ of the word: a password may hold one
_IN_QUERY = re.compile(r"(?<=[?&])password=[^&\s]*", re.IGNORECASE)


def redacted(text: str) -> str:
    """Return a text, such as a command line or an error, with `***` in place of the passwords of its URLs.

    >>> redacted("--storage postgresql://me:secret@host/base")
    '--storage postgresql://me:***@host/base'
    """
    return _IN_QUERY.sub("password=***", _IN_NAME.sub(r"\1:***@", text))


def without_password(url: str) -> str:
    """Return a URL without its password, for a file that a later process reads.

    >>> without_password("postgresql://me:secret@host/base?password=other&sslmode=require")
    'postgresql://me@host/base?sslmode=require'
    """
    url = re.sub(r"[?&]$", "", re.sub(r"(?<=[?&])password=[^&\s]*&?", "", url, flags=re.IGNORECASE))
    return _IN_NAME.sub(r"\1@", url)
