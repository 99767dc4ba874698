"""Numbers in the texts of a command line."""

import math


def parse_number(text: str) -> int | float:
    """The number in a text such as `500_000`, `1e-4` or `inf`: an int if it has neither point nor exponent.

    Raises ValueError for anything else, also for `nan`, and OverflowError for a finite number that is too large.
    """
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if math.isnan(number):
        raise ValueError(f"{text} is not a number")
    if math.isinf(number) and "inf" not in text.lower():
        raise OverflowError(f"{text} is too large")
    return number


def parse_word(text: str) -> bool | int | float | str:
    """A number, true or false, or the text itself if it is neither."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return parse_number(text)
    except (ValueError, OverflowError):
        return text


def short(text: str) -> str:
    """The first 40 characters of a text, for messages."""
    return text if len(text) <= 40 else f"{text[:40]}..."
