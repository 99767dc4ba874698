"""One parser for all commands: a command's own options, and a flag for every field of the values that it names.

Reading takes two steps, because which fields there are depends on names that stand on the same line. `split` tells a
command's own options (argparse reads those; no JAX is needed) from other flags, each with one value; `finish` looks the
named agent and environment up and reads the flags as their fields. What argparse lacks is here: nearest names for an
unknown flag, one line for a mistake, comma lists as sweeps, and no flag that is given twice and then ignored.

Why not a library that makes parsers from types (imports measured next to each other, above 41 ms for Python itself):
argparse 44 ms, click 110, typer 280, cyclopts 350, tyro 380, where `shoal --help` may take 300. None of them has
options that depend on the names of a line, one flag that takes a number or a list to sweep, or (but for typer and
cyclopts) nearest names, so this file would become about 60 lines shorter at best. Completion is `completion.py`:
argcomplete starts Python at every press of Tab, shtab wants all options of a parser in advance.
"""

import argparse
import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.errors import did_you_mean

LARGEST_WHOLE = 2**64  # no option holds more; a seed is the largest
LARGEST_FIELD = 2**31 - 1  # JAX computes with 32 bits
LARGEST_REAL = 3.4e38  # the same
HELP = ("-h", "--help")


class Flag(NamedTuple):
    """One field as a flag."""

    option: str  # --learning-rate, --env.gravity
    name: str
    default: Any
    static: bool
    help: str
    names: tuple[str, ...] = ()  # of a traced choice
    file: bool = False


class Given(NamedTuple):
    """What was written for the fields of one value: single values, and lists of several to sweep."""

    fixed: dict[str, Any]
    sweep: dict[str, list]


NOTHING = Given({}, {})


class Line(NamedTuple):
    """A command line that was read: options of the command, and fields by the kind of value that has them."""

    options: argparse.Namespace
    agent: Given = NOTHING
    env: Given = NOTHING


class Split(NamedTuple):
    """A command line in parts: the command's own options, and all other flags with their texts (None: it has none)."""

    options: argparse.Namespace
    others: dict[str, str | None]
    wants_help: bool
    has_names: bool  # positional arguments, which may decide on fields


Named = Mapping[str, str]  # {"agent": "ppo", "env": "CartPole-v1"}; empty where one is not named


