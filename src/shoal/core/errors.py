"""Errors in the user's words: what was given, what would work, what to do."""

import difflib
import importlib
import re
from collections.abc import Iterable
from types import ModuleType

from shoal.core.aliases import alias_of


class UnknownNameError(ValueError):
    """A name that is not registered, with the nearest ones that are."""


class Unsuited(ValueError):
    """An agent and an environment that cannot work together, whatever the settings: what the agent would need."""


class CheckError(AssertionError):
    """An environment or an agent that breaks the contract: which hook, what it gave, and what to write instead."""


class CheckpointError(ValueError):
    """A checkpoint that is damaged, incomplete, or belongs to something else."""


class DamagedError(CheckpointError):
    """A file that is not what was written, such as one of a run folder: where it is a checkpoint's, an older may do."""


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str = "") -> UnknownNameError:
    """The error for an unregistered name: `kind 'name' is not registered. Did you mean ...?`."""
    return UnknownNameError(f"{kind} {name!r} is not registered.{did_you_mean(name, known)} {hint}".strip())


def unknown_field(owner: str, name: str, known: Iterable[str]) -> TypeError:
    """The error for a field that a value does not have, with the nearest ones and the whole list."""
    known = list(known)
    return TypeError(
        f"{owner} has no field {name!r}.{did_you_mean(name, known)} Its fields are: {', '.join(known) or 'none'}."
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean A or B?`, or nothing when no known name is near.

    The name that another library has for one of them counts as near (`shoal.core.aliases`).
    """
    known = list(known)
    if (alias := alias_of(name, known)) is not None:
        return f" Did you mean {alias}?"
    wanted = name.lower().lstrip("-")
    spelled = {k.lower().lstrip("-"): k for k in known}
    near = [k for k in spelled if _initials(k) == wanted] or _alike(wanted, list(spelled))
    return f" Did you mean {' or '.join(spelled[n] for n in near)}?" if near else ""


def _initials(name: str) -> str:
    """`lr` of `learning-rate`."""
    return "".join(word[:1] for word in re.split(r"[-_. ]+", name))


def _alike(wanted: str, known: list[str]) -> list[str]:
    """The most similar names; none that is far behind the best."""
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.55)
    likeness = [difflib.SequenceMatcher(a=name, b=wanted).ratio() for name in near]
    return [name for name, ratio in zip(near, likeness, strict=True) if ratio > likeness[0] - 0.15]


def need(package: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional package, or say which extra installs it. Raises ImportError."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != package.split(".")[0]:
            raise  # the package is there; something that it imports is not
        raise ImportError(
            f"{purpose} needs the package {package!r}, which is not installed: pip install 'shoal[{extra}]'."
        ) from error
