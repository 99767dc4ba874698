"""Measure shoal on a GPU beside its peers, in one command: `python benchmarks/gpu.py all`.

    python benchmarks/gpu.py all [--minutes 8.5] [--out FOLDER] [--rehearse]
    python benchmarks/gpu.py articles           # runs at the sizes of the articles that shoal grew from, 4 minutes
    python benchmarks/gpu.py environments [--missing]   # one environment of every class, which takes longer

Parts of `all` in this order: `device`, what a copy and a launch cost; `stepping` and `training` beside the peers, with
the kernels of some programs; `whole`, a run of 2,048 agents from its start to its end; `agents`, an update of every
agent; `forms`, each field of the form of programs changed; `flags`, CUDA graphs; `correctness`, `tests/test_gpu.py`.
Any of them can be named instead of `all`, several as well. With `--missing`, `environments` leaves out what its file
has.
Workers compile together, and then measure in turn, alone on the machine (`turns.py`). Each row is written to
FOLDER/gpu-PART.json, benchmarks/results by default, as soon as it is there.

A GPU machine without a network needs the wheels that `benchmarks/peers/wheels.sh` fetches; a peer that is not installed
is left out. `--rehearse` does everything on a CPU at tiny sizes; its numbers say nothing.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cuda_program.programs import AGENT_ENVS, AGENT_FIELDS
from run import HERE, WORKERS, machine_without_command
from turns import Worker, in_environment, take_turns

ENVIRONMENTS = {  # the peer that has it too, and its name there
    "CartPole-v1": ("gymnax", "CartPole-v1"),
    "MinAtar/Breakout-v1": ("gymnax", "Breakout-MinAtar"),
    "MiniGrid-Empty-8x8-v0": ("navix", "Navix-Empty-8x8-v0"),
    "MiniGrid-DoorKey-8x8-v0": ("navix", "Navix-DoorKey-8x8-v0"),
    "MiniGrid-FourRooms-v0": ("navix", "Navix-FourRooms-v0"),
}
SIZES = (1024, 32_768, 1_048_576)
TOO_LARGE = {("Navix-FourRooms-v0", 1_048_576)}  # a state of NAVIX takes 72 KB there
PROFILED = {("MiniGrid-FourRooms-v0", 32_768), ("MiniGrid-FourRooms-v0", 1_048_576), ("MiniGrid-Empty-8x8-v0", 1024)}

PPO_MANY = {"agent": "ppo", "agents": 2048, "env": "CartPole-v1", "updates": 20}
PPO_ONE = {"agent": "ppo", "agents": 1, "env": "CartPole-v1", "updates": 100}
DQN_MANY = {"agent": "dqn", "agents": 2048, "env": "CartPole-v1", "fields": AGENT_FIELDS["dqn"]}
DQN_MANY |= {"updates": 5000, "repeats": 1}
NAVIX_ENV = "MiniGrid-Empty-Random-5x5-v0"
NAVIX_PPO = {"num_envs": 16, "num_steps": 128, "num_minibatches": 8, "num_epochs": 1, "torso": "mlp"}
NAVIX_STEPS = 1_000_000
BREAKOUT = {"num_envs": 64, "num_steps": 128, "num_minibatches": 8, "num_epochs": 4, "torso": "mlp"}
WIDE = {"num_steps": 32, "num_epochs": 1, "num_minibatches": 8, "torso": "mlp"}
EMPTY = {"env": "MiniGrid-Empty-8x8-v0", "num_envs": 1024}
FOUR_ROOMS = {"env": "MiniGrid-FourRooms-v0", "num_envs": 32_768}
COMPILE = 100  # seconds for the programs of a wave; what takes longer is not measured
PATIENCE = 240  # the same in a rehearsal, on a processor that may be busy
TINY_LEARNER = {"agents": 2, "updates": 2, "repeats": 1}
NOT_CHANGED = ("platform", "interpreted_kernels")  # fields of the form that say where it runs, not how
GRAPHS = {  # XLA's flags
    "no CUDA graphs": "--xla_gpu_enable_command_buffer=",
    "loops in CUDA graphs": "--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL --xla_gpu_graph_min_graph_size=1",
}
GRAPHS["unrolled loops in CUDA graphs"] = f"{GRAPHS['loops in CUDA graphs']} --xla_gpu_command_buffer_unroll_loops=true"


def main() -> None:
    """Run the parts, and write their rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("all", *PARTS), nargs="+")
    parser.add_argument("--minutes", type=float, default=8.5, help="after which nothing runs any more")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the results")
    parser.add_argument("--missing", action="store_true", help="of environments: only what its file lacks")
    parser.add_argument("--rehearse", action="store_true", help="everything on a CPU, at tiny sizes")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE.parent / "src"))
    deadline = time.monotonic() + 60 * options.minutes
    os.environ.setdefault("JAX_PLATFORMS", "cpu" if options.rehearse else "cuda")
    PARTS["environments"] = partial(PARTS["environments"], missing=options.missing)
    results = Results(options.out, {**machine_without_command(), **({} if options.rehearse else gpu())})
    with tempfile.TemporaryDirectory() as cache:
        seconds = PATIENCE if options.rehearse else COMPILE
        seconds = max(seconds, 30 * options.minutes) if options.part in (["environments"], ["articles"]) else seconds
        variables = {**in_environment(HERE.parent, Path(cache)), "COMPILE_SECONDS": str(seconds)}
        waves = WAVES if options.part == ["all"] else [options.part]
        for parts in [sum(waves, [])] if options.rehearse else waves:  # in a rehearsal times do not matter
            workers = [worker for part in parts for worker in PARTS[part](options.rehearse)]
            take_turns(workers, results.record, variables, compile_seconds=seconds + 15, deadline=deadline)
            print(f"{deadline - time.monotonic():.0f} s are left after {', '.join(parts)}", flush=True)


