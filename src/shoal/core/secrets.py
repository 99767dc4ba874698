"""Passwords in URLs: hidden in messages, left out of files, replaced in the texts of errors."""

import re
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"
# `//user:password@host`: the last @ before the query ends the password, which may hold an @ that should be %40.
_IN_HOST = re.compile(r"(://[^:/@\s?]*):([^\s?]*)@")
_IN_QUERY = re.compile(r"([?&](?:ssl)?password)=([^&\s]*)", re.IGNORECASE)


def redacted(text: str) -> str:
    """Return a URL, or a text with one, with `***` in place of its password."""
    return _IN_QUERY.sub(rf"\1={HIDDEN}", _IN_HOST.sub(rf"\1:{HIDDEN}@", text))


def without_password(url: str) -> str:
    """Return a URL without its password: `postgresql://user:password@host/base` as `postgresql://user@host/base`."""
    rest = re.sub(r"(?<=[?&])(?:ssl)?password=[^&]*&?", "", _IN_HOST.sub(r"\1@", url), flags=re.IGNORECASE)
    return rest.rstrip("?&")


def password_of(url: str) -> str:
    """Return the password of a URL, decoded; empty where there is none."""
    matches = [pattern.search(url) for pattern in (_IN_HOST, _IN_QUERY)]
    return next((unquote(match.group(2)) for match in matches if match), "")


def scrubbed(text: str, url: str) -> str:
    """Return a text, such as a library's message about a URL, with `***` for the password of the URL in any form."""
    for password in (match.group(2) for pattern in (_IN_HOST, _IN_QUERY) for match in pattern.finditer(url)):
        plain = unquote(password)
        for form in sorted({password, plain, quote(plain), quote(plain, safe=""), quote_plus(plain)}, key=len)[::-1]:
            text = text.replace(form, HIDDEN) if form else text
    return redacted(text)
