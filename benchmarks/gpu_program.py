"""Count the launches and the bytes of the CUDA program of any part of shoal, on a machine that needs no GPU.

    python benchmarks/gpu_program.py env MiniGrid-Empty-8x8-v0 --envs 1024
    python benchmarks/gpu_program.py reset MiniGrid-DoorKey-8x8-v0 --envs 1024
    python benchmarks/gpu_program.py agent ppo --members 2048 [--env CartPole-v1] [--fields num_envs=10 hidden=64,64]
    python benchmarks/gpu_program.py table [--out benchmarks/results/gpu-program.json] [--again]
    python benchmarks/gpu_program.py budgets [--record]

The numbers are counted, and times are estimated (`cuda_program/count.py` says how); nothing is measured. `env` counts a
step of `shoal.throughput`'s program, `reset` a batch of first states, `agent` an update. `table` does all environments
and agents; it takes hours, and if it is stopped it goes on where it was, unless the commit has changed. `budgets`
compares with `tests/gpu_program/budgets.toml`. `--form cpu` shows the form of programs for a CPU, and
`--source OTHER/src` the programs of another checkout.

`make gpu-program` makes the environment that this needs: Python 3.12, and JAX with its compiler for CUDA.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from cuda_program import budgets, device, programs, tables
from cuda_program.count import BANDWIDTHS, launches

HERE = Path(__file__).resolve().parent
SMALL, LARGE = 1024, 32_768  # environments
MANY = 2048  # members


def main(words: list[str] | None = None) -> int:
    """Count one program, or all of them."""
    options = parser().parse_args(words)
    if reason := device.missing():
        print(reason, file=sys.stderr)
        return 2
    if options.what in ("table", "budgets"):
        return {"table": table, "budgets": check_budgets}[options.what](options)
    row, details = counted(options)
    print(json.dumps(row) if options.json else f"{tables.summary(row)}\n{details}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--form", default="gpu", help="the platform whose form of programs is used: gpu or cpu")
    common.add_argument("--gpu", default="h100", choices=BANDWIDTHS, help="the device whose time is estimated")
    common.add_argument("--source", type=Path, default=HERE.parent / "src", help="the folder that has shoal/")
    common.add_argument("--json", action="store_true", help="print one line of JSON")
    common.add_argument("--most", type=int, default=30, help="kernels to list of each loop")
    whole = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = whole.add_subparsers(dest="what", required=True)
    for what in ("env", "reset"):
        kind = kinds.add_parser(what, parents=[common])
        kind.add_argument("name")
        kind.add_argument("--envs", type=int, default=SMALL)
    agent = kinds.add_parser("agent", parents=[common])
    agent.add_argument("name")
    agent.add_argument("--members", type=int, default=1)
    agent.add_argument("--env", default="")
    agent.add_argument("--fields", nargs="*", default=[], metavar="NAME=VALUE")
    every = kinds.add_parser("table", parents=[common])
    every.add_argument("--out", type=Path, default=HERE / "results" / "gpu-program.json")
    every.add_argument("--again", action="store_true", help="count programs again that were counted at this commit")
    every.add_argument("--only", default="", help="count only programs whose command contains this text")
    held = kinds.add_parser("budgets", parents=[common])
    held.add_argument("--record", action="store_true", help="write the numbers of this checkout as the budgets")
    return whole


def counted(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Compile the program of a command line: (its row, the table of its kernels)."""
    sys.path.insert(0, str(options.source.resolve()))
    with tempfile.TemporaryDirectory() as folder:
        device.prepare(Path(folder))
        with programs.in_form(options.form, getattr(options, "members", 1)) as compiler_options:
            program = chosen(options)
            compiled = device.compile_for_gpu(program.function, program.arguments, compiler_options)
    rows = launches(compiled.module, compiled.thunks, lambda function: programs.trips(program, function))
    return tables.row_of(program, compiled, rows, options.gpu), tables.kernels(rows, options.most, options.gpu)


def chosen(options: argparse.Namespace) -> programs.Program:
    """The program of a command line."""
    if options.what == "env":
        return programs.environment_steps(options.name, options.envs)
    if options.what == "reset":
        return programs.environment_resets(options.name, options.envs)
    return programs.training_update(options.name, options.members, options.env, dict(map(field, options.fields)))


