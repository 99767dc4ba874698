"""One parser for all commands: a command's own options, and a flag for every field of its agent and environment.

A line is parsed in two steps, because the names of agent and environment on the line decide which fields exist. `start`
separates the command's own options (argparse parses those; no JAX is needed) from all other flags. `finish` looks up
the named agent and environment and parses the other flags as their fields. This module adds what argparse lacks: the
nearest names for an unknown flag, one line for a mistake, comma-separated lists as sweeps, and an error for a flag that
is given twice.

Why no library that makes parsers from types? Import times beyond the 41 ms of Python itself, measured one after the
other: argparse 44 ms, click 110, typer 280, cyclopts 350, tyro 380; `shoal --help` may take 300. None of them supports
options that depend on names in the same line, or one flag for a value or a list to sweep, and only typer and cyclopts
suggest nearest names. So this file would become about 60 lines shorter at best. Completion is in `completion.py`:
argcomplete starts Python at every press of Tab, and shtab needs all options of a parser in advance.
"""

import argparse
import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent, fill, indent
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

from shoal.cli import hints
from shoal.cli.numbers import parse_number, short
from shoal.cli.search import read_search
from shoal.core.aliases import OTHER_FLAGS

LARGEST_FIELD = 2**31 - 1  # JAX computes with 32 bits
BRACKETS = re.compile(r"\[.*\]|\(.*\)")
COMMAS_OUTSIDE = re.compile(r",(?![^(]*\))")  # commas that are not between parentheses
LARGEST_REAL = 3.4e38  # of 32 bits too
SIZES = {"k": 10**3, "m": 10**6, "g": 10**9}  # letters behind a number, as the display of a run prints them
LARGEST_WHOLE = 2**64  # seeds are the largest whole numbers of all options
HELP = ("-h", "--help")
# Messages of argparse.
MISSING = re.compile(r"the following arguments are required: (.*)")
BAD_VALUE = re.compile(r"argument ([^:]*): (.*)", re.DOTALL)
CHOICES = re.compile(r"invalid choice: (.*) \(choose from .*\)", re.DOTALL)


class FieldValues(NamedTuple):
    """The field flags of an agent or environment, by field name: single values, and lists of values to sweep over."""

    fixed: dict[str, Any]
    sweep: dict[str, list]


NO_FIELDS = FieldValues({}, {})


class Line(NamedTuple):
    """A parsed command line: the command's own options, and the field flags of agent, environment and selector."""

    options: argparse.Namespace
    agent: FieldValues = NO_FIELDS
    env: FieldValues = NO_FIELDS
    selector: FieldValues = NO_FIELDS
    named: Mapping[str, Any] = MappingProxyType({})  # the agent and environment of the line: see `Named`


class RawLine(NamedTuple):
    """A command line after the first step: the command's own options, and all other flags with their texts."""

    options: argparse.Namespace
    others: dict[str, str | None]  # None for a flag without a value
    wants_help: bool
    names: list[str]  # positional arguments, for example the names of agent and environment


class Flag(NamedTuple):
    """One field of an agent or environment as a flag."""

    option: str  # --learning-rate, --env.gravity
    name: str  # of the field, or its path
    default: Any
    static: bool
    help: str
    names: tuple[str, ...] = ()  # of the choices, where a traced number stands for one of them
    file: bool = False  # whether the value is the path of a file
    ranges: bool = False  # whether the value is a list of hyperparameters, each with a range or without
    may_be_none: bool = False
    function: bool = False  # whether the value is the name of a function, or MODULE:FUNCTION, or several of these


# {"agent": "ppo", "env": FrameStack(...)}: registered names or values; an empty name where the line has none.
Named = Mapping[str, Any]


