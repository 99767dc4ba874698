"""Compare the speed of two checkouts of shoal, before and after a change, with the workers of `run.py`.

    python benchmarks/before_after.py OLD NEW [--rounds 5] [--only ppo] [--python .venv/bin/python]
    python benchmarks/before_after.py OLD NEW --only "128 seeds" --workers="--total-steps 25088"

OLD and NEW are folders with `src/` and `benchmarks/workers/`, such as two `git worktree`s. Every measurement runs in a
fresh process. The two checkouts alternate, and the order changes from round to round. The table shows the median of
each checkout, and the median, the smallest and the largest of the ratios of all rounds. If 1 lies between the smallest
and the largest, no difference was found. The report is written to benchmarks/results/before_after.json and .md.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import run

ALONE = ("--evaluations", "0", "--records", "1")
# name -> (worker, arguments, function from an answer to a number, unit)
CONTESTS = {
    **{f"classic {env}": ("step_shoal", ("--env", env), run.stepping_rate, "M steps/s") for env in run.CLASSIC},
    **{
        f"minigrid {env}": ("step_shoal", ("--env", env, "--envs-last"), run.stepping_rate, "M steps/s")
        for env in run.MINIGRID
    },
    "ppo, 1 seed": ("ppo_shoal", ("--seeds", "1", *ALONE), run.training_rate, "k steps/s"),
    "ppo, 128 seeds": (
        "ppo_shoal",
        ("--seeds", "128", "--total-steps", "100352", *ALONE),
        run.training_rate,
        "k steps/s",
    ),
    "ppo, 1 seed, whole process, empty cache": ("ppo_shoal", ("--seeds", "1"), run.process_seconds, "s"),
    "dqn, 32 seeds, 10 environments each": (
        "dqn_shoal",
        ("--seeds", "32", "--num-envs", "10"),
        run.training_rate,
        "k steps/s",
    ),
}


def main() -> None:
    """Run all contests and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", metavar="TEXT", help="only contests whose name contains TEXT")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--workers", default="", metavar="ARGUMENTS", help="for the workers, after the contest's own")
    parser.add_argument("--out", type=Path, default=run.HERE / "results" / "before_after.json")
    options = parser.parse_args()
    sides = {"old": options.old.resolve(), "new": options.new.resolve()}
    report = {"machine": run.machine(), "commits": {k: commit(v) for k, v in sides.items()}, "contests": {}}
    for name, (worker, arguments, read, unit) in CONTESTS.items():
        if options.only not in name:
            continue
        name, arguments = f"{name} {options.workers}".strip(), (*arguments, *options.workers.split())
        found = {"old": [], "new": []}
        for number in range(options.rounds):
            for side in ("old", "new") if number % 2 else ("new", "old"):
                found[side].append(read(measured(options.python, sides[side], worker, arguments)))
        report["contests"][name] = {"unit": unit, **found}
        report["load_average_after"] = os.getloadavg()
        options.out.write_text(json.dumps(report, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(table(report))
        print(table(report).splitlines()[-1], flush=True)


def measured(python: str, tree: Path, worker: str, arguments: tuple[str, ...]) -> dict:
    """The answer of a worker of a checkout, run with an empty cache of compiled programs."""
    with tempfile.TemporaryDirectory() as cache:
        variables = {
            **os.environ,
            "PYTHONPATH": str(tree / "src"),
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": cache,
        }
        command = [python, str(tree / "benchmarks" / "workers" / f"{worker}.py"), *arguments]
        begin = time.perf_counter()
        done = subprocess.run(command, env=variables, cwd=cache, capture_output=True, text=True, timeout=900)
        seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{worker} of {tree} failed:\n{done.stderr}")
    return {**json.loads(done.stdout.splitlines()[-1]), "outer_s": seconds}


def commit(tree: Path) -> str:
    """The short hash of a checkout's commit."""
    return subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=tree, text=True).strip()


def table(report: dict) -> str:
    """The report as Markdown."""
    old, new = report["commits"].values()
    lines = [
        f"`python benchmarks/before_after.py OLD NEW`, OLD at {old}, NEW at {new}; {report['machine']['cpu']}.",
        "",
        "| | old | new | unit | new / old (smallest to largest of a round) |",
        "|---|---|---|---|---|",
    ]
    for name, found in report["contests"].items():
        ratios = [new / old for old, new in zip(found["old"], found["new"], strict=True)]
        medians = (statistics.median(found[side]) for side in ("old", "new"))
        cells = " | ".join(f"{value:.3g}" for value in medians)
        spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        lines.append(f"| {name} | {cells} | {found['unit']} | {spread} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
