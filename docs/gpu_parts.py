"""Tables of what `benchmarks/gpu.py all` measured, one for each of its parts whose file is there."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from page_parts import table
from results_page import RESULTS

Row = dict[str, Any]
PEERS = {"gymnax": "gymnax", "navix": "NAVIX", "distrax": "PureJaxRL's recipe", "flashbax": "PureJaxRL's recipe"}
COMMAND = "```sh\nbenchmarks/peers/wheels.sh  # once, where there is a network\npython benchmarks/gpu.py all\n```"
STEPPING = (
    "Random actions and automatic resets; every observation is computed and summed. gymnax and NAVIX step with their "
    "own resets, and NAVIX computes an easier view, in which walls hide nothing. Million steps per second."
)
TRAINING = (
    "PPO with 4 environments x 128 steps and 16 gradient steps in an update, DQN with 10 environments and a gradient "
    "step of 128 transitions in an update (none in the first 1,000 of 5,000 updates). With more than 1,000 "
    "environments PPO takes 32 steps and 8 gradient steps in an update. Compilation is not included."
)
KERNELS = (
    "From JAX's profiler, for one step or one update. XLA runs no CUDA graphs while it is profiled, so that the span "
    "from the first kernel to the last is longer than the time of an update without a profiler."
)
AGENTS = (
    "With the default fields, but DQN as PureJaxRL's recipe; replay agents learn in every update. `bc` is not "
    "measured, nor are 2,048 members of `redq`, for lack of time, and of `rl2`, for lack of memory."
)
ARTICLES = (
    "PPO, with NAVIX's hyperparameters in Empty-Random-5x5 and with shoal's presets elsewhere; `return` is the mean "
    "over agents of the last evaluation, with episodes cut at 2,000 steps. 15 programs were compiled at the same time, "
    "which made each slower. The time ran out before NAVIX with 512 and 2,048 agents; its authors give 58.2 s on a GPU "
    "that they do not name, and 49 s on an A100."
)
FORMS = "The form that shoal uses, and each of its fields changed (`core/form.py`). Microseconds of a step or update."
FLAGS = "XLA's CUDA graphs, in the form that shoal uses. Microseconds of a step or update."


def parts(newest: Row | None = None) -> list[str]:
    """Headings, words and tables; nothing if there are no measurements.

    A section says on what it was measured, if not at the commit of `newest`, a machine.
    """
    found: list[str] = []
    for name, section in SECTIONS.items():
        file = RESULTS / f"gpu-{name}.json"
        if not file.is_file():
            continue
        measured = json.loads(file.read_text())
        heading, *words = section([row for row in measured["rows"] if "failed" not in row and "error" not in row])
        differs = newest is not None and measured["machine"]["commit"] != newest["commit"]
        found += [heading, *([machine_line(measured["machine"])] if differs else []), *words]
    return [COMMAND, *found] if found else []


def machine_line(machine: Row) -> str:
    """The machine and the commit of measurements, in words."""
    return (
        f"{machine['gpu']}, driver {machine['driver']}, {machine['cores']} CPU cores; JAX 0.11.2; commit "
        f"{machine['commit']}; {machine['time'][:10]}."
    )


def stepping(rows: list[Row]) -> list[str]:
    """Rates of shoal and of the peers, at each size, and the kernels of some programs."""
    rates = {(row["env"], row["side"], row["num_envs"]): row["steps_per_second"] for row in timed(rows)}
    sizes = sorted({size for _, _, size in rates})
    sides = dict.fromkeys((env, side) for env, side, _ in rates)
    cells = [
        [env, PEERS.get(side, side), *(millions(rates.get((env, side, size))) for size in sizes)] for env, side in sides
    ]
    head = ("environment", "program", *(f"{size:,} environments" for size in sizes))
    return ["### Environments beside gymnax and NAVIX", STEPPING, table(head, cells), *kernels(rows, "a step")]


def training(rows: list[Row]) -> list[str]:
    """Rates of training of shoal and of the peers, and the kernels of some programs."""
    cells = [[work(row), PEERS.get(row["side"], row["side"]), millions(row["steps_per_second"])] for row in timed(rows)]
    head = ("work", "program", "million steps per second")
    return ["### Training beside PureJaxRL's recipes", TRAINING, table(head, cells), *kernels(rows, "an update")]


def whole(rows: list[Row]) -> list[str]:
    """A run from its start to its end."""
    names = ("compile_seconds", "train_seconds", "eval_seconds", "other_seconds")
    cells = [
        [
            f"{row['agents']:,} x {row['steps_per_agent']:,}",
            *(f"{row[name]:.1f} s" for name in names),
            millions(row["steps_per_second"]),
            f"{row['solved']:,}",
        ]
        for row in rows
    ]
    head = ("agents x steps", "compilation", "training", "evaluation", "the rest", "million steps per second")
    about = (
        "PPO on CartPole-v1, as `shoal train` runs it; an agent that returns 475 at the end has solved it. `The rest` "
        "includes the time in which the process waited for its turn."
    )
    return ["### A whole run on a GPU", about, table((*head, "agents that solved it"), cells)]


def articles(rows: list[Row]) -> list[str]:
    """Whole runs at the sizes of the articles, beside NAVIX's own."""
    cells = [
        [
            row["env"],
            PEERS.get(row["side"], row["side"]),
            f"{row['agents']:,} x {row['steps_per_agent']:,}",
            f"{row.get('train_seconds', row.get('run_s')):.1f} s",
            f"{row.get('compile_seconds', row.get('compile_s')):.0f} s",
            millions(row["steps_per_second"]),
            f"{row['mean_return']:.3g}" if "mean_return" in row else "",
        ]
        for row in rows
        if "run_s" in row or "train_seconds" in row
    ]
    head = ("environment", "program", "agents x steps", "training", "compilation", "million steps per second", "return")
    command = "```sh\npython benchmarks/gpu.py articles\n```"
    return ["### Runs at the sizes of the articles", command, ARTICLES, table(head, cells)]


