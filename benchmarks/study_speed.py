"""Measure trials per hour of the article's search, in a study of shoal, in a loop with torch, and in a process each.

    python benchmarks/study_speed.py [--trials 240] [--parallel 16] [--steps 500000] [--only study torch process]

The search is that of Doors with DQN in the article "Speeding up Training of Model-Free RL" (Yousif 2025,
`dqn_hopt.py`): six hyperparameters, 500,000 steps of 64 environments, one seed per trial, TPE and Hyperband. All
parts have the article's network, which reads the cells as 225 numbers.

study    `shoal.tune`, in a fresh process with an empty cache of compiled programs. Its time is that of the process.
torch    the article's loop (`doors_study.py`, which `python -m reproductions doors` runs too) with the Python of
         --torch-python, which needs torch, gymnasium and optuna. It trains --torch-trials whole trials.
process  `shoal.train` in a process for each of --processes whole trials, after one that fills the cache.

Hyperband ends trials early, and how many differs from study to study. So the last two are extrapolated: of a whole
trial of S seconds, of which T train, a trial of the study would have taken S - T + share x T seconds, where share is
the part of a trial's steps that the study trained on average. Results are merged into results/study-speed.json, so that
each part can be run on its own; `study` comes first. The folder of the study is kept, with the figure of its slots, in
--folder.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import run

ENVS = 64
SEARCH = {
    "env.max_steps": (10, 17),
    "learning_rate": (1e-4, 1e-1, "log"),
    "buffer_size": (128 * ENVS, 1024 * ENVS),  # 128 to 1,024 steps of each environment
    "batch_size": (16, 128),
    "train_frequency": (4 * ENVS, 24 * ENVS, "log"),
    "optimizer": ["adam", "sgd"],
}
FIELDS = {
    "num_envs": ENVS,
    "num_steps": 4,
    "learning_starts": 100 * ENVS,
    "target_period": 200 * ENVS,
}
RECORDS = 27  # rungs of Hyperband after 1, 3, 9 and 27 of them; the article's first rung is a 33rd of a trial
MIDDLE = {"env.max_steps": 14, "learning_rate": 3e-3, "buffer_size": 32768, "batch_size": 64, "train_frequency": 640}
SIZES = ("trials", "parallel", "steps", "torch-trials", "processes")
OUT = run.HERE / "results" / "study-speed.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=240)
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--steps", type=int, default=500_000, help="environment steps of a trial")
    parser.add_argument("--torch-trials", type=int, default=2)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--torch-python", default=str(run.HERE.parent / ".venv-peers" / "bin" / "python"))
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--worker", choices=("study", "process"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        {"study": study, "process": process}[options.worker](options)
        return
    report = json.loads(options.out.read_text()) if options.out.exists() else {}
    for part in options.only:
        sizes = [f"--{name} {getattr(options, name.replace('-', '_'))}" for name in SIZES]
        command = " ".join(["python benchmarks/study_speed.py --only", part, *sizes])
        report[part] = {"command": command, **PARTS[part](options), "machine": run.machine_without_command()}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report | summary(report), indent=1) + "\n")
        print(part, json.dumps({k: v for k, v in report[part].items() if k != "machine"}), flush=True)
    print(json.dumps(summary(report), indent=1))


def study(options: argparse.Namespace) -> None:
    """The worker of `study`: one study, without fresh seeds and figures, which the other two lack too."""
    import shoal

    shoal.prepare()
    from workers.doors_network import Cells

    result = shoal.tune(
        "dqn",
        "Doors-v0",
        trials=options.trials,
        parallel=options.parallel,
        seeds=1,
        steps=options.steps,
        records=RECORDS,
        search=SEARCH,
        fields={**FIELDS, "network": Cells()},
        sampler="tpe",
        pruner="hyperband",
        preset=None,
        fresh_seeds=0,
        figures=False,
        root=options.folder,
    )
    print(json.dumps({"folder": str(result.folder)}))


def process(options: argparse.Namespace) -> None:
    """The worker of `process`: one whole trial."""
    import shoal

    shoal.prepare()
    from workers.doors_network import Cells

    values = {path: value for path, value in MIDDLE.items() if not path.startswith("env.")}
    result = shoal.train(
        "dqn",
        "Doors-v0",
        seeds=1,
        steps=options.steps,
        records=RECORDS,
        evaluations=0,
        fields={**FIELDS, **values, "max_buffer_size": 1024 * ENVS, "max_batch_size": 128, "network": Cells()},
        env_fields={"max_steps": MIDDLE["env.max_steps"]},
        preset=None,
        figures=False,
        folder=options.folder,
    )
    print(json.dumps({"train_seconds": result.summary["train_seconds"]}))


def measure_study(options: argparse.Namespace) -> dict[str, Any]:
    """Run the worker, read its slots, and draw them."""
    import shoal

    sizes = {name: getattr(options, name) for name in ("trials", "parallel", "steps", "folder")}
    flags = [text for name, value in sizes.items() for text in (f"--{name}", str(value))]
    with tempfile.TemporaryDirectory() as cache:
        seconds, done = timed([sys.executable, __file__, "--worker", "study", *flags], JAX_COMPILATION_CACHE_DIR=cache)
    folder = Path(json.loads(done.stdout.splitlines()[-1])["folder"])
    from shoal.studies.study import StudyResult
    from shoal.viz.slots import plot_slots

    result, group = StudyResult(folder), folder / "workers" / "w0" / "group-0"
    trial = shoal.load_result(group).curves["trial"]  # [records, slots]; there is one seed per trial
    plot_slots(trial, folder / "slots.png")
    (slots,) = result.summary["workers"].values()
    trained = float((trial >= 0).sum() / RECORDS)  # in whole trials
    return {
        **{name: value for name, value in sizes.items() if name != "folder"},
        "seconds": seconds,
        "trials_per_hour": 3600 * options.trials / seconds,
        "share": trained / options.trials,
        "states": result.summary["trials"],
        "slots": slots,
    }


def measure_torch(options: argparse.Namespace) -> dict[str, Any]:
    """The article's loop."""
    command = [options.torch_python, str(run.WORKERS / "doors_study.py")]
    _, done = timed([*command, "--trials", str(options.torch_trials), "--steps", str(options.steps)])
    found = json.loads(done.stdout.splitlines()[-1])
    whole = sum(found["trial_s"]) / len(found["trial_s"])
    return {"seconds_per_trial": whole, "training": whole, "steps": found["steps"], **found}


