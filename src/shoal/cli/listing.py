"""`shoal envs`, `shoal agents` and `shoal zoo`: what there is, and the manual page of one."""

import argparse
import inspect
from typing import Any

from shoal.cli.parser import Parser


def envs(words: list[str]) -> None:
    """All environments, those whose names contain a word, or one's manual page with its constants as flags."""
    from shoal.cli.table import table
    from shoal.core.registry import ENVS, ranges

    name = _one_name("envs", "ENV", words, "a name, a part of several, or file.py:Class")
    listed = [each for each in ENVS if name.lower() in each.lower()]
    if name in ENVS or ":" in name or not listed:
        _manual(name, ENVS[name], "env.", _spaces(ENVS[name].build()))
        return
    rows = []
    for label, members in ranges(listed).items():
        worlds = [ENVS[each].build() for each in (members[0], members[-1])]
        seen, done = ([_short(getattr(w, f"{which}_space")) for w in worlds] for which in ("observation", "action"))
        limit = str(worlds[0].max_steps or "-")
        rows.append([label, _from_to(*seen), _from_to(*done), limit, _first_line(ENVS[members[0]].cls)])
    print(table(("name", "observation", "action", "limit", "what it is"), rows))


def agents(words: list[str]) -> None:
    """All agents, or one's hyperparameters and presets."""
    from shoal.agents.presets import presets
    from shoal.cli.table import table
    from shoal.core.registry import AGENTS

    name = _one_name("agents", "AGENT", words, "a name, or file.py:Class")
    if not name:
        rows = [[entry.name, len(presets(entry.name)), _first_line(entry.cls)] for entry in AGENTS.values()]
        print(table(("name", "presets", "what it is"), rows))
        return
    _manual(name, AGENTS[name], "", "")
    known = presets(name)
    if known:
        print("\npresets")
        print(table(("name", "steps", "evidence"), [[p.name, p.steps, p.evidence] for p in known.values()]))


def zoo(words: list[str]) -> None:
    """The trained policies that come with shoal."""
    from shoal.cli.table import table
    from shoal.training.folder import ZOO_PREFIX, RunFolder
    from shoal.training.folder import zoo as names

    Parser(
        prog="shoal zoo",
        description="List the trained policies that come with shoal. Their names go where a run folder may go: "
        "`shoal play zoo:ppo/CartPole-v1`, `shoal eval`, `shoal render`, `shoal.load`.",
        allow_abbrev=False,
    ).parse_all(words)
    rows = []
    for name in names():
        summary = RunFolder(f"{ZOO_PREFIX}{name}").read_json("summary.json")
        checked = summary["checked"]
        rows.append([f"{ZOO_PREFIX}{name}", summary["steps_per_member"], checked["mean"], checked["episodes"]])
    print(table(("policy", "trained for", "mean return", "of episodes"), rows))


def _one_name(command: str, what: str, words: list[str], meaning: str) -> str:
    parser = Parser(prog=f"shoal {command}", description=f"List {command}, or say all about one.", allow_abbrev=False)
    parser.add_argument("name", nargs="?", default="", metavar=what, help=meaning)
    return parser.parse_all(words).name


def _manual(name: str, entry: Any, prefix: str, extra: str) -> None:
    from shoal.cli.fields import add_flags, flags_of

    print(f"{name}\n\n{inspect.getdoc(entry.cls)}\n{extra}")
    parser = argparse.ArgumentParser(prog="shoal train", usage=argparse.SUPPRESS, add_help=False)
    add_flags(parser, "flags", flags_of(entry.cls, entry.preset, prefix))
    print(parser.format_help().strip())


def _spaces(world: Any) -> str:
    return f"\nobservation: {world.observation_space}\naction: {world.action_space}\n"


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
    """What the first and the last of several have; once where it is the same."""
    return first if first == last else f"{first} to {last}"


def _first_line(cls: type) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]
