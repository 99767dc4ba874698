"""The pages of environments: an overview (environments.md), and a page for each family (environments-FAMILY.md)."""

import dataclasses
import inspect
import json
import re
from pathlib import Path
from typing import Any

from page_parts import NOTICE, families, page, picture, table, value

from shoal.core.env import Env
from shoal.core.names import ranges
from shoal.core.registry import ENVS, Entry
from shoal.core.struct import info_of, static_fields
from shoal.envs.babyai.level import BabyLevel
from shoal.envs.meta.bandit import Bandit
from shoal.grid.level import Level

NAVIGATION = Path(__file__).parents[1] / "mkdocs.yml"
PICTURES = Path(__file__).parent / "images" / "environments" / "pictures.json"
SHARED = (
    Level,
    BabyLevel,
    Bandit,
)  # base classes with a section of their own, to which the sections of their subclasses link
COVERS = (
    "GoToLocal",
    "CartPole",
    "DeepSea",
    "DoorKey",
    "MetaMaze",
    "SpaceInvaders",
    "Taxi",
)  # pictures of their families
KINDS = (
    "Constants of an environment can be swept or randomized in one program. Each value of a static field needs a "
    "program of its own."
)
EVERY = (
    "`shoal envs` lists the families, `shoal envs FAMILY` the environments of one, and `shoal envs NAME` prints the "
    "manual page of one. The pictures are drawn by each environment's `render`, with a trained policy of the zoo if "
    "there is one, otherwise with random actions (`python docs/pictures.py`)."
)
LABELS = re.compile(r"^(Action|Observation|Reward|Start|End|Noise|Source|Differences?[\w ]*): *", re.M)


def environment_pages() -> dict[str, str]:
    """The overview and the page of each family, by file name."""
    drawn = json.loads(PICTURES.read_text())
    known = {family: _classes(found.names) for family, found in families().items()}
    (probes,) = (_classes(family.names) for family in families(probes=True).values())
    pages = {_file(family): _family_page(family, classes, drawn) for family, classes in known.items()}
    return {"environments.md": _overview(known, probes, drawn)} | pages


def _classes(names: list[str]) -> dict[type, list[Entry]]:
    found: dict[type, list[Entry]] = {}
    for name in names:
        found.setdefault(ENVS[name].cls, []).append(ENVS[name])
    return found


def _overview(known: dict[str, dict[type, list[Entry]]], probes: dict[type, list[Entry]], drawn: Any) -> str:
    total = sum(len(entries) for classes in known.values() for entries in classes.values())
    cards, lines = [], []
    for family, classes in known.items():
        ids = sum(map(len, classes.values()))
        cards.append(
            f"-   ![{_title(family)}](images/environments/{_cover(family, classes, drawn)})\n\n"
            f"    **[{_title(family)}]({_file(family)})** (`{family}`), {ids} ids\n\n    {families()[family].about}"
        )
        links = (f"[{cls.__name__}]({_file(family)}#{cls.__name__.lower()})" for cls in classes)
        lines.append(f"- {_title(family)}: {', '.join(links)}")
    return page(
        [
            "# Environments",
            NOTICE,
            f"shoal has {total} environment ids in {len(known)} families. {KINDS}",
            '<div class="grid cards" markdown>',
            "\n\n".join(cards),
            "</div>",
            EVERY,
            "## Every environment",
            "\n".join(lines),
            "## Probes",
            "Tiny environments with known solutions. Each detects one kind of mistake in an agent.",
            _names(probes),
        ]
    )


def _family_page(family: str, classes: dict[type, list[Entry]], drawn: Any) -> str:
    about = f"{families()[family].about} {KINDS} `shoal envs {family}` lists this family in the terminal."
    parts = [f"# {_title(family)}", NOTICE, about, _names(classes)]
    for cls, entries in classes.items():
        for base in SHARED:
            if issubclass(cls, base) and (section := _section(base, [], None)) not in parts:
                parts.append(section)
        parts.append(_section(cls, entries, drawn.get(f"{family}/{cls.__name__}")))
    return page(parts)


