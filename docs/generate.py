"""Write the pages that follow from the code: environments.md, agents.md, measurements.md. Run by `make docs`.

`tests/test_docs.py` fails when a page is stale.
"""

import dataclasses
import inspect
import re
from collections import Counter
from pathlib import Path
from typing import Any

from shoal.agents.presets import presets
from shoal.core.env import Env
from shoal.core.registry import AGENTS, ENVS, Entry, ranges
from shoal.core.struct import hyper_fields, static_fields
from shoal.envs.meta.bandit import Bandit
from shoal.grid.level import Level

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
SHARED = (Level, Bandit)  # bases whose pages those of their worlds refer to
NOTICE = "*Made by `docs/generate.py`: change the code, then run `make docs`.*"
SUITES = {
    "classic": (
        "Environment steps",
        "Random actions, automatic resets; observations folded into a checksum, or written.",
    ),
    "worlds": (
        "Worlds that gymnax has too",
        "Random actions, automatic resets. gymnax takes its turn in four ways, and its best counts; MinAtar's games "
        "have sticky actions here. Seaquest, whose boards hold most, steps at a sixth of Breakout's rate.",
    ),
    "minigrid": (
        "MiniGrid's steps",
        "The partial view in every step, random actions, automatic resets. NAVIX's view has no occlusion and no hand. "
        "GoToDoor's generator became faster after this table: then 6.82 M steps/s, 55 times NAVIX in the median round "
        "and 36 times in NAVIX's best (`results/minigrid-gotodoor.json`). `reset` and `step` of every id compile in "
        "1.8 seconds together at most (`benchmarks/compile_minigrid.py`, `results/minigrid-compile.json`).",
    ),
    "minigrid-every": ("Every MiniGrid id", "Against EnvPool's C++ version of it."),
    "ppo": (
        "PPO on CartPole and Breakout",
        "CartPole: 500,000 steps a seed, training alone, and the whole process from start to end. "
        '`--only "PPO, 128 seeds, operations"` measures how near shoal comes to the cores\' peak.',
    ),
    "evidence": (
        "What agents reach",
        "Every preset but MiniGrid's, which are below, with seeds fixed beforehand: return of the last weights over "
        "100 fresh episodes a member. Rows of fewer seeds or steps were made with `--seeds` and `--steps`.\n\n"
        "On the bandit of five arms and ten pulls the Gittins index gets 6.653 +- 0.014 and chance 4.994. Over 100,000 "
        "episodes RL^2 gets 99.8 % of the index, its worst seed 99.5 %; A2C with a GRU 99.4 %, its worst 97.7 % "
        "(`python benchmarks/bandit_oracle.py --pulls 10 --run RUN`).",
    ),
    "dqn": (
        "DQN on CartPole",
        "Training alone, 32 seeds, as many gradient steps for each environment step on both sides. "
        '`--only "DQN, 32 seeds, operations"` measures how near shoal comes to the cores\' peak.',
    ),
    "tabular": (
        "Tabular Q-learning on GridWorld",
        "Training alone, against the code of the article that GridWorld comes from; 4,096 agents against its 30. The "
        "article's code keeps the table of every step; keeping the last alone, it is twice as fast at 30 agents.",
    ),
    "es": (
        "Evolution strategies",
        "Two searches with the same strategy and networks, observations normalized. Steps are counted at the full "
        "length of every episode on both sides; shoal stops a generation with its last episode. CartPole became faster "
        "after this table.",
    ),
    "peers": ("Called from Python", "Gymnasium's vectorized CartPole, and CleanRL's PPO recipe on torch."),
    "minigrid-learning": (
        "What PPO learns in MiniGrid",
        "`shoal train ppo --suite minigrid-10` trains these ten levels, a seed each, in 5:08 minutes on 2 cores: "
        "compiled, evaluated and drawn, with one table at the end.",
    ),
    "scaling": ("Cost of an agent", "PPO on CartPole, populations of 1 to 512 members."),
}

COMMANDS = {
    "evidence": "python benchmarks/evidence.py --agent AGENT",
    "minigrid-learning": "python benchmarks/evidence.py 'MiniGrid-*'",
    "scaling": ".venv-peers/bin/python benchmarks/scaling.py",
}


def pages() -> dict[str, str]:
    """Every generated page by file name."""
    return {"environments.md": environments(), "agents.md": agents(), "measurements.md": measurements()}


def environments() -> str:
    """A table of all names, then a manual page for each class; probes, which are for testing agents, come last."""
    classes: dict[type, list[Entry]] = {}
    for entry in ENVS.values():
        classes.setdefault(entry.cls, []).append(entry)
    env_states = {cls: entries for cls, entries in classes.items() if not entries[0].name.startswith("Probe-")}
    probes = {cls: entries for cls, entries in classes.items() if cls not in env_states}
    parts = ["# Environments", NOTICE, _names(env_states)]
    taken = Counter(cls.__name__ for cls in env_states)
    for cls, entries in env_states.items():
        for base in SHARED:
            if issubclass(cls, base) and (page := _world(base.__name__, base, [])) not in parts:
                parts.append(page)
        name = cls.__name__ if taken[cls.__name__] == 1 else f"{cls.__name__} ({_family(cls)})"
        parts.append(_world(name, cls, entries))
    parts += ["## Probes", "Tiny worlds with known answers, each of which breaks one kind of mistake in an agent."]
    parts.append(_names(probes))
    return _page(parts)


