"""Fields as flags: which a value has, and the texts of a command line as their values."""

import argparse
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

LARGEST_FIELD = 2**31 - 1  # JAX computes with 32 bits
LARGEST_REAL = 3.4e38  # the same


class Flag(NamedTuple):
    """One field as a flag."""

    option: str  # --learning-rate, --env.gravity
    name: str
    default: Any
    static: bool
    help: str
    names: tuple[str, ...] = ()  # of a traced choice
    file: bool = False
    may_be_none: bool = False


def flags_of(cls: type, preset: Mapping[str, Any], prefix: str = "") -> list[Flag]:
    """The flags of a class whose registered name presets some fields. What `bind` fills in is none."""
    from shoal.core.struct import static_fields

    shaping = static_fields(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # others follow from these
    defaults = {name: preset.get(name, field.default) for name, field in fields.items()}
    flags = (_flag(prefix, name, field, defaults[name], name in shaping) for name, field in fields.items())
    return [flag for flag in flags if flag is not None]


def flags_of_value(value: Any, prefix: str = "") -> list[Flag]:
    """The flags of a value: its own numbers are the defaults, and those of values inside it have paths."""
    from shoal.training.describe import python_number
    from shoal.training.settings import hyperparameters_of

    found = hyperparameters_of(value).items()
    flags = (_flag(prefix, path, place.field, python_number(place.value), place.static) for path, place in found)
    return [flag for flag in flags if flag is not None]


def add_flags(parser: argparse.ArgumentParser, title: str, flags: list[Flag]) -> None:
    """Add flags to the help of a parser, as a group of their own."""
    group = parser.add_argument_group(title)
    for flag in flags:
        group.add_argument(flag.option, metavar=_metavar(flag), help=flag.help)


def read_values(flag: Flag, text: str | None) -> list:
    """The values in a text: one, or several with commas between them. Raises ValueError for what none can be."""
    if text is not None and (isinstance(flag.default, tuple) or flag.file):
        return [_read(flag, text)]
    parts = [part.strip() for part in (text or "").split(",")]
    if not all(parts):
        raise ValueError(f"{flag.option} needs a value, or several with commas between them: {_word(flag.default)}.")
    return [_read(flag, part) for part in parts]


def parse_number(text: str) -> int | float:
    """`500_000`, `1e-4`, `inf`; whole when written whole. Raises ValueError, for `nan` too.

    Raises OverflowError for a number that is written out and too large to be held.
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


def short(text: str) -> str:
    """A text for a message of one line."""
    return text if len(text) <= 40 else f"{text[:40]}..."


def _flag(prefix: str, path: str, field: dataclasses.Field, default: Any, is_static: bool) -> Flag | None:
    """A field as a flag; None where no text says what it holds."""
    names, file = field.metadata.get("names", ()), field.metadata.get("file", False)
    if isinstance(default, str) and not (is_static or names or file):
        return None  # the environment inside a wrapper, by name
    if default is dataclasses.MISSING or (is_static and default is None):
        return None  # holds what only Python can: a network, a space
    if not (file or isinstance(default, (str, bool, int, float, tuple, type(None)))):
        return None  # an array, a function
    if names and not isinstance(default, str):
        default = names[default]
    option = f"--{prefix}{path.replace('_', '-')}"
    may_be_none = default is None or type(None) in get_args(field.type)
    about = _help(field, default, "search" in field.metadata)
    return Flag(option, path, default, is_static, about, names, file, may_be_none)


def _read(flag: Flag, text: str) -> Any:
    default = flag.default
    try:
        if flag.file:
            return text
        if isinstance(default, bool):
            return _boolean(text)
        if isinstance(default, tuple) and any(isinstance(part, str) for part in default):
            return tuple(part.strip() for part in text.split(","))
        if isinstance(default, tuple):
            return tuple(_in_range(flag, int(part)) for part in text.replace("x", ",").split(",") if part.strip())
        if isinstance(default, str):
            return text if not flag.names or text in flag.names else flag.names.index(text)
        if text == "none" and flag.may_be_none:
            return None
        number = parse_number(text)
        if isinstance(default, float):
            return _in_range(flag, float(number))
        if flag.static and isinstance(default, int):
            if isinstance(number, float) and not number.is_integer():
                raise ValueError(text)
            number = int(number)
        return _in_range(flag, number)
    except OverflowError:
        raise ValueError(f"{flag.option} {short(text)} is more than a field holds, which has 32 bits.") from None
    except ValueError:
        word = _word(default)
        raise ValueError(f"{flag.option} {short(text)} is not {_kind(flag)}. The default is {word}.") from None


def _in_range(flag: Flag, number: int | float) -> int | float:
    largest = LARGEST_FIELD if isinstance(number, int) else LARGEST_REAL
    if largest < abs(number) < math.inf:
        raise OverflowError(flag.option)
    return number


def _boolean(text: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _kind(flag: Flag) -> str:
    if isinstance(flag.default, bool):
        return "true or false"
    if isinstance(flag.default, tuple):
        return "a list of whole numbers, as in 64,64"
    if flag.names:
        return f"one of {', '.join(flag.names)}"
    return "a whole number" if flag.static else "a number"


def _metavar(flag: Flag) -> str:
    if isinstance(flag.default, tuple) or flag.file:
        return "FILE" if flag.file else "N,N"
    kind = "BOOL" if isinstance(flag.default, bool) else "WORD" if isinstance(flag.default, str) else "X"
    return f"{kind}[,{kind}]"


def _help(field: dataclasses.Field, default: Any, is_hyper: bool) -> str:
    parts = [field.metadata.get("help", "")]
    if is_hyper and field.metadata["valid"]:
        low, high, _ = field.metadata["valid"]
        parts.append(f"from {low:g} to {high:g}")
    if choices := field.metadata.get("choices") or field.metadata.get("names"):
        parts.append("one of " + ", ".join(_word(choice) for choice in choices))
    parts.append(f"default {_word(default)}")
    return "; ".join(part for part in parts if part).replace("%", "%%")


def _word(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