class Parser(argparse.ArgumentParser):
    """The options of one command. `named` says whose fields are flags too, from the options that were read."""

    def __init__(
        self,
        command: str,
        usage: str,
        description: str,
        examples: str = "",
        named: Callable[[argparse.Namespace], Named] | None = None,
        without: tuple[str, ...] = (),
    ) -> None:
        """`without` are fields that the command decides on itself."""
        super().__init__(
            prog=f"shoal {command}",
            usage=f"shoal {command} {usage}".strip(),
            description=description,
            epilog=f"examples:\n{examples}" if examples else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.named, self.without = named, without
        self.add_argument("--no-cache", action="store_true", help="compile everything anew")
        self.add_argument("--debug", action="store_true", help="show where an error comes from")

    def error(self, message: str) -> Any:
        """Every mistake on the command line is a ValueError; `main` prints it."""
        raise ValueError(f"{message[:1].lower()}{message[1:].rstrip('.')}. `{self.prog} --help` lists what there is.")

    def split(self, words: list[str]) -> Split:
        """Tell the command's own options from other flags, and read them. Raises ValueError for a mistake in them."""
        own: dict[str, str] = {}
        others: dict[str, str | None] = {}
        positional: list[str] = []
        wants_help, left = False, [*words]
        while left:
            word = left.pop(0)
            if word in HELP:
                wants_help = True
            elif not word.startswith("-") or word == "-":
                positional.append(word)
            elif not word.startswith("--"):
                raise ValueError(f"unknown flag {word}. `{self.prog} --help` lists every flag.")
            else:
                self._take(word, left, own, others)
        if wants_help:
            return Split(self._read_what_there_is(own, positional), others, True, bool(positional))
        return Split(self._read(own, positional), others, False, bool(positional))

    def finish(self, split: Split) -> Line:
        """Look up what the line names and read the flags of its fields. Raises ValueError for those that it has not."""
        from shoal.core.registry import AGENTS, ENVS

        named = dict(self.named(split.options)) if self.named else {}
        if named.get("agent") in ENVS and named.get("env") in AGENTS:
            raise ValueError(f"the agent comes first: {self.prog} {named['env']} {named['agent']}")
        flags = {kind: self.flags(kind, name) for kind, name in named.items() if name}
        given = {kind: Given({}, {}) for kind in ("agent", "env")}
        for option, text in split.others.items():
            kind = "env" if option.startswith("--env.") else "agent"
            flag = next((flag for flag in flags.get(kind, []) if flag.option == option), None)
            if flag is None:
                raise self._unknown(option, kind, named, flags)
            values = read_values(flag, text)
            if len(values) == 1:
                given[kind].fixed[flag.name] = values[0]
            else:
                given[kind].sweep[flag.name] = values
        return Line(split.options, given["agent"], given["env"])

    def flags(self, kind: str, name: str) -> list[Flag]:
        """The flags of a named agent or environment. Options that the command itself has win."""
        from shoal.core.registry import AGENTS, ENVS

        entry = (AGENTS if kind == "agent" else ENVS)[name]
        found = flags_of(entry.cls, entry.preset, "env." if kind == "env" else "")
        return [f for f in found if f.option not in self._option_string_actions and f.name not in self.without]

    def help_for(self, split: Split) -> str:
        """The help, with the fields of what the line names."""
        for kind, name in (self.named(split.options) if self.named else {}).items():
            if name:
                title = f"hyperparameters of {name}" if kind == "agent" else f"the environment {name}"
                add_flags(self, title, self.flags(kind, name))
        return self.format_help()

    def _take(self, word: str, left: list[str], own: dict[str, str], others: dict[str, str | None]) -> None:
        """One flag, and its value from the words that are left."""
        option, equals, text = word.partition("=")
        option = option.replace("_", "-")
        if option in own or option in others:
            raise ValueError(f"{option} is given twice: write it once.")
        action = self._option_string_actions.get(option)
        if action is not None and action.nargs == 0:
            if equals:
                raise ValueError(f"{option} takes no value.")
            own[option] = ""
            return
        has_value = bool(equals) or (bool(left) and not left[0].startswith("--") and left[0] not in HELP)
        value = text if equals else left.pop(0) if has_value else None
        if action is None:
            others[option] = value
        elif value is None:
            raise ValueError(f"{option} needs a value. `{self.prog} --help` says which.")
        else:
            own[option] = f"={value}"

    def _read(self, own: Mapping[str, str], positional: list[str]) -> argparse.Namespace:
        words = [option + value for option, value in own.items()]
        arguments, left = self.parse_known_args([*positional, *words])
        if left:
            raise ValueError(f"{left[-1]!r} was not expected. `{self.prog} --help` lists what there is.")
        return arguments

    def _read_what_there_is(self, own: Mapping[str, str], positional: list[str]) -> argparse.Namespace:
        """Whatever can be read where only help is wanted."""
        try:
            return self._read(own, positional)
        except ValueError:
            return argparse.Namespace(**{action.dest: action.default for action in self._actions})

    def _unknown(self, option: str, kind: str, named: Named, flags: Mapping[str, list[Flag]]) -> ValueError:
        if kind in named and not named[kind]:
            what = "an environment" if kind == "env" else "an agent"
            return ValueError(f"{option} is no option of {self.prog} itself, and {what} that may have it is not named.")
        known = [each for each in self._option_string_actions if each.startswith("--")]
        known += [flag.option for found in flags.values() for flag in found]
        names = " ".join(name for name in named.values() if name)
        return ValueError(
            f"unknown flag {option}.{did_you_mean(option, known)} `{f'{self.prog} {names}'.strip()} --help` lists "
            f"every flag."
        )


def flags_of(cls: type, preset: Mapping[str, Any], prefix: str = "") -> list[Flag]:
    """The flags of a class whose registered name presets some fields. What `bind` fills in is none."""
    from shoal.core.struct import hyper_fields, static_fields

    shaping, traced = static_fields(cls), hyper_fields(cls)
    flags = []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue  # follows from the others
        default = preset.get(field.name, field.default)
        names = field.metadata.get("names", ())
        if isinstance(default, str) and field.name not in shaping and not names:
            continue  # the environment inside a wrapper, by name
        if default is dataclasses.MISSING or (field.name in shaping and default is None):
            continue  # holds what only Python can: a network, a space
        option = f"--{prefix}{field.name.replace('_', '-')}"
        file = field.metadata.get("file", False)
        if names and not isinstance(default, str):
            default = names[default]
        about = _help(field, default, field.name in traced)
        flags.append(Flag(option, field.name, default, field.name in shaping, about, names, file))
    return flags


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


def whole_number(text: str) -> int:
    """A whole number, however written: `500000`, `500_000`, `5e5`. Raises what argparse reports."""
    try:
        number = parse_number(text)
    except OverflowError:
        number = LARGEST_WHOLE
    except ValueError:
        number = math.nan
    if isinstance(number, float) and not number.is_integer():
        raise argparse.ArgumentTypeError(f"{_short(text)} is not a whole number")
    if abs(number) >= LARGEST_WHOLE:
        raise argparse.ArgumentTypeError(f"{_short(text)} does not fit in 64 bits")
    return int(number)


def real_number(text: str) -> float:
    """A number, however written. Raises what argparse reports."""
    try:
        return float(parse_number(text))
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{_short(text)} is too large") from None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{_short(text)} is not a number") from None


def full_path(name: str) -> str:
    """A file of the user's own by its full path, so that the run can be opened from anywhere."""
    place, colon, attribute = name.rpartition(":")
    return f"{Path(place).resolve()}:{attribute}" if colon and place.endswith(".py") else name


def member_number(text: str, others: str = " or `best`") -> int:
    """The number that was given for `--member`, which may also be `others`. Raises ValueError for anything else."""
    if not text.lstrip("-").isdecimal() or len(text) > 10:
        raise ValueError(f"--member {_short(text)} is unknown: give a number{others}.")
    return int(text)


def _read(flag: Flag, text: str) -> Any:
    default = flag.default
    try:
        if flag.file:
            return text
        if isinstance(default, bool):
            return _boolean(text)
        if isinstance(default, tuple):
            return tuple(_in_range(flag, int(part)) for part in text.replace("x", ",").split(",") if part.strip())
        if isinstance(default, str):
            return text if not flag.names or text in flag.names else flag.names.index(text)
        if text == "none" and default is None:
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
        raise ValueError(f"{flag.option} {_short(text)} is more than a field holds, which has 32 bits.") from None
    except ValueError:
        word = _word(default)
        raise ValueError(f"{flag.option} {_short(text)} is not {_kind(flag)}. The default is {word}.") from None


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


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."
