"""Write the pages that are generated from the code and from the files in benchmarks/results. Run by `make docs`.

They are environments.md and a page for each family (`environment_pages.py`), agents.md, results.md (`results_page.py`)
and measurements.md. `tests/test_docs.py` fails when a page is not up to date.
"""

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

from abilities import ability_table
from counted_tables import counted_section
from environment_pages import environment_pages
from gpu_tables import gpu_section
from page_parts import NOTICE, page, picture, table, value
from results_page import CURVES, RESULTS, results

from shoal.agents.presets import presets
from shoal.cli import index
from shoal.core.ranges import Range
from shoal.core.registry import AGENTS, Entry
from shoal.core.struct import hyper_fields, info_of, static_fields

DOCS = Path(__file__).parent
SUITES = {
    "classic": (
        "Environment steps",
        "With random actions and automatic resets. Observations are summed into a checksum, or the whole trajectory is "
        "written to memory.",
    ),
    "worlds": (
        "Environments that gymnax has too",
        "With random actions and automatic resets. gymnax is measured in four configurations, and the best is shown. "
        "MinAtar's games have sticky actions in shoal. Seaquest, which has most objects, runs at a sixth of Breakout's "
        "rate.",
    ),
    "minigrid": (
        "MiniGrid's steps",
        "With the partial view in every step, random actions and automatic resets. In NAVIX's view walls hide nothing, "
        "and the carried object is not shown. GoToDoor's generator became faster after this table: it then ran at 6.82 "
        "M steps/s, 55 times as fast as NAVIX in the median round and 36 times as fast as NAVIX's best round "
        "(`results/minigrid-gotodoor.json`). `reset` and `step` of any id compile in at most 1.8 seconds together "
        "(`benchmarks/compile_minigrid.py`, `results/minigrid-compile.json`).",
    ),
    "minigrid-every": ("Every MiniGrid id", "Compared with EnvPool's C++ version of the same id."),
    "ppo": (
        "PPO on CartPole and Breakout",
        "CartPole: 500,000 steps per seed; training only, and the whole process from start to end. "
        '`--only "PPO, 128 seeds, operations"` compares the operations per second with the peak of the cores.',
    ),
    "evidence": (
        "What agents reach",
        "Every preset except MiniGrid's, which follow below. The seeds were fixed in advance. Shown are returns of the "
        "last weights over 100 fresh episodes per member. Rows with fewer seeds or steps were made with `--seeds` and "
        "`--steps`.\n\n"
        "On the bandit with five arms and ten pulls the Gittins index has a mean return of 6.653 +- 0.014 and random "
        "actions 4.994. Over 100,000 episodes RL^2 reaches 99.8 % of the return of the index (worst seed 99.5 %), A2C "
        "with a GRU 99.4 % (worst seed 97.7 %) (`python benchmarks/bandit_oracle.py --pulls 10 --run RUN`).",
    ),
    "dqn": (
        "DQN on CartPole",
        "Training only, 32 seeds, with the same number of gradient steps per environment step on both sides. "
        '`--only "DQN, 32 seeds, operations"` compares the operations per second with the peak of the cores.',
    ),
    "tabular": (
        "Tabular Q-learning on GridWorld",
        "Training only. *Pegoud's code* is that of Ryan Pegoud's article *Vectorize and Parallelize RL Environments "
        "with JAX: Q-learning at the Speed of Light*, which introduced GridWorld. It keeps the table of every step; if "
        "it keeps only the last one, it is twice as fast with 30 agents. shoal's 4,096 agents are compared with 30 "
        "agents of Pegoud's code, because the tables of 4,096 agents would need about 600 GB.",
    ),
    "es": (
        "Evolution strategies",
        "Two searches with the same strategy and networks; observations are normalized. On both sides every episode "
        "counts with its full length, although shoal ends a generation when its last episode ends. CartPole became "
        "faster after this table.",
    ),
    "peers": ("Called from Python", "Gymnasium's vectorized CartPole, and CleanRL's PPO recipe on torch."),
    "minigrid-learning": (
        "What PPO learns in MiniGrid",
        "`shoal train ppo --suite minigrid-10` trains these ten levels with one seed each in 5:08 minutes on 2 cores, "
        "including compilation, evaluation and figures, with one table at the end.",
    ),
    "scaling": ("Time per agent", "PPO on CartPole, populations of 1 to 512 members."),
}

COMMANDS = {
    "evidence": "python benchmarks/evidence.py --agent AGENT",
    "minigrid-learning": "python benchmarks/evidence.py 'MiniGrid-*'",
    "scaling": ".venv-peers/bin/python benchmarks/scaling.py",
}


def pages() -> dict[str, str]:
    """Every generated page by file name."""
    return environment_pages() | {"agents.md": agents(), "results.md": results(), "measurements.md": measurements()}


