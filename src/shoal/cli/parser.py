"""argparse with the manners of shoal: one line for a mistake, nearest names for an unknown flag. Imports no JAX."""

import argparse
import itertools
import math
from pathlib import Path
from typing import Any

from shoal.core.errors import did_you_mean


class Parser(argparse.ArgumentParser):
    """argparse, with the nearest names for an unknown flag and one line for every mistake."""

    def error(self, message: str) -> Any:
        """Every mistake on the command line is a ValueError; `main` prints it."""
        raise ValueError(f"{message[:1].lower()}{message[1:].rstrip('.')}. `{self.prog} --help` lists what there is.")

    def positional(self, name: str, words: list[str]) -> str:
        """One positional argument, wherever it stands, before the flags `--env.NAME VALUE` of its world are known.

        Empty where it cannot be told from the value of an unknown flag, and where `parse_all` will find a mistake. But
        a missing one is refused here if there are such flags, for `parse_all` would take the value of one for it.
        """
        plain = _joined_negatives(_without_world(words))
        try:
            arguments, left = self.parse_known_args(plain)
        except ValueError:
            if {"-h", "--help"} & set(words) or not any(word.startswith("--env.") for word in words):
                return ""
            raise
        found, unknown = getattr(arguments, name), [word for word in left if word.startswith("-")]
        return "" if unknown and plain.index(unknown[0]) < plain.index(found) else found

    def parse_all(self, words: list[str]) -> argparse.Namespace:
        """Parse everything, or raise ValueError naming the first flag that is unknown and its neighbors."""
        arguments, left = self.parse_known_args(_joined_negatives(words))
        if not left:
            return arguments
        wrong = next((word for word in left if word.startswith("-")), left[0]).partition("=")[0]
        if not wrong.startswith("-"):
            raise ValueError(f"{wrong!r} was not expected. `{self.prog} --help` lists what there is.")
        known = [option for option in self._option_string_actions if option.startswith("--")]
        raise ValueError(f"unknown flag {wrong}.{did_you_mean(wrong, known)} `{self.prog} --help` lists every flag.")


def parse_number(text: str) -> int | float:
    """`500_000`, `1e-4`, `inf`; whole when written whole. Raises ValueError, for `nan` too."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if math.isnan(number):
        raise ValueError(f"{text} is not a number")
    return number


def whole_number(text: str) -> int:
    """A whole number, however written: `500000`, `500_000`, `5e5`. Raises what argparse reports."""
    try:
        number = parse_number(text)
    except ValueError:
        number = math.nan
    if isinstance(number, float) and not number.is_integer():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(number)


def value_after(option: str, words: list[str]) -> str:
    """What was written for an option, before anything is parsed: `--seed 1` or `--seed=1`. Empty if it is missing."""
    for word, following in itertools.pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else following
    return ""


def full_path(name: str) -> str:
    """A file of the user's own by its full path, so that the run can be opened from anywhere."""
    place, colon, attribute = name.rpartition(":")
    return f"{Path(place).resolve()}:{attribute}" if colon and place.endswith(".py") else name


def real_number(text: str) -> float:
    """A number, however written. Raises what argparse reports."""
    try:
        return float(parse_number(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a number") from None


def hyphened(word: str) -> str:
    """`--learning_rate=1e-3` as `--learning-rate=1e-3`: both spellings are understood."""
    option, equals, value = word.partition("=")
    return option.replace("_", "-") + equals + value if option.startswith("--") else word


def _without_world(words: list[str]) -> list[str]:
    """Words without the constants of a world, each with one value, and without a call for help."""
    kept, before = [], ""
    for word in words:
        is_value = before.startswith("--env.") and "=" not in before
        if not is_value and not word.startswith("--env.") and word not in ("-h", "--help"):
            kept.append(word)
        before = "" if is_value else word
    return kept


def _joined_negatives(words: list[str]) -> list[str]:
    """`--reset-low -0.1,0.1` as one word, which argparse would take for a flag."""
    joined: list[str] = []
    for word in words:
        if (
            joined
            and joined[-1].startswith("--")
            and "=" not in joined[-1]
            and word[:1] == "-"
            and word[1:2] in "0123456789."
        ):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined
