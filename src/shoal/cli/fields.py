"""Flags from fields: every number and choice that an agent or environment declares is a flag of the same name.

Written by hand, on argparse (`parser.py`), because what a flag may hold here is more than a type: a comma list on a
traced field is a sweep inside one program, on a static field one run for each value; the flags depend on two names (or
files of the user's own) that are only known at run time; and an unknown flag should be answered with the nearest ones.
A parser generated from types (tyro) has no place for any of the three, and takes longer to import than `shoal --help`
may take.
"""

import argparse
import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.cli.parser import parse_number
from shoal.core.struct import hyper_fields, static_fields


class Flag(NamedTuple):
    """One field as a flag."""

    option: str  # --learning-rate, --env.gravity
    name: str
    default: Any
    static: bool
    help: str
    names: tuple[str, ...] = ()  # of a traced choice
    file: bool = False

    @property
    def destination(self) -> str:
        """Where argparse puts its text; apart from the command's own options."""
        return f"field {self.option}"


class Given(NamedTuple):
    """What was written for the fields of one value."""

    fixed: dict[str, Any]
    sweep: dict[str, list]  # traced: all in one program
    variants: dict[str, list]  # static: one run for each


def flags_of(cls: type, preset: Mapping[str, Any], prefix: str = "") -> list[Flag]:
    """The flags of a class whose registered name presets some fields. What `bind` fills in is none."""
    shaping, traced = static_fields(cls), hyper_fields(cls)
    flags = []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue  # follows from the others
        default = preset.get(field.name, field.default)
        names = field.metadata.get("names", ())
        if isinstance(default, str) and field.name not in shaping and not names:
            continue  # the world inside a wrapper, by name
        if default is dataclasses.MISSING or (field.name in shaping and default is None):
            continue  # holds what only Python can: a network, a space
        option = f"--{prefix}{field.name.replace('_', '-')}"
        static = field.name in shaping
        file = field.metadata.get("file", False)
        if names and not isinstance(default, str):
            default = names[default]
        flags.append(
            Flag(option, field.name, default, static, _help(field, default, field.name in traced), names, file)
        )
    return flags


def add_flags(parser: argparse.ArgumentParser, title: str, flags: list[Flag]) -> None:
    """Add flags to a parser, as a group of their own. Options that the command itself has win."""
    group = parser.add_argument_group(title)
    for flag in flags:
        if flag.option not in parser._option_string_actions:
            group.add_argument(flag.option, dest=flag.destination, metavar=_metavar(flag), help=flag.help)


def read_flags(arguments: argparse.Namespace, flags: list[Flag]) -> Given:
    """The values that were given. Raises ValueError for a text that is none of the field."""
    given = Given({}, {}, {})
    for flag in flags:
        text = getattr(arguments, flag.destination, None)
        if text is None:
            continue
        values = [_parse(flag, text)] if isinstance(flag.default, tuple) else _parse_list(flag, text)
        if len(values) == 1:
            given.fixed[flag.name] = values[0]
        else:
            (given.variants if flag.static else given.sweep)[flag.name] = values
    return given


def _parse_list(flag: Flag, text: str) -> list:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError(f"{flag.option} needs a value, such as {_word(flag.default)}.")
    return [_parse(flag, part) for part in parts]


def _parse(flag: Flag, text: str) -> Any:
    default = flag.default
    try:
        if flag.file:
            return text
        if isinstance(default, bool):
            return _boolean(text)
        if isinstance(default, tuple):
            return tuple(int(part) for part in text.replace("x", ",").split(",") if part.strip())
        if isinstance(default, str):
            return text if not flag.names or text in flag.names else flag.names.index(text)
        if text == "none" and default is None:
            return None
        number = parse_number(text)
        if flag.static and isinstance(default, int):
            if isinstance(number, float) and not number.is_integer():
                raise ValueError(text)
            return int(number)
        return float(number) if isinstance(default, float) else number
    except ValueError:
        raise ValueError(f"{flag.option} {text} is not {_kind(flag)}. The default is {_word(default)}.") from None


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