def field(text: str) -> tuple[str, Any]:
    """The name and the value of `name=value`; a value with commas is a tuple of numbers."""
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def table(options: argparse.Namespace) -> int:
    """Count all programs, each in a process of its own; write the file after each, and print a table."""
    commit = commit_of(options.source)
    done = json.loads(options.out.read_text())["rows"] if options.out.exists() else {}
    listed = everything(options)
    wanted = [words for words in listed if options.only in " ".join(words)]
    if not wanted:
        names = "\n".join("  " + " ".join(words) for words in listed)
        print(f"No program of the table contains {options.only!r}. It has:\n{names}", file=sys.stderr)
        return 2
    print("\n".join(tables.HEADER), flush=True)
    failed = 0
    for words in wanted:
        name = " ".join(words)
        if options.again or done.get(name, {}).get("commit") != commit or "error" in done[name]:
            done[name] = {"commit": commit, **count_elsewhere(words, options)}
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps({"rows": done}, indent=1) + "\n")
        failed += "error" in done[name]
        print(
            f"| {name} | {done[name]['error']} |" if "error" in done[name] else tables.line(name, done[name]),
            flush=True,
        )
    return int(failed > 0)


def check_budgets(options: argparse.Namespace) -> int:
    """Count the programs that have a budget, and print the differences; or record what they have now."""
    held, exceeded = budgets.read(), 0
    for name, budget in held.items():
        row = count_elsewhere(name.split(), options)
        if "error" in row:
            print(f"{name}: {row['error']}")
            return 1
        excess = budgets.excess(row, budget)
        exceeded += bool(excess)
        print(f"{name}: {budgets.of(row)} {excess and 'TOO MUCH: ' + excess}", flush=True)
        held[name] = budgets.of(row)
    if options.record:
        budgets.write(held)
    return int(exceeded > 0 and not options.record)


def count_elsewhere(words: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """The row of a command, counted in a new process; `{"error": the exception or the last line}` if it failed."""
    given = ("--json", "--form", options.form, "--gpu", options.gpu, "--source", str(options.source))
    command = [sys.executable, __file__, *words, *given]
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}  # of the tests
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    if ran.returncode == 0:
        return json.loads(ran.stdout.splitlines()[-1])
    lines = ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]  # JAX writes a note below it
    return {"error": (raised or lines)[-1][:300]}


def everything(options: argparse.Namespace) -> list[list[str]]:
    """The commands of the whole table."""
    script = (
        "from shoal.core.registry import AGENTS, ENVS; from shoal.studies.throughput import measurable; import json;"
        "print(json.dumps([{n: [ENVS[n].cls.__module__, ENVS[n].cls.__name__] for n in measurable()}, list(AGENTS)]))"
    )
    environment = {"PYTHONPATH": str(options.source), "JAX_PLATFORMS": "cpu"}
    listed = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    names, agents = json.loads(listed.stdout.splitlines()[-1])
    classes = {tuple(cls): name for name, cls in reversed(names.items())}  # the first name of each class
    families = {module.split(".")[2]: name for (module, _), name in classes.items()}
    commands = [["agent", name, "--members", str(members)] for members in (1, MANY) for name in agents]
    choices = [("ppo", "off"), ("dqn", "on"), ("pqn", "on")]  # the others than those of kernels=auto
    commands += [["agent", name, "--members", str(MANY), "--fields", f"kernels={other}"] for name, other in choices]
    commands += [["env", name, "--envs", str(SMALL)] for name in sorted(classes.values())]
    commands += [["env", name, "--envs", str(LARGE)] for name in sorted(families.values())]
    commands += [["reset", name, "--envs", str(SMALL)] for name in sorted(classes.values())]
    return commands


def commit_of(source: Path) -> str:
    """The last commit that changed a source folder, with `+changes` if its files differ from it; empty without git."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", source, *words, "--", "."], capture_output=True, text=True).stdout.strip()

    # Seven digits of the whole hash: git writes more of them when a repository has grown.
    return git("log", "-1", "--format=%H")[:7] + "+changes" * bool(git("status", "--porcelain"))


if __name__ == "__main__":
    sys.exit(main())