def agents(rows: list[Row]) -> list[str]:
    """The time of an update of every agent, beside what was estimated."""
    cells = [
        [
            work(row),
            f"{row['us_per_unit'] / 1000:,.3g}",
            f"{row['counted']['estimated_us'] / 1000:,.3g}" if "counted" in row else "",
            millions(row["steps_per_second"]),
        ]
        for row in timed(rows)
    ]
    head = ("work", "milliseconds of an update", "estimated before", "million steps per second")
    return ["### An update of every agent", AGENTS, table(head, cells)]


def forms(rows: list[Row]) -> list[str]:
    """The time of each changed form."""
    cells = [[work(row), change(row["form"]), f"{row['us_per_unit']:,.1f}"] for row in timed(rows)]
    return ["### Forms of programs", FORMS, table(("work", "form", "µs"), cells)]


def flags(rows: list[Row]) -> list[str]:
    """The time with each flag of XLA."""
    cells = [[work(row), row["flags"], f"{row['us_per_unit']:,.1f}"] for row in timed(rows)]
    return ["### CUDA graphs", FLAGS, table(("work", "flags", "µs"), cells)]


def correctness(rows: list[Row]) -> list[str]:
    """How many tests passed, and which failed."""
    tests = [row for row in rows if "test" in row]
    failed = [f"`{row['test']}`" for row in tests if row["outcome"] == "failed"]
    about = f"`tests/test_gpu.py`: {len(tests) - len(failed)} of {len(tests)} tests passed before the time was over."
    return ["### The same numbers as on a CPU", about + f" Failed: {', '.join(failed)}." * bool(failed)]


def kernels(rows: Iterable[Row], unit: str) -> list[str]:
    """Launches and times of the profiled programs."""
    cells = []
    for row in rows:
        if "busy_us" in row:
            measured = [f"{row['launches']:,.1f}", f"{row['busy_us']:,.1f} µs", f"{row['span_us']:,.1f} µs"]
            counted = row.get("counted")
            expected = [f"{counted['launches']:,.1f}", f"{counted['estimated_us']:,.1f} µs"] if counted else ["", ""]
            cells.append([work(row), *measured, *expected])
    head = ("work", f"launches of {unit}", "time in kernels", "from the first to the last")
    return [KERNELS, table((*head, "launches counted before", "time estimated before"), cells)] if cells else []


def work(row: Row) -> str:
    """The subject of a row, in words."""
    if "agent" not in row:
        return f"{row['env']}, {row['num_envs']:,} environments"
    count = f"{row['agents']:,} agent{'s' * (row['agents'] > 1)}"
    wide = row.get("fields", {}).get("num_envs", 0)
    return f"{row['agent'].upper()}, {count}, {row['env']}" + f", {wide:,} environments" * (wide > 1000)


def change(form: Any) -> str:
    """A change of the form, in words."""
    if not form:
        return "as it is"
    return "of a CPU" if form == "cpu" else ", ".join(f"`{name}={value}`" for name, value in form.items())


def timed(rows: list[Row]) -> list[Row]:
    """The rows that are measurements of time."""
    return [row for row in rows if "steps_per_second" in row]


def millions(rate: float | None) -> str:
    """A rate in millions, with three digits."""
    return f"{float(f'{rate / 1e6:.3g}'):,g}" if rate else ""


SECTIONS: dict[str, Callable[[list[Row]], list[str]]] = {
    "stepping": stepping,
    "training": training,
    "whole": whole,
    "articles": articles,
    "agents": agents,
    "forms": forms,
    "flags": flags,
    "correctness": correctness,
}