class Results:
    """A file of JSON for each part, written anew after each row."""

    def __init__(self, folder: Path, machine: dict[str, Any]) -> None:
        """Write into this folder; `machine` is written into each file."""
        self._folder, self._machine, self._rows = folder, machine, {}
        folder.mkdir(parents=True, exist_ok=True)

    def record(self, row: dict[str, Any]) -> None:
        """Keep a row, and print its most important numbers."""
        part = row.pop("part")
        row |= rate(row)
        rows = self._rows.setdefault(part, [])
        rows.append(row)
        text = json.dumps({"machine": self._machine, "rows": rows}, indent=1) + "\n"
        (self._folder / f"gpu-{part}.json").write_text(text)
        short = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items() if k not in UNPRINTED}
        print(part, json.dumps(short)[:400], flush=True)


def rate(row: dict[str, Any]) -> dict[str, float]:
    """Environment steps a second of a peer, which says how many it took and the seconds of each call, or of its run."""
    if "steps" not in row:
        return {}
    return {"steps_per_second": row["steps"] / (statistics.median(row["wall_s"]) if "wall_s" in row else row["run_s"])}


UNPRINTED = {"form_values", "kernels", "timeline", "versions", "argv", "wall_s", "cpu_s", "curve", "program"}


def gpu() -> dict[str, str]:
    """The name of the first GPU and its driver; nothing if `nvidia-smi` does not say."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}
    return dict(zip(("gpu", "driver"), said.splitlines()[0].split(", "), strict=True))


def jobs_of_shoal(part: str, jobs: Sequence[dict[str, Any]], seconds: float, flags: str = "") -> Worker:
    """A worker that measures jobs of shoal (`workers/gpu_programs.py`), each for up to `seconds`, with flags of XLA."""
    words = json.dumps([{**job, **estimate(job)} for job in jobs])
    command = command_of("gpu_programs", "--jobs", words, "--threads", str(min(len(jobs), 3)))
    variables = {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {GRAPHS[flags]}"} if flags else {}
    return Worker(part, command, 5 + seconds * len(jobs), {"flags": flags} if flags else {}, variables)


def estimate(job: dict[str, Any]) -> dict[str, Any]:
    """Launches and microseconds of a job's program as `gpu_program.py table` counted them, if it did."""
    counted = HERE / "results" / "gpu-program.json"
    fields = {name: value for name, value in job.get("fields", {}).items() if name != "learning_starts"}
    if fields != AGENT_FIELDS.get(job.get("agent"), {}) or job.get("form") or not counted.exists():
        return {}
    program = f"agent {job['agent']} --members {job['agents']}" if "agent" in job else ""
    program = program or f"env {job['env']} --envs {job['num_envs']}"
    row = json.loads(counted.read_text())["rows"].get(program, {})
    if "kernel_microseconds" not in row:
        return {}
    slower = max(row["kernel_microseconds"], row["host_microseconds"])
    return {"counted": {"launches": row["launches"], "estimated_us": slower}}