def agents() -> str:
    """A manual page for each agent: learning curve, hyperparameters, static fields, presets."""
    classes: dict[type, list[Entry]] = {}
    for entry in sorted(AGENTS.values(), key=lambda entry: len(entry.preset)):
        classes.setdefault(entry.cls, []).append(entry)
    where = "[Which agent?](which-agent.md) compares them, and [results](results.md) lists the returns that they reach."
    parts = ["# Agents", NOTICE, where]
    parts.append(table(("agent", "description"), [[f"[`{e.name}`](#{e.name})", e.summary] for e in AGENTS.values()]))
    parts += ["## What works with which agent", *ability_table()]
    curves = {row["agent"]: row for row in json.loads(CURVES.read_text())} if CURVES.exists() else {}
    for cls, entries in sorted(classes.items(), key=lambda item: item[1][0].name):
        parts += [f"## {entries[0].name}", inspect.getdoc(cls) or "", *_curve(curves, entries[0].name)]
        parts += ["Hyperparameters: they can be swept in one program; other values do not recompile it.", _hypers(cls)]
        parts += ["Static fields: every combination of their values is a program of its own.", _choices(cls)]
        for entry in entries:
            if entry is not entries[0]:
                parts += [f"### {entry.name}", f"`{entries[0].name}` with {_fields(entry.preset)}."]
                parts += _curve(curves, entry.name)
            parts += _presets(entry.name)
    return page(parts)


def _curve(curves: dict[str, Any], agent: str) -> list[str]:
    """The learning curve of an agent, if it was recorded."""
    if agent not in curves:
        return []
    row = curves[agent]
    variant = f", preset `{row['preset']}`" * bool(row["preset"])
    fields = f" with {_fields(row['fields'])}" * bool(row["fields"])
    command = f"`python benchmarks/agent_curves.py {agent} --seeds {row['seeds']}`"
    caption = (
        f"`{agent}`{fields} on `{row['env']}`{variant}: greedy returns of {row['seeds']} seeds, each in "
        f"{row['episodes']:,} fresh episodes at each point ({command})."
    )
    return [picture(f"Learning curve of {agent} on {row['env']}", f"agents/{agent}.png", caption)]


def _presets(agent: str) -> list[str]:
    known = presets(agent)
    if not known:
        return []
    rows = []
    for p in known.values():
        fields = p.fields | {f"env.{name}": number for name, number in p.env_fields.items()}
        rows.append([f"`{p.name}`", f"{p.steps:,}", _fields(fields), p.evidence])
    return ["Presets:", table(("name", "steps", "fields", "evidence"), rows)]


def measurements() -> str:
    """The tables that the scripts in benchmarks/ wrote, each below the command that makes it again.

    The sections of `guides.md` are written by hand: what guides refer to, from the output of a command or a JSON file.
    """
    parts = [
        "# Measurements",
        NOTICE,
        "`make peers` installs the libraries that shoal is compared with. See also "
        "[how it is fast](how-it-is-fast.md).",
    ]
    for suite, (title, what) in SUITES.items():
        command = COMMANDS.get(suite, f".venv-peers/bin/python benchmarks/run.py {suite}")
        parts += [f"## {title}", what, f"```sh\n{command}\n```"]
        file = RESULTS / f"{suite}.md"
        parts.append(file.read_text().strip() if file.is_file() else "Not measured yet for this version.")
    return page([*parts, (RESULTS / "guides.md").read_text().strip(), *gpu_section(), *counted_section()])


def _hypers(cls: type) -> str:
    rows = []
    for name, field in hyper_fields(cls).items():
        names = info_of(field).names
        default = value(names[field.default] if names else field.default)
        valid = ", ".join(f"`{n}`" for n in names) or _range(info_of(field).valid)
        rows.append([f"`{name}`", default, valid, _range(info_of(field).search), _help(field)])
    return table(("field", "default", "valid", "search range", ""), rows)


def _choices(cls: type) -> str:
    fields = [field for field in static_fields(cls).values() if field.default is not None or info_of(field).help]
    rows = [[f"`{f.name}`", value(f.default), _one_of(f), _help(f)] for f in fields]
    return table(("field", "default", "one of", ""), rows)


def _range(found: Range | None) -> str:
    return f"{found.low:g} to {found.high:g}{'' if found.scale == 'linear' else f', {found.scale}'}" if found else ""


def _one_of(field: dataclasses.Field) -> str:
    return ", ".join(value(choice) for choice in info_of(field).choices or ())


def _help(field: dataclasses.Field) -> str:
    return info_of(field).help.replace("|", "\\|")


def _fields(fields: dict[str, Any]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in fields.items())


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text)
        print(f"docs/{name}")
    index.FILE.write_text(index.as_text(index.from_registries()))
