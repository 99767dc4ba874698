"""Declared options as flags: `eval_max_steps` is `--eval-max-steps`, and `figures`, which is on, is `--no-figures`."""

import argparse
from typing import Any

from shoal.cli.parser import full_path, real_number, whole_number
from shoal.specs.options import OF_COMMAND, OF_RACE, OF_STUDY, OPTIONS

DECLARED = {**OPTIONS, **OF_STUDY, **OF_RACE, **OF_COMMAND}
READERS: dict[Any, Any] = {int: whole_number, str: str, float: real_number, float | None: real_number}  # by type


def add_options(to: Any, of: str = "", **words: str) -> None:
    """Add the flags of a group of options, or those named in `words`, which are then their help texts if not empty.

    A flag that is not given has the value None.
    """
    for name, field in DECLARED.items():
        about = field.metadata
        if not (name in words or about["group"] == of != ""):
            continue
        option = f"--{'no-' if field.default is True else ''}{name.replace('_', '-')}"
        default = f" ({about['when_default']})" if about["when_default"] else ""
        text = words.get(name) or f"{about['help']}{default}"
        if field.type is bool:
            to.add_argument(option, dest=name, action="store_const", const=not field.default, help=text)
        else:
            to.add_argument(option, type=READERS[field.type], metavar=about["metavar"], help=text)


def add_agent(parser: argparse.ArgumentParser, about: str = "a name, or file.py:Class") -> None:
    """Add the agent, the first word of a command; `about` is its help."""
    parser.add_argument("agent", nargs="?", default="", metavar="AGENT", type=full_path, help=about)


def add_env(parser: argparse.ArgumentParser, about: str = "a name, or file.py:Class") -> None:
    """Add the environment, the second word of a command; `about` is its help."""
    parser.add_argument("env", nargs="?", default="", metavar="ENV", type=full_path, help=about)


def given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the options of these names that are on the line, as keywords of Python."""
    values = {name: getattr(options, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}