def command_of(script: str, *words: str) -> tuple[str, ...]:
    """The command of a worker script."""
    return (sys.executable, str(WORKERS / f"{script}.py"), *words)


def peer(part: str, package: str, script: str, *words: str, seconds: float = 30, **facts: Any) -> list[Worker]:
    """The worker of a peer; none, and a message, if it is not installed."""
    if importlib.util.find_spec(package) is None:
        print(f"{part}: {script} is left out: {package} is not installed", flush=True)
        return []
    return [Worker(part, command_of(script, *words), seconds, {"side": package, **facts})]


def device(rehearse: bool) -> list[Worker]:
    """Bytes copied in a second, and the time of a trip of a loop."""
    return [Worker("device", command_of("gpu_device", *(("--floats", "1024") if rehearse else ())), 10)]


def stepping(rehearse: bool) -> list[Worker]:
    """Steps with random actions, and every observation computed, of shoal and of the peers."""
    workers = []
    for env, (package, name) in list(ENVIRONMENTS.items())[: 1 if rehearse else None]:
        sizes = (8,) if rehearse else SIZES
        jobs = [{"env": env, "num_envs": size, "profile": rehearse or (env, size) in PROFILED} for size in sizes]
        workers.append(jobs_of_shoal("stepping", jobs, seconds=10))
        for size in sizes:
            if (name, size) not in TOO_LARGE:
                words = ("--env", name, "--envs", str(size), "--steps", "100", "--repeats", "3")
                facts = {"env": env, "num_envs": size}
                workers += peer("stepping", package, f"step_{package}", *words, seconds=20, **facts)
    return workers


def training(rehearse: bool) -> list[Worker]:
    """Environment steps a second while training, of shoal and of PureJaxRL's recipes."""
    wide = [
        {"agent": "ppo", "agents": 1, "env": env, "updates": 4, "fields": {**WIDE, "num_envs": size}}
        for env in ("MinAtar/Breakout-v1", "CartPole-v1")
        for size in (16_384, 65_536)
    ]
    workers = [
        jobs_of_shoal("training", [{**PPO_MANY, "profile": True}, {**PPO_ONE, "profile": True}], seconds=15),
        jobs_of_shoal("training", [{**DQN_MANY, "profile": True}], seconds=30),
        jobs_of_shoal("training", wide, seconds=8),
    ]
    if rehearse:
        jobs = [{**PPO_MANY, **TINY_LEARNER, "fields": {"num_steps": 8}, "profile": True}]
        workers = [jobs_of_shoal("training", jobs, seconds=20)]
    for agent, agents, steps in (("ppo", 2048, 20_480), ("ppo", 1, 51_200), ("dqn", 2048, 50_000)):
        agents, steps = (2, 512) if rehearse else (agents, steps)
        words = ("--seeds", str(agents), "--total-steps", str(steps))
        facts = {"agent": agent, "agents": agents, "env": "CartPole-v1", "steps_per_agent": steps}
        package = {"ppo": "distrax", "dqn": "flashbax"}[agent]
        workers += peer("training", package, f"{agent}_gymnax", *words, **facts) if not rehearse else []
    return workers


