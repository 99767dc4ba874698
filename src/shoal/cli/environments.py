"""`shoal envs`: list the families of environments, the environments of one, or print the manual page of one."""

import importlib.util
import inspect
import shutil
import sys
from typing import Any

from shoal.cli.listing import print_manual
from shoal.cli.parser import Line, Parser

PROBES = "probes"  # a family for tests of agents, which a user need not see
ACTIONS = {"discrete": ("Discrete", "MultiDiscrete"), "continuous": ("Box",)}


def envs_parser() -> Parser:
    """The options of `shoal envs`."""
    parser = Parser(
        "envs",
        "[ENV] [options]",
        "List the families of environments; list the environments whose names contain a text, or of one family; or "
        "print the manual page of one environment with its field flags.",
        "  shoal envs\n  shoal envs minatar\n  shoal envs --actions continuous\n  shoal envs CartPole-v1",
    )
    about = "a name, a part of names, a family, or file.py:Class"
    parser.add_argument("name", nargs="?", default="", metavar="ENV", help=about)
    parser.add_argument("--family", metavar="F", help="only this family")
    parser.add_argument("--actions", choices=tuple(ACTIONS), help="only environments with such actions")
    about = "only environments with such observations: pixels or cells, numbers in one array, or several parts"
    parser.add_argument("--observations", choices=("image", "vector", "parts"), help=about)
    parser.add_argument("--all", action="store_true", help="list every environment instead of families")
    return parser


def envs(line: Line) -> None:
    """List families or environments, or print one environment's manual page."""
    from shoal.core.registry import ENVS

    options = line.options
    known = families()
    if options.family is not None and options.family not in known:
        raise ValueError(f"there is no family {options.family!r}. There are: {', '.join(known)}.")
    is_filtered = options.family or options.actions or options.observations or options.all
    if not options.name and not is_filtered:
        _print_families(known)
        return
    name = options.name
    if name in ENVS or ":" in name:
        _manual(name)
        return
    chosen = known.get(name) or [each for each in ENVS if name.lower() in each.lower()]
    if options.family:
        chosen = [each for each in chosen if each in known[options.family]]
    elif name != PROBES:
        chosen = [each for each in chosen if each not in known.get(PROBES, ())] or chosen
    if not chosen and not is_filtered:
        _manual(name)  # which raises the error for an unknown name
    rows = _rows(chosen, options.actions, options.observations)
    if not rows:
        raise ValueError("no environment is like that. `shoal envs --all` lists every one.")
    _print_fitted(("name", "observation", "action", "limit", "description"), rows)


def families() -> dict[str, list[str]]:
    """The names of the environments of every family: the package that holds them, or another library's name."""
    from shoal.core.registry import ENVS

    found: dict[str, list[str]] = {}
    for name, entry in ENVS.items():
        parts = entry.cls.__module__.split(".")
        found.setdefault(parts[2] if parts[:2] == ["shoal", "envs"] else parts[0], []).append(name)
    return dict(sorted(found.items()))


def summary_of(family: str) -> str:
    """The first line of the docstring of a family's package."""
    package = f"shoal.envs.{family}"
    is_ours = importlib.util.find_spec(package) is not None
    module = importlib.import_module(package if is_ours else family)
    return (inspect.getdoc(module) or "").partition("\n")[0]


def _print_families(known: dict[str, list[str]]) -> None:
    rows = []
    for family, names in known.items():
        if family != PROBES:
            rows.append([family, len(names), summary_of(family)])
    _print_fitted(("family", "ids", "description"), rows)
    print("\n`shoal envs FAMILY` or `shoal envs TEXT` lists environments, `shoal envs NAME` prints one's manual page.")


def _rows(names: list[str], actions: str | None, observations: str | None) -> list[list[str]]:
    """A row for each group of environments that have the wanted actions and observations."""
    from shoal.core.registry import ENVS, ranges

    rows = []
    for label, members in ranges(names).items():
        both = [ENVS[each].build() for each in (members[0], members[-1])]
        space = both[0].action_space
        if actions and type(space).__name__ not in ACTIONS[actions]:
            continue
        if observations and _kind(both[0].observation_space) != observations:
            continue
        spaces = [_from_to(*(_short(getattr(env, s)) for env in both)) for s in ("observation_space", "action_space")]
        rows.append([label, *spaces, str(both[0].max_steps or "-"), ENVS[members[0]].summary])
    return rows


def _kind(space: Any) -> str:
    """`parts` for a Dict or Tuple, `image` for arrays of two axes or more, otherwise `vector`."""
    if type(space).__name__ in ("Dict", "Tuple"):
        return "parts"
    return "image" if len(space.shape) > 1 else "vector"


def _print_fitted(head: tuple[str, ...], rows: list[list[Any]]) -> None:
    """Print a table; on a terminal, cut its lines to the terminal's width."""
    from shoal.cli.table import table

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for text in table(head, rows).splitlines():
        print(text if width is None or len(text) <= width else f"{text[: width - 1]}…")


def _manual(name: str) -> None:
    from shoal.core.registry import ENVS

    env = ENVS[name].build()
    print_manual(name, ENVS[name], "env.", f"\nobservation: {env.observation_space}\naction: {env.action_space}\n")


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