def _section(cls: type, entries: list[Entry], shown: dict[str, str] | None) -> str:
    names = ", ".join(f"`{label}`" for label in ranges(entry.name for entry in entries))
    static, comments = static_fields(cls), _comments(cls)
    rows = []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue  # computed from other fields
        choices = ", ".join(value(choice) for choice in info_of(field).choices or ())
        kind = f"static: {choices}".rstrip(" :") if field.name in static else "constant"
        about = comments.get(field.name) or info_of(field).help.replace("|", "\\|")
        rows.append([f"`{field.name}`", value(field.default), kind, about])
    fields = table(("field", "default", "kind", ""), rows)
    parts = (f"## {cls.__name__}", names, _picture(cls, shown), _prose(cls), fields)
    return "\n\n".join(part for part in parts if part)


def _picture(cls: type, shown: dict[str, str] | None) -> str:
    if shown:
        with_what = f"with the trained policy `{shown['policy']}`" if shown["policy"] else "with random actions"
        return picture(shown["env"], f"environments/{shown['file']}", f"`{shown['env']}` {with_what}.")
    return "It can be rendered." if cls.render is not Env.render else ""


def _cover(family: str, classes: dict[type, list[Entry]], drawn: Any) -> str:
    """The picture of a family: that of a class in COVERS if it has one, otherwise that of its first class."""
    titles = [f"{family}/{cls.__name__}" for cls in sorted(classes, key=lambda cls: cls.__name__ not in COVERS)]
    return next(drawn[title]["file"] for title in titles if title in drawn)


def _title(family: str) -> str:
    """The title of a family's page, as the navigation of the site has it."""
    found = re.search(rf"- (.*): {_file(family)}$", NAVIGATION.read_text(), re.M)
    return found[1] if found else family.replace("_", " ").capitalize()


def _file(family: str) -> str:
    return f"environments-{family.replace('_', '-')}.md"


def _names(classes: dict[type, list[Entry]]) -> str:
    rows = []
    for entries in classes.values():
        known = {entry.name: entry for entry in entries}
        for label, members in ranges(known).items():
            first, last = (known[name].build() for name in (members[0], members[-1]))
            limit = " to ".join(str(steps) for steps in dict.fromkeys(first.limit_range or ("none",)))
            observation = _from_to(_space(first.observation_space), _space(last.observation_space))
            action = _from_to(_space(first.action_space), _space(last.action_space))
            about = known[members[0]].summary.replace("|", "\\|")
            rows.append([f"`{label}`", observation, action, limit, about])
    return table(("name", "observation", "action", "time limit", "description"), rows)


def _from_to(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _prose(cls: type) -> str:
    """The docstring of a class. A label such as "Reward: ..." starts a new paragraph."""
    text = inspect.getdoc(cls) or ""
    for base in SHARED:
        if cls is not base:
            text = text.replace(f"`{base.__name__}`", f"[`{base.__name__}`](#{base.__name__.lower()})")
    return re.sub(r"\n{3,}", "\n\n", LABELS.sub(r"\n**\1:** ", text))


def _comments(cls: type) -> dict[str, str]:
    """The comments beside fields in the source, by field name: their units or meanings."""
    found = {}
    for base in (base for base in reversed(cls.__mro__) if hasattr(base, "__dataclass_fields__")):
        fields = re.findall(r"^    (\w+): [^#\n]*= [^#\n]*#(?! type| noqa) (.*)$", inspect.getsource(base), flags=re.M)
        found |= {name: comment.replace("|", "\\|") for name, comment in fields}
    return found


def _space(space: Any) -> str:
    kind, shape = type(space).__name__, getattr(space, "shape", None)
    if kind == "Dict":
        return f"{kind}: {', '.join(part for part, _ in space.spaces)}"
    if kind == "Tuple":
        return f"{kind}: {', '.join(_space(part) for part in space.spaces)}"
    if kind == "MultiDiscrete" and space.is_uniform:
        return f"{kind} {len(space.nvec)} of {space.nvec[0]}"
    size = getattr(space, "n", None) or getattr(space, "nvec", None) or shape
    words = size if isinstance(size, int) else " x ".join(str(n) for n in size or ())
    return f"{kind} {words}" + (f", {space.dtype}" if kind == "Box" else "")