class Parser(argparse.ArgumentParser):
    """The parser of one command. `named` maps its options to the agent and environment whose fields are flags too."""

    def __init__(
        self,
        command: str,
        about: Callable,
        usage: str = "",
        named: Callable[[argparse.Namespace], Named] | None = None,
        without: tuple[str, ...] = (),
        opens_run: bool = False,
        program: str = "shoal",
        more: str = "",
    ) -> None:
        """The docstring of the function `about` is the help: a paragraph, examples, and then `more`.

        `without` names fields that are not flags, because the command sets them itself. A command that `opens_run` gets
        the option `--trust-source`, because it may need files of the user's own that the run was made with.
        """
        description, _, rest = (inspect.getdoc(about) or "").partition("\n\n")
        examples = f"examples:\n{indent(dedent(rest), '  ')}" if rest else ""
        super().__init__(
            prog=f"{program} {command}".strip(),
            usage=" ".join(filter(None, (program, command, usage))),
            description=fill(description, 80),
            epilog="\n\n".join(filter(None, (examples, more))),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.named, self.without = named, without
        self.add_argument("--no-cache", action="store_true", help="do not use the cache of compiled programs")
        self.add_argument("--debug", action="store_true", help="print the traceback of an error")
        if opens_run:
            text = "execute the code that the run or the preset names; copies for files that are gone or have changed"
            self.add_argument("--trust-source", action="store_true", help=text)

    def error(self, message: str) -> Any:
        """Raise argparse's message in other words, as ValueError, which `main` prints."""
        if parts := MISSING.fullmatch(message):
            example = (self.epilog or "").partition("\n")[2].strip().partition("\n")[0].partition("   ")[0]
            raise ValueError(hints.missing(parts[1], self.prog.removeprefix("shoal "), example))
        found = BAD_VALUE.fullmatch(message)
        action = next((action for action in self._actions if found and found[1] == _name_of(action)), None)
        if found is None or action is None:
            raise ValueError(f"{message[:1].lower()}{message[1:].rstrip('.')}. `{self.prog} --help` lists all options.")
        if choices := CHOICES.fullmatch(found[2]):
            known = [str(choice) for choice in action.choices or ()]
            raise ValueError(f"{found[1]} {choices[1]} is unknown: choose {hints.listed(known)}.")
        raise ValueError(hints.bad_value(found[1], action, found[2]))

    def start(self, words: list[str]) -> RawLine:
        """Separate the command's own options from other flags, and parse them. Raises ValueError for a mistake."""
        own: dict[str, list[str]] = {}
        others: dict[str, str | None] = {}
        positional: list[str] = []
        before: list[str] = []  # the flag in front of each positional argument, with its value
        wants_help, left, flag = False, [*words], ""
        while left:
            word = left.pop(0)
            if word in HELP:
                wants_help = True
            elif not word.startswith("-") or word == "-":
                positional.append(word)
                before.append(flag)
                flag = ""
            else:
                flag = self._take(word, left, own, others)
        if wants_help:
            return RawLine(self._read_or_default(own, positional), others, True, positional)
        return RawLine(self._read(own, positional, before), others, False, positional)

    def finish(self, raw: RawLine) -> Line:
        """Look up the named agent and environment, and parse the other flags as their fields.

        Raises ValueError for a flag that is no field of them, or whose value is wrong.
        """
        named = dict(self.named(raw.options)) if self.named else {}
        flags = {kind: self.flags(kind, what) for kind, what in named.items() if what != ""}
        found = {kind: FieldValues({}, {}) for kind in ("agent", "env", "selector")}
        for option, text in raw.others.items():
            kind = next((kind for kind in ("env", "selector") if option.startswith(f"--{kind}.")), "agent")
            flag = next((flag for flag in flags.get(kind, []) if flag.option == option), None)
            if flag is None:
                raise self._unknown(option, kind, raw, named, flags)
            values = read_values(flag, text)
            if kind == "selector" and len(values) > 1:
                raise ValueError(f"{option} {text}: a run has one selector, so its fields take one value each.")
            if len(values) == 1:
                found[kind].fixed[flag.name] = values[0]
            else:
                found[kind].sweep[flag.name] = values
        return Line(raw.options, **found, named=named)

    def flags(self, kind: str, what: Any) -> list[Flag]:
        """The flags of an agent, environment or selector, by name or as a value, without the command's own options."""
        from shoal.core.registry import AGENTS, ENVS, SELECTORS

        prefix = "" if kind == "agent" else f"{kind}."
        if isinstance(what, str):
            entry = {"agent": AGENTS, "env": ENVS, "selector": SELECTORS}[kind][what]
            found = flags_of(entry.cls, entry.preset, prefix)
        else:
            found = flags_of_value(what, prefix)
        return [f for f in found if f.option not in self._option_string_actions and f.name not in self.without]

    def help_for(self, raw: RawLine) -> str:
        """The help text, including the fields of the named agent and environment, with the values of their preset."""
        named = self.named(raw.options) if self.named else {}
        preset = _preset(named, raw.options)
        for kind, what in named.items():
            if what != "":
                name = what if isinstance(what, str) else _in_words(what)
                titles = {"agent": f"hyperparameters of {name}", "env": f"the environment {name}"}
                title = titles.get(kind, f"the selector {name}")
                if preset and kind == "agent":
                    title += f", with {preset.title} ({_options_in_words(preset.options)})"
                values = {} if preset is None else {"agent": preset.fields, "env": preset.env_fields}.get(kind, {})
                add_flags(self, title, [_with_preset(flag, values) for flag in self.flags(kind, what)])
        return self.format_help()

    def _take(self, word: str, left: list[str], own: dict[str, list[str]], others: dict[str, str | None]) -> str:
        """Store the flag `word` in `own` or `others`, with its value, which may be the first of the words `left`.

        Return `--flag value`, or an empty text for a flag that takes no value.
        """
        option, equals, text = word.partition("=")
        option = option.replace("_", "-")
        action = self._option_string_actions.get(option)
        if (option in own or option in others) and not isinstance(action, argparse._AppendAction):
            raise ValueError(f"{option} is given twice: write it once.")
        if action is not None and action.nargs == 0:
            if equals:
                raise ValueError(f"{option} takes no value.")
            own[option] = [""]
            return ""
        has_value = bool(equals) or (bool(left) and not left[0].startswith("--") and left[0] not in HELP)
        value = text if equals else left.pop(0) if has_value else None
        if action is None:
            others[option] = value
        elif value is None and action.nargs != "?":
            raise ValueError(hints.bad_value(option, action, "a value is missing"))
        elif value is None:
            own.setdefault(option, []).append("")
        else:
            own.setdefault(option, []).append(f"={value}")
        return f"{option} {value or ''}"

    def _read(
        self, own: Mapping[str, list[str]], positional: list[str], before: list[str] | None = None
    ) -> argparse.Namespace:
        words = [option + value for option, values in own.items() for value in values]
        arguments, left = self.parse_known_args([*positional, *words])
        if left:
            flag = before[-len(left)] if before else ""
            raise hints.unexpected(left[0], flag, self.prog, str(self.usage))
        return arguments

    def _read_or_default(self, own: Mapping[str, list[str]], positional: list[str]) -> argparse.Namespace:
        """The options for a help text: the defaults if those on the line cannot be parsed."""
        try:
            return self._read(own, positional)
        except ValueError:
            return argparse.Namespace(**{action.dest: action.default for action in self._actions})

    def _unknown(
        self, option: str, kind: str, raw: RawLine, named: Named, flags: Mapping[str, list[Flag]]
    ) -> ValueError:
        if kind == "selector" and not named.get(kind):
            return ValueError(
                f"{option} is for a selector: name one first, as in --selector pbt (`shoal selectors` lists them)."
            )
        if named.get(kind) == "" and option.lstrip("-") not in OTHER_FLAGS:
            what = "an environment" if kind == "env" else "an agent"
            return ValueError(f"{option} is not an option of {self.prog}; name {what} first if it is a field of one.")
        known = {own: None for own in self._option_string_actions if own.startswith("--")}
        known |= {flag.option: flag.default for found in flags.values() for flag in found}
        where = f"{self.prog} {' '.join(raw.names)}".strip()
        agent = named.get("agent", "")
        agent = agent if isinstance(agent, str) else type(agent).__name__
        return hints.unknown_flag(option, known, self.prog, where, agent)


def _name_of(action: argparse.Action) -> str:
    """The name of an option or a positional argument in messages of argparse."""
    return "/".join(action.option_strings) or str(action.metavar or action.dest)


def _preset(named: Named, options: argparse.Namespace) -> Any:
    """The preset that `train` would use for the named agent and environment; None if there is none."""
    from shoal.training.preset_file import is_file, preset_for

    given = getattr(options, "preset", "none") or ""
    agent, env = named.get("agent"), named.get("env")
    if (
        given == "none"
        or not (agent and env)
        or not (is_file(given) or isinstance(agent, str) and isinstance(env, str))
    ):
        return None
    chosen = preset_for(given, agent, env, trust_source=getattr(options, "trust_source", False))
    return chosen if chosen.title else None


def _options_in_words(options: Mapping[str, Any]) -> str:
    """The options of a preset: `500,000 steps, seeds 4`."""
    words = [f"{value:,} {name}" if name == "steps" else f"{name} {value}" for name, value in options.items()]
    return ", ".join(words) or "no options of the run"


def _with_preset(flag: Flag, values: Mapping[str, Any]) -> Flag:
    """A flag whose help gives the value of a preset, where `values` has one, before the default."""
    if flag.name not in values or _word(values[flag.name]) == _word(flag.default):
        return flag
    return flag._replace(help=flag.help.replace("default ", f"preset {_word(values[flag.name])}; default "))


def _in_words(value: Any) -> str:
    from shoal.specs.describe import describe, in_words

    return in_words(describe(value))


# Fields as flags: which flags a value has, and how texts become values.


def flags_of(cls: type, preset: Mapping[str, Any], prefix: str = "") -> list[Flag]:
    """The flags of a class; `preset` holds other defaults of its registered name. Fields set by `bind` have none."""
    from shoal.core.struct import static_fields

    shaping = static_fields(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # others are computed from these
    defaults = {name: preset.get(name, field.default) for name, field in fields.items()}
    flags = (_flag(prefix, name, field, defaults[name], name in shaping) for name, field in fields.items())
    return [flag for flag in flags if flag is not None]


def flags_of_value(value: Any, prefix: str = "") -> list[Flag]:
    """The flags of a value. Its current fields are the defaults; fields of values inside it have paths (`env.n`)."""
    from shoal.core.kinds import python_number
    from shoal.core.schedules import Scheduled
    from shoal.specs.settings import hyperparameters_of

    def default(content: Any) -> Any:
        return content.field.default if isinstance(content.value, Scheduled) else python_number(content.value)

    found = hyperparameters_of(value).items()
    flags = (_flag(prefix, path, content.field, default(content), content.static) for path, content in found)
    return [flag for flag in flags if flag is not None]


def add_flags(parser: argparse.ArgumentParser, title: str, flags: list[Flag]) -> None:
    """Add flags to the help text of a parser, as a separate group."""
    group = parser.add_argument_group(title)
    for flag in flags:
        group.add_argument(flag.option, metavar=_metavar(flag), help=flag.help)


def read_values(flag: Flag, text: str | None) -> list:
    """The values in a text: one, or several separated by commas. Raises ValueError for a wrong value."""
    if text is not None and BRACKETS.fullmatch(text) and not flag.file:
        text = text[1:-1]  # [1e-3,1e-4] and (64, 64) are written as in Python
    if text is not None and (isinstance(flag.default, tuple) or flag.file):
        return [_read(flag, text)]
    if text and flag.ranges:
        return [read_search(COMMAS_OUTSIDE.split(text), flag.option)]
    parts = [part.strip() for part in COMMAS_OUTSIDE.split(text or "")]
    if not all(parts) and isinstance(flag.default, bool):
        raise ValueError(f"{flag.option} needs a value: {flag.option} true or {flag.option} false.")
    if not all(parts):
        usual = _word(flag.default)
        raise ValueError(f"{flag.option} needs a value, or several separated by commas. The default is {usual}.")
    return [_read(flag, part) for part in parts]


def _flag(prefix: str, path: str, field: dataclasses.Field, default: Any, is_static: bool) -> Flag | None:
    """A field as a flag; None for a field whose values cannot be written as text."""
    from shoal.core.struct import info_of

    info = info_of(field)
    names, file = info.names, info.file
    if isinstance(default, str) and not (is_static or names or file):
        return None  # the environment inside a wrapper, by name
    if default is dataclasses.MISSING or (is_static and default is None and not info.function):
        return None  # a network, a space
    if not (file or isinstance(default, (str, bool, int, float, tuple, type(None)))):
        return None  # an array, a function
    if names and not isinstance(default, str):
        default = names[default]  # type: ignore[index,call-overload]  # an index
    option = f"--{prefix}{path.replace('_', '-')}"
    may_be_none = default is None or type(None) in get_args(field.type)
    about = _help(info, default)
    return Flag(option, path, default, is_static, about, names, file, info.ranges, may_be_none, info.function)


def _read(flag: Flag, text: str) -> Any:
    from shoal.core.schedules import is_written

    default = flag.default
    if flag.function:
        return None if text == "none" else _functions(text)
    if is_written(text) and not flag.file and not isinstance(default, (str, tuple)):
        if flag.static:
            raise ValueError(f"{flag.option} {short(text)}: it shapes the program, so it cannot change in a run.")
        return text  # a schedule; the field says whether it can have one
    try:
        if flag.file:
            return text
        if isinstance(default, bool):
            return _boolean(text)
        if isinstance(default, tuple) and any(isinstance(part, str) for part in default):
            return tuple(part.strip() for part in text.split(","))
        if isinstance(default, tuple):
            read = (lambda part: float(parse_number(part))) if _holds_reals(default) else int
            return tuple(_in_range(flag, read(part)) for part in text.replace("x", ",").split(",") if part.strip())
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
        raise ValueError(f"{flag.option} {short(text)} is too large: fields have 32 bits.") from None
    except ValueError:
        word = _word(default)
        raise ValueError(f"{flag.option} {short(text)} is not {_kind(flag)}. The default is {word}.") from None


def _functions(text: str) -> Any:
    """The names and functions in a text such as `own+my_file.py:bonus`: one, or a tuple of several."""
    from shoal.specs.describe import function_of

    found = [function_of(full_path(part)) if ":" in part else part for part in text.split("+")]
    return tuple(found) if len(found) > 1 else found[0]


def _holds_reals(default: tuple) -> bool:
    return any(isinstance(part, float) for part in default)


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
        kind = "numbers" if _holds_reals(flag.default) else "whole numbers"
        return f"a list of {kind}, as in {_word(flag.default or (64, 64))}"
    if flag.names:
        return f"one of {', '.join(flag.names)}"
    return "a whole number" if flag.static and not isinstance(flag.default, float) else "a number"


def _metavar(flag: Flag) -> str:
    if flag.ranges:
        return "PATH[=RANGE],..."
    if isinstance(flag.default, tuple) or flag.file:
        return "FILE" if flag.file else "N,N"
    if flag.function:
        return "NAME+FILE.py:FUNCTION"
    kind = "BOOL" if isinstance(flag.default, bool) else "WORD" if isinstance(flag.default, str) else "X"
    return kind if flag.option.startswith("--selector.") else f"{kind}[,{kind}]"


def _help(info: Any, default: Any) -> str:
    parts = [info.help]
    if info.valid:
        parts.append(f"from {info.valid.low:g} to {info.valid.high:g}")
    choices = info.choices or info.names
    if choices and not isinstance(default, bool):  # `BOOL` says it
        parts.append("one of " + ", ".join(_word(choice) for choice in choices))
    parts.append(f"default {_word(default)}")
    return "; ".join(part for part in parts if part).replace("%", "%%")


def _word(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# Types for `add_argument`: numbers and paths. They raise argparse.ArgumentTypeError, which argparse reports.


def whole_number(text: str) -> int:
    """The whole number in a text: `500000`, `500_000`, `5e5`, `500k` or `0.5M`."""
    size = SIZES.get(text[-1:].lower(), 1)
    try:
        number = parse_number(text if size == 1 else text[:-1])
        number = round(number * size, 3) if size > 1 and math.isfinite(number) else number
    except OverflowError:
        number = LARGEST_WHOLE
    except ValueError:
        number = math.nan
    if isinstance(number, float) and not number.is_integer():
        if re.fullmatch(r"\d{1,3}(,\d{3})+", text):
            raise argparse.ArgumentTypeError(
                f"{text} has commas, which separate values; write {text.replace(',', '_')}"
            )
        is_list = ", but several separated by commas" if "," in text else ""
        raise argparse.ArgumentTypeError(f"{short(text)} is not a whole number{is_list}")
    if abs(number) >= LARGEST_WHOLE:
        raise argparse.ArgumentTypeError(f"{short(text)} does not fit in 64 bits")
    return int(number)


def real_number(text: str) -> float:
    """The number in a text, as float."""
    try:
        return float(parse_number(text))
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{short(text)} is too large") from None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{short(text)} is not a number") from None


def file_ending_in(*endings: str) -> Callable[[str], str]:
    """A type for the name of a file to write, which must end in one of `endings`: checked before any work is done."""

    def read(text: str) -> str:
        if not text.lower().endswith(endings):
            raise argparse.ArgumentTypeError(f"{short(text)} must end in {hints.listed(endings)}")
        return text

    return read


def full_path(name: str) -> str:
    """`file.py:Class` with the absolute path of the file, so that the run can be opened from any folder."""
    file, colon, attribute = name.rpartition(":")
    return f"{Path(file).resolve()}:{attribute}" if colon and file.endswith(".py") else name


def read_member(text: str, others: str = " or `best`") -> int | str:
    """The number in a text given for `--member`, or `best`. Raises ValueError; `others` names what else is allowed."""
    if text == "best":
        return text
    if re.fullmatch(r"-\d+", text):
        raise ValueError(f"--member {short(text)} must be at least 0: members are numbered from 0.")
    if not text.isdecimal() or len(text) > 10:
        raise ValueError(f"--member {short(text)} is unknown: give a number{others}.")
    return int(text)
