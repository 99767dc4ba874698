"""Advice where an environment of another library is given, and one of shoal's is needed."""

from typing import Any

# Library -> what an environment of it is called.
FOREIGN = {"gymnasium": "a Gymnasium", "gym": "a Gym", "gymnax": "a gymnax", "navix": "a NAVIX", "brax": "a Brax"}


def library_of(value: Any) -> str | None:
    """The library from which the class of a value, or a class, comes or derives; None: none of `FOREIGN`."""
    kind = value if isinstance(value, type) else type(value)
    return next((name for base in kind.__mro__ if (name := base.__module__.split(".")[0]) in FOREIGN), None)


def gymnasium_name(value: Any) -> str:
    """Say which name gives this environment of Gymnasium to shoal, as part of a sentence; "" for other values."""
    if library_of(value) != "gymnasium":
        return ""
    if theirs := getattr(getattr(value, "spec", None), "id", ""):
        return f'give its name, "gymnasium/{theirs}"'
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    return (
        f'write gymnasium.register("{name}-v0", "my_file:{name}") below its class in my_file.py, and give the name '
        f'"gymnasium/my_file:{name}-v0"'
    )
