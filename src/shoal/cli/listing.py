"""`shoal envs`, `shoal agents` and `shoal zoo`: list what is available, or print the manual page of one."""

import argparse
import inspect
from typing import Any

from shoal.cli.parser import Line, Parser, add_flags, flags_of


def envs_parser() -> Parser:
    """The options of `shoal envs`."""
    return _parser("envs", "ENV", "a name, a part of names, or file.py:Class")


def envs(line: Line) -> None:
    """List all environments or those whose names contain a text, or print one's manual page with its field flags."""
    from shoal.cli.table import table
    from shoal.core.registry import ENVS, ranges

    name = line.options.name
    listed = [each for each in ENVS if name.lower() in each.lower()]
    if name in ENVS or ":" in name or not listed:
        _manual(name, ENVS[name], "env.", _spaces(ENVS[name].build()))
        return
    rows = []
    for label, members in ranges(listed).items():
        both = [ENVS[each].build() for each in (members[0], members[-1])]
        observations = [_short(env.observation_space) for env in both]
        actions = [_short(env.action_space) for env in both]
        limit = str(both[0].max_steps or "-")
        rows.append([label, _from_to(*observations), _from_to(*actions), limit, _first_line(ENVS[members[0]].cls)])
    print(table(("name", "observation", "action", "limit", "description"), rows))


def agents_parser() -> Parser:
    """The options of `shoal agents`."""
    return _parser("agents", "AGENT", "a name, or file.py:Class")


def agents(line: Line) -> None:
    """List all agents, or print one's manual page with its field flags and presets."""
    from shoal.agents.presets import presets
    from shoal.cli.table import table
    from shoal.core.registry import AGENTS

    name = line.options.name
    if not name:
        rows = [[entry.name, len(presets(entry.name)), _first_line(entry.cls)] for entry in AGENTS.values()]
        print(table(("name", "presets", "description"), rows))
        return
    _manual(name, AGENTS[name], "", "")
    known = presets(name)
    if known:
        print("\npresets")
        print(table(("name", "steps", "evidence"), [[p.name, p.steps, p.evidence] for p in known.values()]))


def zoo_parser() -> Parser:
    """The options of `shoal zoo`: none."""
    return Parser(
        "zoo",
        "",
        "List the trained policies that come with shoal. Their names can be given wherever a run folder can: "
        "`shoal play zoo:ppo/CartPole-v1`, `shoal eval`, `shoal render`, `shoal.load`.",
    )


def zoo(line: Line) -> None:
    """List the trained policies that come with shoal, with their mean returns."""
    from shoal.cli.table import table
    from shoal.training.folder import ZOO_PREFIX, RunFolder
    from shoal.training.folder import zoo as names

    rows = []
    for name in names():
        summary = RunFolder(f"{ZOO_PREFIX}{name}").read_json("summary.json")
        checked = summary["checked"]
        rows.append([f"{ZOO_PREFIX}{name}", summary["steps_per_member"], checked["mean"], checked["episodes"]])
    print(table(("policy", "trained for", "mean return", "of episodes"), rows))


def _parser(command: str, what: str, meaning: str) -> Parser:
    parser = Parser(command, f"[{what}]", f"List {command}, or print the manual page of one.")
    parser.add_argument("name", nargs="?", default="", metavar=what, help=meaning)
    return parser


def _manual(name: str, entry: Any, prefix: str, extra: str) -> None:
    print(f"{name}\n\n{inspect.getdoc(entry.cls)}\n{extra}")
    parser = argparse.ArgumentParser(prog="shoal train", usage=argparse.SUPPRESS, add_help=False)
    add_flags(parser, "flags", flags_of(entry.cls, entry.preset, prefix))
    print(parser.format_help().strip())


def _spaces(env: Any) -> str:
    return f"\nobservation: {env.observation_space}\naction: {env.action_space}\n"


def _short(space: Any) -> str:
    kind, shape = type(space).__name__, getattr(space, "shape", None)
    size = getattr(space, "n", None) or getattr(space, "nvec", None) or shape
    if kind == "Dict":
        size = ", ".join(part for part, _ in space.spaces)
    if kind == "MultiDiscrete" and space.is_uniform:
        size = f"{len(space.nvec)} of {space.nvec[0]}"
    if kind == "Tuple":
        size = ", ".join(_short(part) for part in space.spaces)
    return f"{kind} {size or ''} {space.dtype if kind == 'Box' else ''}".strip()


def _from_to(first: str, last: str) -> str:
    """`first to last`, or one of them if both are equal."""
    return first if first == last else f"{first} to {last}"


def _first_line(cls: type) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]
