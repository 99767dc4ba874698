"""Error classes, and helpers that make error messages which say what is wrong and what would work."""

import difflib
import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import NoReturn

from shoal.core.aliases import TRAIN_ARGUMENTS, alias_of, meaning_of

CONTROLS = (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))  # the last reverse the text
VISIBLE = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:x}" for code in CONTROLS if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Return a text for a terminal: control characters, with which escape sequences begin, are written as `\\x1b`.

    Names, errors of a user's code and messages of servers may hold them. Lines and tabs stay.
    """
    return text.translate(VISIBLE)


class UnknownNameError(ValueError):
    """Raised for a name that is not registered. The message has the nearest registered names."""


class Unsuited(ValueError):
    """Raised where an agent cannot learn in an environment with any hyperparameters. The message says what it needs."""


class OutOfMemory(ValueError):
    """Raised where the memory of a device is used up. The message has the bytes that are needed and what to lower."""


class CheckError(AssertionError):
    """Raised where an environment or an agent breaks a rule. The message names the hook and says what to write.

    `at` is the file and line of the mistake, such as `my_env.py:23`, with which the message then begins.
    """

    def __init__(self, what: str, at: str = "") -> None:
        super().__init__(f"{at}: {what}" if at else what)
        self.at = at


class CheckpointError(ValueError):
    """Raised for a checkpoint that is damaged, incomplete, or of another run."""


class UntrustedError(ValueError):
    """Raised where a file names code that must not run without the user's consent. The message says how to give it."""


class DamagedError(CheckpointError):
    """Raised for a file that was changed since shoal wrote it, or that shoal did not write."""


def unknown_name(
    kind: str, name: str, known: Iterable[str], hint: str = "", aliases: Mapping[str, str] | None = None
) -> UnknownNameError:
    """Return the error for a name that is not registered: `kind 'name' is not registered. Did you mean ...?`.

    `aliases` maps known names to those that are suggested in their place.
    """
    near = did_you_mean(name, known, aliases)
    return UnknownNameError(f"{kind} {name!r} is not registered.{near} {hint}".strip())


def in_digits(number: int) -> str:
    """Return a whole number as a text; one of more than 40 digits in words, because Python refuses to print thousands.

    >>> in_digits(5), in_digits(10**5_000)
    ('5', 'a number of more than 40 digits')
    """
    return str(number) if abs(number) < 10**40 else "a number of more than 40 digits"


def unknown_field(owner: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for a field that does not exist, with the nearest names, or all fields where none is near."""
    known = list(known)
    near = did_you_mean(name, known)
    every = f" Its fields are: {', '.join(known) or 'none'}."
    return TypeError(f"{owner} has no field {name!r}.{near or every}")


def unknown_fields(owner: str, names: Sequence[str], known: Iterable[str]) -> TypeError:
    """Return the error for fields that do not exist. Of several, each is listed with what shoal calls it."""
    known = list(known)
    if len(names) == 1:
        return unknown_field(owner, names[0], known)
    parts = []
    for name in names:
        meant = _meant(name, known)
        argument = "" if meant else alias_of(name, TRAIN_ARGUMENTS) or name.lower()
        of_train = f" ({argument}= of shoal.train)" if argument in TRAIN_ARGUMENTS else ""
        parts.append(f"{name} (here {' or '.join(meant)})" if meant else f"{name}{of_train}")
    return TypeError(f"{owner} has no fields {', '.join(parts)}.")


class MissingAttribute:
    """An attribute that a class does not have, but that of another library has: AttributeError says what to write.

    `hasattr` is therefore False, for the class and for its values.
    """

    def __init__(self, name: str, remedy: str) -> None:
        self.name, self.remedy = name, remedy

    def __get__(self, value: object, owner: type) -> NoReturn:
        """Raise AttributeError."""
        raise AttributeError(f"{owner.__name__} has no {self.name!r}: {self.remedy}.")


def refuse_attributes(cls: type, remedies: Mapping[str, str]) -> None:
    """Make a class explain attributes that it does not have. Set them here, so that type checkers do not see them."""
    for name, remedy in remedies.items():
        setattr(cls, name, MissingAttribute(name, remedy))


def did_you_mean(name: str, known: Iterable[str], aliases: Mapping[str, str] | None = None) -> str:
    """Return ` Did you mean A or B?` with the known names that are similar; empty where none is.

    The name that another library uses for one of them counts as similar (`shoal.core.aliases`). If it means another
    quantity there, a sentence says what it means here. `aliases` maps some of the known names to those that are
    suggested in their place.
    """
    near = list(dict.fromkeys((aliases or {}).get(meant, meant) for meant in _meant(name, known)))
    meaning = meaning_of(name, near[0]) if near else ""
    return f" Did you mean {' or '.join(near)}?{f' {meaning}' if meaning else ''}" if near else ""


def _meant(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that may be meant by an unknown one, the likeliest first."""
    known = list(known)
    if (alias := alias_of(name, known)) is not None:
        return [alias]
    wanted = name.lower().lstrip("-")
    by_lower_case = {k.lower().lstrip("-"): k for k in known}
    by_letters = {_letters(k): k for k in known}
    if same := by_letters.get(_letters(name)):
        return [same]
    near = [k for k in by_lower_case if _initials(k) == wanted] or _similar(wanted, list(by_lower_case))
    return [by_lower_case[n] for n in near]


def _letters(name: str) -> str:
    """Return the letters and digits of a name, in lower case: `cartpolev1` for `CartPole_v1`."""
    return re.sub(r"[^a-z0-9.]", "", name.lower())


def _initials(name: str) -> str:
    """Return the first letters of the words of a name: `lr` for `learning-rate`."""
    return "".join(word[:1] for word in re.split(r"[-_. ]+", name))


def _similar(wanted: str, known: list[str]) -> list[str]:
    """Return the most similar names: the best one, and others that are at most 0.15 less similar."""
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.55)
    similarities = [difflib.SequenceMatcher(a=name, b=wanted).ratio() for name in near]
    return [name for name, ratio in zip(near, similarities, strict=True) if ratio > similarities[0] - 0.15]


def need(package: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional package and return it. Raises ImportError, naming the extra that installs it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        top = package.split(".")[0]
        if (error.name or "").split(".")[0] != top:
            raise  # the package is installed; something that it imports is not
        raise ImportError(
            f"{purpose} needs the package {top!r}, which is not installed: pip install 'shoal[{extra}]'."
        ) from error
