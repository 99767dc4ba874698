"""`shoal envs`: list the families of environments, the environments of one, or print the manual page of one."""

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

from shoal.cli.index import Index, index
from shoal.cli.listing import print_manual
from shoal.cli.parser import Line, Parser
from shoal.cli.table import table
from shoal.core.names import ranges

PROBES = "probes"  # a family for tests of agents, which a user need not see
SOURCES = Path(__file__).parents[1] / "interop/sources"  # a module for each other library with environments
ACTIONS = {"discrete": ("Discrete", "MultiDiscrete"), "continuous": ("Box",)}


def envs_parser() -> Parser:
    """The options of `shoal envs`."""
    parser = Parser("envs", envs, "[ENV] [options]")
    about = "a name, a part of names, a family, file.py:Class, or LIBRARY/"
    parser.add_argument("name", nargs="?", default="", metavar="ENV", help=about)
    parser.add_argument("--family", metavar="F", help="only this family")
    parser.add_argument("--actions", choices=tuple(ACTIONS), help="only environments with such actions")
    about = "only environments with such observations: pixels or cells, numbers in one array, or several parts"
    parser.add_argument("--observations", choices=("image", "vector", "parts"), help=about)
    parser.add_argument("--all", action="store_true", help="list every environment instead of families")
    return parser


def envs(line: Line) -> None:
    """List the families of environments; list the environments whose names contain a text, or of one family; or print
    the manual page of one environment with its field flags.

      shoal envs
      shoal envs minatar
      shoal envs --actions continuous
      shoal envs CartPole-v1
      shoal envs brax/
    """
    options, found = line.options, index()
    families: dict[str, list[str]] = {family: [] for family in found.families}
    for name, family in found.envs.items():
        families[family].append(name)
    if options.family is not None and options.family not in families:
        raise ValueError(f"there is no family {options.family!r}. There are: {', '.join(families)}.")
    is_filtered = options.family or options.actions or options.observations or options.all
    if not options.name and not is_filtered:
        _print_families(found, families)
        return
    name = options.name
    library, _, rest = name.partition("/")
    if library in _libraries() and library not in families:
        _manual(name) if rest else _print_library(library)
        return
    if name in found.envs or name in found.aliases or ":" in name:
        _manual(name)
        return
    chosen = families.get(name) or [env for env in found.envs if name.lower() in env.lower()]
    if options.family:
        chosen = [env for env in chosen if env in families[options.family]]
    elif name != PROBES:
        chosen = [env for env in chosen if env not in families.get(PROBES, ())] or chosen
    if not chosen and not is_filtered:
        _manual(name)  # which raises the error for an unknown name
    rows = _rows(found, chosen, options.actions, options.observations)
    if not rows:
        raise ValueError("no environment is like that. `shoal envs --all` lists every one.")
    _print_fitted(("name", "observation", "action", "limit", "description"), rows)


def _print_families(found: Index, families: dict[str, list[str]]) -> None:
    rows = [[family, len(names), found.families[family]] for family, names in families.items() if family != PROBES]
    _print_fitted(("family", "ids", "description"), rows)
    print("\n`shoal envs FAMILY` or `shoal envs TEXT` lists environments, `shoal envs NAME` prints one's manual page.")
    names = ", ".join(f"{library}/" for library in _libraries())
    print(f"Agents also learn in environments of other libraries: `shoal envs LIBRARY/` lists those of {names}.")


def _libraries() -> list[str]:
    """The other libraries of which shoal knows the environments, installed or not."""
    return sorted(path.stem for path in SOURCES.glob("*.py") if path.stem != "__init__")


def _print_library(library: str) -> None:
    for name in importlib.import_module(f"shoal.interop.sources.{library}").names():
        print(f"{library}/{name}")


def _rows(found: Index, names: list[str], actions: str | None, observations: str | None) -> list[list[str]]:
    """A row for each group of environments that have the wanted actions and observations."""
    rows = []
    for label, members in ranges(names).items():
        first, last = (found.env_row(member) for member in (members[0], members[-1]))
        if actions and first.action_kind not in ACTIONS[actions]:
            continue
        if observations and first.observation_kind != observations:
            continue
        spaces = [_from_to(first.observation, last.observation), _from_to(first.action, last.action)]
        rows.append([label, *spaces, first.limit, first.description])
    return rows


def _print_fitted(head: tuple[str, ...], rows: list[list[Any]]) -> None:
    """Print a table; on a terminal, cut its lines to the terminal's width."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for text in table(head, rows).splitlines():
        print(text if width is None or len(text) <= width else f"{text[: width - 1]}…")


def _manual(name: str) -> None:
    from shoal.core.registry import ENVS

    env = ENVS[name].build()
    print_manual(name, ENVS[name], "env.", f"\nobservation: {env.observation_space}\naction: {env.action_space}\n")


def _from_to(first: str, last: str) -> str:
    """`first to last`, or one of them if both are equal."""
    return first if first == last else f"{first} to {last}"