def measure_process(options: argparse.Namespace) -> dict[str, Any]:
    """One trial of shoal in a process of its own, with the cache of compiled programs that the first one filled."""
    seconds, training = [], []
    with tempfile.TemporaryDirectory() as place:
        for number in range(options.processes + 1):
            command = [sys.executable, __file__, "--worker", "process", "--steps", str(options.steps)]
            command += ["--folder", f"{place}/trial-{number}"]
            wall, done = timed(command, JAX_COMPILATION_CACHE_DIR=f"{place}/cache")
            seconds.append(wall)
            training.append(json.loads(done.stdout.splitlines()[-1])["train_seconds"])
    mean, of_training = (sum(times[1:]) / options.processes for times in (seconds, training))
    return {"seconds_per_trial": mean, "training": of_training, "seconds": seconds, "steps": options.steps}


def timed(command: list[str], **variables: str) -> tuple[float, subprocess.CompletedProcess]:
    """The seconds of a process, and its output. Ends this program if it failed."""
    source = str(run.HERE.parent / "src")
    begin = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": source, **variables}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with status {done.returncode}.\n{done.stdout}")
    return time.perf_counter() - begin, done


def summary(report: dict[str, Any]) -> dict[str, Any]:
    """Trials per hour of each part, for the share of a trial that the study trained; the ratios; and the busy slots."""
    if "study" not in report:
        return {}
    found, share = report["study"], report["study"]["share"]
    rates = {"study": found["trials_per_hour"]}
    for part in ("torch", "process"):
        if part in report and report[part]["steps"] > 0.99 * found["steps"]:  # torch: in whole steps of all copies
            whole, training = report[part]["seconds_per_trial"], report[part]["training"]
            rates[part] = 3600 / (whole - training + share * training)
    ratios = {part: rates["study"] / rate for part, rate in rates.items() if part != "study"}
    return {"trials_per_hour": rates, "ratios": ratios, "busy": found["slots"]["busy"]}


PARTS = {"study": measure_study, "torch": measure_torch, "process": measure_process}

if __name__ == "__main__":
    main()
