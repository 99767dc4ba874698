"""`shoal agents`, `shoal selectors` and `shoal zoo`: list what is available, or print the manual page of one."""

import argparse
import inspect
from collections.abc import Callable
from typing import Any

from shoal.cli.index import index
from shoal.cli.parser import Line, Parser, add_flags, flags_of


def agents_parser() -> Parser:
    """The options of `shoal agents`."""
    return _parser("agents", agents, "AGENT")


def agents(line: Line) -> None:
    """List all agents, or print one's manual page with its field flags and presets."""
    from shoal.cli.table import table

    name = line.options.name
    if not name:
        rows = [[name, row.presets, row.description] for name, row in index().agents.items()]
        print(table(("name", "presets", "description"), rows))
        return
    from shoal.agents.presets import presets
    from shoal.core.registry import AGENTS

    print_manual(name, AGENTS[name], "", "")
    known = presets(name)
    if known:
        print("\npresets")
        print(table(("name", "steps", "evidence"), [[p.name, p.steps, p.evidence] for p in known.values()]))


def selectors_parser() -> Parser:
    """The options of `shoal selectors`."""
    return _parser("selectors", selectors, "SELECTOR")


def selectors(line: Line) -> None:
    """List all selectors, or print one's manual page with its field flags."""
    from shoal.cli.table import table
    from shoal.core.registry import SELECTORS

    name = line.options.name
    if not name:
        print(table(("name", "description"), [[name, entry.summary] for name, entry in SELECTORS.items()]))
        return
    print_manual(name, SELECTORS[name], "selector.", "")


def zoo_parser() -> Parser:
    """The options of `shoal zoo`."""
    parser = Parser("zoo", zoo)
    parser.add_argument("--index", metavar="FOLDER", help="make a hub of the exported policies below a folder")
    return parser


def zoo(line: Line) -> None:
    """List the trained policies that come with shoal, and those of your hub. Their names can be given wherever a run
    folder can: `shoal play zoo:ppo/CartPole-v1`, `shoal eval`, `shoal render`, `shoal.load`.

      shoal zoo --index policies              write policies/index.json, which makes the folder a hub
      SHOAL_HUB=policies shoal eval hub:walker       or SHOAL_HUB=https://..., the address of such a folder
    """
    from shoal.cli.table import table
    from shoal.specs.spec import HUB_PREFIX, ZOO_PREFIX
    from shoal.training.folder import RunFolder
    from shoal.training.folder import zoo as names
    from shoal.training.hub import hub_policies, write_index

    if line.options.index:
        print(write_index(line.options.index))
        return
    rows = []
    for name in names():
        summary = RunFolder(f"{ZOO_PREFIX}{name}").read_json("summary.json")
        checked = summary["checked"]
        rows.append([f"{ZOO_PREFIX}{name}", summary["steps_per_member"], checked["mean"], checked["episodes"]])
    print(table(("policy", "trained for", "mean return", "of episodes"), rows))
    if found := hub_policies():
        print("\n" + "\n".join(f"{HUB_PREFIX}{name}" for name in found))


def _parser(command: str, about: Callable, what: str) -> Parser:
    parser = Parser(command, about, f"[{what}]")
    parser.add_argument("name", nargs="?", default="", metavar=what, help="a name, or file.py:Class")
    return parser


def print_manual(name: str, entry: Any, prefix: str, extra: str) -> None:
    """Print a class's docstring, some `extra` text, and the flags of its fields."""
    print(f"{name}\n\n{inspect.getdoc(entry.cls)}\n{extra}")
    parser = argparse.ArgumentParser(prog="shoal train", usage=argparse.SUPPRESS, add_help=False)
    add_flags(parser, "flags", flags_of(entry.cls, entry.preset, prefix))
    print(parser.format_help().strip())
