"""`shoal race`: train seeds in batches until it is decided which of several agents or settings is better."""

import argparse
import shlex
from typing import Any

from shoal.cli.options import add_options, given
from shoal.cli.parser import Flag, Line, Named, Parser, flags_of, full_path, read_values, whole_number
from shoal.cli.tracking import add_tracking, tracking_in
from shoal.specs.options import OF_RACE, RACE

OF_RUN = ("steps", "seed", "first_seed", "records", "evaluations", "eval_episodes", "eval_max_steps", "prng")
HOW = ("name", "root", "devices", "memory_limit_gb", "trust_source")
COUNTS = ("seeds", "steps")  # of a contestant, as whole numbers
TEXTS = ("preset", "init", "found")


def race_parser() -> Parser:
    """The options of the command; the fields of the environment are flags too."""
    parser = Parser("race", race, "CONTESTANT CONTESTANT... --env ENV [options]", named=_named, opens_run=True)
    about = 'an agent, or in quotes an agent with settings ("ppo learning_rate=1e-3"), or a preset file'
    parser.add_argument("contestants", nargs="*", metavar="CONTESTANT", help=about)
    about = "the environment: a name, or file.py:Class; preset files may name it instead"
    parser.add_argument("--env", default="", metavar="ENV", type=full_path, help=about)
    add_options(parser.add_argument_group(RACE), RACE)
    run = parser.add_argument_group("the runs")
    words = {**dict.fromkeys(OF_RUN, ""), "steps": "environment steps of each seed (default that of the presets)"}
    add_options(run, **words, name="name of the folder (default race-ENV)", root="")
    add_options(run, resume="go on with the race in this folder", progress="", check="", devices="", memory_limit_gb="")
    add_tracking(parser)
    return parser


def race(line: Line) -> None:
    """Train the seeds of several contestants in batches, and stop when it is decided which of them is better. The test
    holds the error of the whole race, although it looks after every batch. Contestants that are decided about are not
    trained further.

      shoal race ppo dqn --env CartPole-v1
      shoal race ppo "ppo learning_rate=1e-3" "ppo learning_rate=1e-3 num_envs=16" --env CartPole-v1 --steps 100_000
      shoal race best.toml ppo --env CartPole-v1 --margin 10                    a preset file; is it worth 10 points?
      shoal race ppo "ppo selector=pbt seeds=16" --env CartPole-v1              a population for each seed
      shoal race ppo dqn --env CartPole-v1 --fitness reach:475                  which needs fewer steps to 475?
      shoal race --resume runs/race-CartPole-v1
    """
    from shoal.studies.race import race as run

    options = line.options
    how = {**given(options, *HOW), "cache": not options.no_cache, "progress": options.progress is None}
    how |= {"track": tracking_in(options)}
    if options.resume:
        _check_alone(options)
        found = run(resume=options.resume, **how)
    else:
        if line.env.sweep:
            raise ValueError(f"a race is on one environment: give {next(iter(line.env.sweep))} one value.")
        contestants = [_contestant(text) for text in options.contestants]
        of_env = {"env_fields": line.env.fixed} if line.env.fixed else {}
        race_on = {**of_env, "env": options.env or None, "check": options.check is None}
        found = run(*contestants, **race_on, **given(options, *OF_RUN, *OF_RACE), **how)
    for pair in found.pairs:
        print(pair.sentence)
    print(found.folder)


def _named(options: argparse.Namespace) -> Named:
    """The environment, whose fields are flags."""
    return {"env": options.env} if options.env and not options.resume else {}


def _check_alone(options: argparse.Namespace) -> None:
    """Raise ValueError for options beside `--resume` that a race has already."""
    names = ("contestants", "env", "name", "root", *OF_RUN, *OF_RACE)
    if wrong := [name for name in names if getattr(options, name)]:
        name = wrong[0] if wrong[0] == "contestants" else f"--{wrong[0].replace('_', '-')}"
        raise ValueError(f"--resume goes on with {options.resume} as it is: leave {name} out.")


def _contestant(text: str) -> Any:
    """Return a contestant as `shoal.race` takes it. Raises ValueError for settings that cannot be read."""
    from shoal.studies.contestants import in_errors

    try:
        head, *words = shlex.split(text)
    except ValueError:
        raise ValueError(f"the contestant {text!r} is not complete: write AGENT, or 'AGENT NAME=VALUE ...'.") from None
    head = full_path(head)
    if not words:
        return head
    with in_errors(text):
        return {**_parts(head, words), "name": text}


def _parts(head: str, words: list[str]) -> dict[str, Any]:
    """Return what a contestant consists of: an agent or a preset file, and settings."""
    from shoal.training.preset_file import is_file

    parts: dict[str, Any] = {"preset": head} if is_file(head) else {"agent": head}
    fields, of_selector = {}, {}
    for word in words:
        name, equals, value = word.partition("=")
        name = name.lstrip("-").replace("-", "_")
        if not (equals and value):
            raise ValueError(f"{word} is no setting. Write NAME=VALUE, as in 'ppo learning_rate=1e-3'.")
        if name in COUNTS:
            parts[name] = _count(name, value)
        elif name in (*TEXTS, "selector"):
            parts[name] = value
        elif name.startswith("selector."):
            of_selector[name] = value
        else:
            fields[name] = value
    if of_selector or "selector" in parts:
        parts["selector"] = _selector(parts.get("selector", ""), of_selector)
    read = _read(_agent_flags(parts), fields)
    return {**parts, **({"fields": read} if read else {})}


def _agent_flags(parts: dict[str, Any]) -> list[Flag]:
    from shoal.core.registry import AGENTS
    from shoal.training.preset_file import preset_for

    agent = parts.get("agent") or preset_for(parts["preset"], None, None).agent
    entry = AGENTS[str(agent)]  # a preset file names it
    return flags_of(entry.cls, entry.preset)


def _selector(name: str, fields: dict[str, str]) -> Any:
    """Return the selector of a contestant."""
    from shoal.core.registry import SELECTORS

    if not name:
        raise ValueError(f"{next(iter(fields))} is for a selector: name one, as in selector=pbt.")
    entry = SELECTORS[full_path(name)]
    return entry.build(**_read(flags_of(entry.cls, entry.preset, "selector."), fields, "selector."))


def _read(flags: list[Flag], words: dict[str, str], prefix: str = "") -> dict[str, Any]:
    """Return the values of fields, by name, from their texts."""
    from shoal.core.errors import did_you_mean

    known = {f"{prefix}{flag.name}": flag for flag in flags}
    found = {}
    for name, word in words.items():
        if name not in known:
            raise ValueError(f"{name} is no field of it.{did_you_mean(name, known)}")
        values = read_values(known[name], word)
        if len(values) > 1:
            raise ValueError(f"{name} has several values. Name a contestant for each.")
        found[known[name].name] = values[0]
    return found


def _count(name: str, value: str) -> int:
    try:
        return whole_number(value)
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"{name}: {error}.") from None
