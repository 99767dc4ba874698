"""`--search learning_rate=log(1e-4,1e-1)`: parse the ranges from which `--random` samples settings."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from shoal.cli.numbers import parse_number, parse_word, short

SCALED = re.compile(r"(log|near1)\(([^,]*),([^,]*)\)")
FORMS = (
    "PATH=LOW..HIGH, PATH=log(LOW,HIGH), PATH=near1(LOW,HIGH) for discounts, PATH=A|B|C for one of several values, "
    "or PATH alone for its declared range"
)


Read = Callable[[str, str], list]


def read_search(texts: Sequence[str], option: str = "--search", read: Read | None = None) -> dict[str, Any]:
    """The ranges by path, in the form that `shoal.train(search=...)` takes. Raises ValueError for a wrong text.

    `option` is the name of the option in messages. `read` parses the values in a text for a path, which may be others
    than numbers then; what is no range is a list of values then, as in `num_envs=4,8` or `hidden=64,64|128,128`.
    """
    ranges: dict[str, Any] = {}
    for text in texts:
        path, equals, span = text.partition("=")
        path = path.strip().replace("-", "_")
        if not path or path in ranges:
            raise ValueError(f"{option} {text} {'names nothing' if not path else 'is given twice'}: write {FORMS}.")
        ranges[path] = _range(f"{option} {text}", path, span.strip(), read) if equals else None
    return ranges


def _range(text: str, path: str, span: str, read: Read | None) -> tuple:
    if read is not None and ".." not in span and not SCALED.fullmatch(span):
        return (*(value for word in span.split("|") for value in read(path, word.strip())), "choice")
    if "|" in span:
        return (*(_value(text, path, word.strip()) for word in span.split("|")), "choice")
    found = SCALED.fullmatch(span)
    low, _, high = (found[2], "", found[3]) if found else span.partition("..")
    try:
        ends = parse_number(low), parse_number(high)
    except (ValueError, OverflowError):
        raise ValueError(f"{text} is not a range: write {FORMS}.") from None
    return (*ends, found[1]) if found else ends


def _value(text: str, path: str, word: str) -> Any:
    """Parse one of the values to choose from: a number, true or false. Raises ValueError for any other word."""
    value = parse_word(word)
    if isinstance(value, str):
        flag = f"--{path.replace('_', '-')}"
        raise ValueError(
            f"{text}: {short(word)!r} is not a number, and only numbers can be sampled. For other values, "
            f"write {flag} with a list, which makes a run of its own for each, as in {flag} "
            f"{text.partition('=')[2].replace('|', ',')}."
        )
    return value