def agents() -> str:
    """A manual page for each agent: fields that are numbers, fields that shape the program, presets."""
    classes: dict[type, list[Entry]] = {}
    for entry in sorted(AGENTS.values(), key=lambda entry: len(entry.preset)):
        classes.setdefault(entry.cls, []).append(entry)
    parts = ["# Agents", NOTICE]
    for cls, entries in sorted(classes.items(), key=lambda item: item[1][0].name):
        parts += [f"## {entries[0].name}", _prose(cls)]
        parts += ["Numbers: they may be swept, and changing them never recompiles.", _numbers(cls)]
        parts += ["Choices that shape the program: each combination is compiled for itself.", _choices(cls)]
        for entry in entries:
            if entry is not entries[0]:
                parts += [f"### {entry.name}", f"`{entries[0].name}` with {_fields(entry.preset)}."]
            parts += _presets(entry.name)
    return _page(parts)


def _presets(agent: str) -> list[str]:
    known = presets(agent)
    if not known:
        return []
    rows = []
    for p in known.values():
        fields = p.fields | {f"env.{name}": value for name, value in p.env_fields.items()}
        rows.append([f"`{p.name}`", f"{p.steps:,}", _fields(fields), p.evidence])
    return ["Presets:", _table(("name", "steps", "fields", "evidence"), rows)]


def measurements() -> str:
    """The tables that benchmarks/run.py wrote, each under the command that makes it again."""
    parts = [
        "# Measurements",
        NOTICE,
        "`make peers` installs what is compared with. [How it is fast](how-it-is-fast.md).",
    ]
    for suite, (title, what) in SUITES.items():
        command = COMMANDS.get(suite, f".venv-peers/bin/python benchmarks/run.py {suite}")
        parts += [f"## {title}", what, f"```sh\n{command}\n```"]
        table = RESULTS / f"{suite}.md"
        parts.append(table.read_text().strip() if table.is_file() else "Not measured yet for this version.")
    return _page(parts)


def _names(classes: dict[type, list[Entry]]) -> str:
    rows = []
    for entries in classes.values():
        known = {entry.name: entry for entry in entries}
        for label, members in ranges(known).items():
            env_states = [known[name].build() for name in (members[0], members[-1])]
            limit = "none" if env_states[0].max_steps is None else str(env_states[0].max_steps)
            seen, done = (
                [_space(getattr(w, f"{which}_space")) for w in env_states] for which in ("observation", "action")
            )
            rows.append([f"`{label}`", _from_to(*seen), _from_to(*done), limit, _first_line(entries[0].cls)])
    return _table(("name", "observation", "action", "time limit", "description"), rows)


def _family(cls: type) -> str:
    return "MiniGrid" if issubclass(cls, Level) else cls.__module__.split(".")[-2]


def _world(name: str, cls: type, entries: list[Entry]) -> str:
    names = ", ".join(f"`{label}`" for label in ranges(entry.name for entry in entries))
    shaping, comments = static_fields(cls), _comments(cls)
    rows = []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue  # follows from the others
        kind = f"shapes the program: {_one_of(field)}".rstrip(" :") if field.name in shaping else "number"
        rows.append([f"`{field.name}`", _value(field.default), kind, comments.get(field.name) or _help(field)])
    fields = _table(("field", "default", "kind", ""), rows)
    picture = "It has pictures." if cls.render is not Env.render else ""
    return "\n\n".join(part for part in (f"## {name}", names, _prose(cls), picture, fields) if part)


def _from_to(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _prose(cls: type) -> str:
    # Labels such as "Reward: ..." begin paragraphs of their own.
    text = inspect.getdoc(cls) or ""
    for base in SHARED:
        if cls is not base:
            text = text.replace(f"`{base.__name__}`", f"[`{base.__name__}`](#{base.__name__.lower()})")
    labels = r"^(Action|Observation|Reward|Start|End|Noise|Differences?[\w ]*): *"
    return re.sub(r"\n{3,}", "\n\n", re.sub(labels, r"\n**\1.** ", text, flags=re.M))


def _comments(cls: type) -> dict[str, str]:
    """What the source says beside a field: its unit or meaning."""
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


def _numbers(cls: type) -> str:
    rows = []
    for name, field in hyper_fields(cls).items():
        names = field.metadata["names"]
        default = _value(names[field.default] if names else field.default)
        valid = ", ".join(f"`{n}`" for n in names) or _range(field, "valid")
        rows.append([f"`{name}`", default, valid, _range(field, "search"), _help(field)])
    return _table(("field", "default", "valid", "worth searching", ""), rows)


def _choices(cls: type) -> str:
    fields = [field for field in static_fields(cls).values() if field.default is not None or field.metadata["help"]]
    rows = [[f"`{f.name}`", _value(f.default), _one_of(f), _help(f)] for f in fields]
    return _table(("field", "default", "one of", ""), rows)


def _range(field: dataclasses.Field, which: str) -> str:
    found = field.metadata[which]
    return f"{found.low:g} to {found.high:g}{', log' if found.log else ''}" if found else ""


def _one_of(field: dataclasses.Field) -> str:
    return ", ".join(_value(choice) for choice in field.metadata.get("choices") or ())


def _help(field: dataclasses.Field) -> str:
    return field.metadata.get("help", "").replace("|", "\\|")


def _fields(fields: dict[str, Any]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in fields.items())


def _value(value: Any) -> str:
    return f"`{value:.6g}`" if isinstance(value, float) else f"`{value}`" if value != "" else "nothing"


def _first_line(cls: type) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0].replace("|", "\\|")


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _page(parts: list[str]) -> str:
    return "\n\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)
        print(f"docs/{name}")
