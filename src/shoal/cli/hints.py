"""Guess the meaning of a command line with a mistake: the second half of its error message.

Nothing here imports JAX at its top. The registries are read only after a near name was looked for among the commands.
"""

import argparse
import difflib
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shoal.core.aliases import OTHER_COMMANDS, OTHER_FLAGS, alias_of
from shoal.core.errors import did_you_mean

OPEN_RUNS = ("shoal eval", "shoal render", "shoal play", "shoal record", "shoal export")
# Positional arguments, as a message names them.
PARTS = {
    "RUN": "a run folder",
    "RUN|ENV": "a run folder or an environment",
    "ENV|RUN": "an environment or a run folder",
    "RUN...": "a run folder",
    "bash|zsh": "the name of a shell",
}


def unknown_command(word: str, rest: list[str], commands: Iterable[str]) -> ValueError:
    """The error for a first word that is no command: what it is instead, or the nearest command."""
    commands = [*commands]
    later = next((later for later in rest if later in commands), None)
    if word.startswith("-") and later:
        return ValueError(
            f"{word} stands before the command: write the command first, as in `shoal {later} ... {word}`."
        )
    if word.lower() == "info" and rest and not rest[0].startswith("-"):
        return ValueError(_unknown(word, f" Did you mean `shoal envs {rest[0]}`?"))
    if word.lower() == "reproduce":
        line = shlex.join(["python", "-m", "reproductions", *rest])
        return ValueError(f"published numbers are measured again by `{line}`, in {_repository()}.")
    if word.lower() in OTHER_COMMANDS:
        return ValueError(_unknown(word, f" Did you mean `shoal {OTHER_COMMANDS[word.lower()]}`?"))
    if word.startswith("-") or difflib.get_close_matches(word.lower(), commands, n=1, cutoff=0.75):
        return ValueError(_unknown(word, did_you_mean(word, [*commands, "--help", "--version"])))
    what = _what_it_is(word, rest)
    return ValueError(f"{word} is {what}" if what else _unknown(word, did_you_mean(word, commands)))


def _repository() -> str:
    """`the repository of shoal`, with its address where the metadata of the installed package has one."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        links = metadata("shoal").get_all("Project-URL", [])
    except PackageNotFoundError:  # on PYTHONPATH, never installed
        links = []
    address = next((link.partition(", ")[2] for link in links if link.startswith("Repository, ")), "")
    return f"the repository of shoal{f', {address}' if address else ''}"


def _unknown(word: str, meant: str) -> str:
    return f"unknown command {word!r}.{meant} `shoal --help` lists all."


def _what_it_is(word: str, rest: list[str]) -> str:
    from shoal.core.registry import AGENTS, ENVS

    if (Path(word) / "spec.json").is_file() or word.startswith("zoo:"):
        return f"a run, not a command: write what to do with it, as in `shoal eval {word}` or `shoal play {word}`."
    if word.endswith(".py"):
        return f"a file, not a command: to train in an environment of it, write `shoal train ppo {word}:MyEnv`."
    if ":" not in word and word.lower() in AGENTS:
        env = rest[0] if rest and not rest[0].startswith("-") else "CartPole-v1"
        return f"an agent, not a command: write `shoal train {word.lower()} {env}`."
    if ":" not in word and word in ENVS:
        return f"an environment, not a command: write `shoal train ppo {word}`, or `shoal envs {word}` for its manual."
    return ""


def unexpected(word: str, before: str, prog: str, usage: str) -> ValueError:
    """The error for a word too many. `before` is the flag in front of it with its value, where there is one."""
    start = f"unexpected argument {word!r}"
    option, _, value = before.partition(" ")
    if re.match(r"[A-Za-z_][\w.-]*=", word):
        return ValueError(f"{start}. Did you mean --{word}?")
    if option and value in ("", "="):
        return ValueError(f"{start}. Write {option}={word}, without spaces around the equals sign.")
    if option:
        several = f"{value.strip(',')},{word.strip(',')}"
        return ValueError(f"{start} after {before}. Several values have commas and no spaces: {option} {several}.")
    return ValueError(f"{start}: the command is `{usage}`. `{prog} --help` lists all options.")


def unknown_flag(option: str, known: Mapping[str, Any], prog: str, where: str, agent: str) -> ValueError:
    """The error for a flag that nothing on the line has. `known` has the flags of the line, with their defaults."""
    plain = option.lstrip("-").lower()
    end = f" `{where} --help` lists every flag."
    start = f"unknown flag {option}"
    if plain in OTHER_FLAGS:
        return ValueError(f"{start}: {OTHER_FLAGS[plain]}.")
    if plain.startswith("no-") and isinstance(known.get(f"--{plain[3:]}"), bool):
        return ValueError(f"{start}. Did you mean --{plain[3:]} false?{end}")
    if plain in ("episodes", "num-episodes", "max-episodes") and agent:
        return ValueError(f"{start}: the length of training is a number of environment steps, --steps N.")
    if alias_of(option, known):
        return ValueError(f"{start}.{did_you_mean(option, known)}{end}")
    if others := [] if plain.startswith("env.") else _agents_with(plain.replace("-", "_")):
        if not agent and prog in OPEN_RUNS:
            return ValueError(f"{start}: it is a hyperparameter of training, which cannot change afterwards.{end}")
        if agent:
            some = ", ".join(others[:4]) + " and others" * (len(others) > 4)
            return ValueError(f"{start}: {agent} has no such hyperparameter. These agents have: {some}.{end}")
    return ValueError(f"{start}.{did_you_mean(option, known)}{end}")


def _agents_with(field: str) -> list[str]:
    """The names of the agents that have a field of this name."""
    import dataclasses

    from shoal.core.registry import AGENTS

    return [name for name, entry in AGENTS.items() if field in (own.name for own in dataclasses.fields(entry.cls))]


def missing(parts: str, command: str, example: str) -> str:
    """The message for positional arguments that are missing; `example` is a full line of the command."""
    return f"{command} needs {PARTS.get(parts, parts)}, as in `{example}`."


def bad_value(option: str, action: argparse.Action, what: str) -> str:
    """The message for a value of one of the command's own options that cannot be read, with what the option means."""
    about = (action.help or "").replace("%%", "%")
    return f"{option}: {what}. `{option} {action.metavar}`: {about}."


def listed(words: Iterable[str]) -> str:
    """The words as `a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