def agents(rehearse: bool) -> list[Worker]:
    """An update of every agent but `bc`, with one and with 2,048 members; replay agents learn from the start."""
    import jax

    from shoal.core.registry import AGENTS

    jax.config.update("jax_platforms", "cpu")  # in this process, which only lists them
    jobs = []
    for members in (1, 2) if rehearse else (1, 2048):
        for name in ("q-learning",) if rehearse else sorted(set(AGENTS) - {"bc"}):
            job = {"agent": name, "agents": members, "env": AGENT_ENVS.get(name, "CartPole-v1")}
            learns = {"learning_starts": 1} if hasattr(AGENTS[name].build(), "learning_starts") else {}
            job["fields"] = AGENT_FIELDS.get(name, {}) | learns
            slow = estimate(job).get("counted", {}).get("estimated_us", 5000 if members == 1 else 100_000)
            jobs.append({**job, "updates": max(1, min(200, int(300_000 / slow))), "repeats": 1 if slow > 1e6 else 3})
    return [jobs_of_shoal("agents", jobs[i::16], seconds=12) for i in range(min(16, len(jobs)))]


def whole(rehearse: bool) -> list[Worker]:
    """2,048 agents that train for 500,000 steps each."""
    words = ("--agents", "2", "--steps", "1024") if rehearse else ()
    return [Worker("whole", command_of("gpu_whole", *words), 75)]


def articles(rehearse: bool) -> list[Worker]:
    """Whole runs as the articles have them, beside NAVIX's own; populations in Breakout; more environments at once."""
    if rehearse:
        words = ("--agents", "2", "--steps", "1024", "--env", "CliffWalking-v1", "--fields", '{"num_steps": 16}')
        return [Worker("articles", command_of("gpu_whole", *words), 75)]
    runs = [(NAVIX_ENV, "none", n, NAVIX_STEPS, NAVIX_PPO) for n in (1, 16, 512, 2048)]
    runs += [("MiniGrid-DoorKey-5x5-v0", "", n, 0, {}) for n in (5, 2048)]
    runs += [(f"MinAtar/{game}-v1", "", 1, 0, {}) for game in ("Breakout", "SpaceInvaders")]
    workers = []
    for env, preset, agents, steps, fields in runs:
        words = ("--env", env, "--preset", preset, "--agents", agents, "--steps", steps, "--eval-max-steps", 2000)
        command = command_of("gpu_whole", *map(str, words), "--fields", json.dumps(fields))
        workers.append(Worker("articles", command, 75, {"side": "shoal"}))
    for agents in (1, 16, 512, 2048):
        words = ("--env", NAVIX_ENV.replace("MiniGrid", "Navix"), "--total-steps", NAVIX_STEPS, "--seeds", agents)
        facts = {"env": NAVIX_ENV, "agents": agents, "steps_per_agent": NAVIX_STEPS}
        workers += peer("articles", "navix", "ppo_navix", *map(str, words), seconds=75, **facts)
    breakout = {"agent": "ppo", "env": "MinAtar/Breakout-v1", "fields": BREAKOUT, "updates": 2}
    sizes = [{"env": "MiniGrid-Empty-8x8-v0", "num_envs": size} for size in (2048, 2_097_152)]
    jobs = [{**breakout, "agents": agents} for agents in (1, 16, 128, 512)] + sizes
    return [*workers, *(jobs_of_shoal("articles", jobs[i::3], seconds=8) for i in range(3))]


def forms(rehearse: bool) -> list[Worker]:
    """Each field of the form changed, and the form of a CPU."""
    if rehearse:
        jobs = [{"env": "CartPole-v1", "num_envs": 8, "form": form} for form in ({"steps_per_trip": 2}, "cpu")]
        return [jobs_of_shoal("forms", jobs, seconds=20)]
    dqn = {**DQN_MANY, "updates": 300, "fields": {**AGENT_FIELDS["dqn"], "learning_starts": 1000}, "repeats": 3}
    pqn = [{**PPO_MANY, "agent": "pqn", "form": form} for form in ({}, {"q_network_kernels": True})]
    workers = [jobs_of_shoal("forms", pqn, seconds=5)]
    for job in (PPO_MANY, dqn, PPO_ONE, FOUR_ROOMS, EMPTY):
        variants = [{**job, "form": form} for form in ({}, *changed_forms(job.get("agents", 1)))]
        variants.append({**job, "form": "cpu", "profile": True})
        workers += [jobs_of_shoal("forms", variants[i : i + 4], seconds=5) for i in range(0, len(variants), 4)]
    return workers


def changed_forms(agents: int) -> list[dict[str, Any]]:
    """Changes of one field each, which reach other values than those of the GPU's form."""
    from shoal.core.form import form_for

    usual = form_for("gpu", agents)._asdict()
    others = {name: other_values(value) for name, value in usual.items() if name not in NOT_CHANGED}
    return [{name: value} for name, values in others.items() for value in values]


def other_values(value: Any) -> list[Any]:
    """Values to compare a field's with."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [1, 2 * value + 2] if value > 1 else [4]
    return [other for other in ("on", "off") if other != value] if value in ("auto", "on", "off") else []


def flags(rehearse: bool) -> list[Worker]:
    """CUDA graphs, which XLA's flags turn off and on; each in a process of its own, because it may crash."""
    if rehearse:
        job = {"env": "CartPole-v1", "num_envs": 8}
        return [jobs_of_shoal("flags", [job], 20, "no CUDA graphs")]
    jobs = [EMPTY, PPO_ONE, PPO_MANY, {**DQN_MANY, "updates": 2000}]
    return [jobs_of_shoal("flags", jobs, 8, name) for name in GRAPHS]


def correctness(rehearse: bool) -> list[Worker]:
    """A GPU computes what a CPU computes, in all forms."""
    words = ("--workers", "0", "--rehearse") if rehearse else ("--workers", "14")
    return [Worker("correctness", command_of("gpu_correctness", *words), 120, takes_turns=False)]


def every_environment(rehearse: bool, missing: bool = False) -> list[Worker]:
    """One environment of every class, at all sizes, shared out to twelve workers; or only those without a row."""
    import jax

    from shoal.core.registry import ENVS
    from shoal.studies.throughput import measurable

    jax.config.update("jax_platforms", "cpu")  # in this process, which only lists them
    names = ["CartPole-v1"] if rehearse else list({ENVS[name].cls: name for name in reversed(measurable())}.values())
    sizes = (8,) if rehearse else SIZES
    jobs = [{"env": name, "num_envs": size} for size in sizes for name in names[::-1]]
    if missing:
        recorded = json.loads((HERE / "results" / "gpu-environments.json").read_text())["rows"]
        found = {(row["env"], row["num_envs"]) for row in recorded}
        jobs = [job for job in jobs if (job["env"], job["num_envs"]) not in found]
    return [jobs_of_shoal("environments", jobs[i::12], seconds=10) for i in range(min(12, len(jobs)))]


PARTS = {
    "device": device,
    "stepping": stepping,
    "training": training,
    "whole": whole,
    "agents": agents,
    "forms": forms,
    "flags": flags,
    "correctness": correctness,
    "articles": articles,
    "environments": every_environment,
}
WAVES = [
    ["device", "stepping"],
    ["training", "whole"],
    ["correctness"],
    ["agents"],
    ["forms", "flags"],
]  # parts that run together


if __name__ == "__main__":
    main()
