"""Measure shoal on a GPU: environments, training against PureJaxRL's recipe, and the kernels of an update.

    python benchmarks/gpu.py environments [--sizes 1024 32768 1048576] [--workers 12]
    python benchmarks/gpu.py ppo|dqn [--sizes 1 128 2048] [--steps 500000] [--rounds 1] [--no-peer]
    python benchmarks/gpu.py kernels [--sizes 1 2048]

Each writes benchmarks/results/gpu-WHAT.json, or the file of `--out`. The peers need gymnax, distrax and flashbax.

`environments` measures one environment of each class. Programs are compiled in several processes at a time, because
that takes much longer than to measure them; only one of these processes uses the GPU to measure at any time.
"""

import argparse
import fcntl
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from run import HERE, Side, ask, machine_without_command

RECIPES = {  # workers of both sides, and how many steps each agent takes
    "ppo": ("ppo_gymnax", "ppo_shoal", ("--evaluations", "0", "--records", "1"), 500_000),
    "dqn": ("dqn_gymnax", "dqn_shoal", ("--num-envs", "10"), 500_000),
}


def main() -> None:
    """Run one kind of measurement and write its report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("environments", "kernels", *RECIPES))
    parser.add_argument("--sizes", nargs="*", type=int, help="numbers of environments or of agents")
    parser.add_argument("--steps", type=int, default=0, help="environment steps of each agent")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-peer", action="store_true", help="measure only shoal")
    parser.add_argument("--workers", type=int, default=12, help="processes that compile (environments)")
    parser.add_argument("--seconds", type=float, default=0.2, help="of each measurement (environments)")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--names", help=argparse.SUPPRESS)  # of a worker process, with --lock
    parser.add_argument("--lock", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cuda")
    if options.lock:
        return measure_environments(options)
    measured = {"environments": environments, "kernels": kernels}.get(options.what, training)(options)
    out = options.out or HERE / "results" / f"gpu-{options.what}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": {**machine_without_command(), **gpu()}, **measured}, indent=1) + "\n")


def gpu() -> dict[str, str]:
    """The name of the GPU and its driver."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    return {"gpu": name, "driver": driver}


def training(options: argparse.Namespace) -> dict[str, Any]:
    """Environment steps per second while training, without compilation; both sides take turns."""
    peer, ours, extra, usual = RECIPES[options.what]
    rows = []
    for seeds in options.sizes or (1, 128, 2048):
        size = ("--seeds", str(seeds), "--total-steps", str(options.steps or usual))
        sides = [Side("shoal", ours, (*size, *extra))]
        if not options.no_peer:
            sides.insert(0, Side("PureJaxRL's recipe", peer, size))
        answers = defaultdict(list)
        for _ in range(options.rounds):
            for side in sides:
                try:
                    answers[side.name].append(ask(side, sys.executable, None))
                except RuntimeError as error:
                    print(str(error)[-700:], flush=True)
        for side, given in answers.items():
            row = {
                "agents": seeds,
                "side": side,
                "steps_per_agent": options.steps or usual,
                "train_s": statistics.median(answer["run_s"] for answer in given),
                "compile_s": statistics.median(answer["compile_s"] for answer in given),
                "process_s": statistics.median(answer["outer_s"] for answer in given),
                "last_return": given[-1]["last_return"],
            }
            row["steps_per_second"] = given[-1]["steps"] / row["train_s"]
            rows.append(row)
            print({k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    return {"rounds": options.rounds, "versions": given[-1]["versions"], "rows": rows}


def environments(options: argparse.Namespace) -> dict[str, Any]:
    """Random steps per second of one environment of each class, every observation computed."""
    sizes = options.sizes or (1024, 32_768, 1_048_576)
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "lock"
        command = [sys.executable, __file__, "environments", "--lock", str(lock), "--seconds", str(options.seconds)]
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(HERE.parent / "src"), os.environ.get("PYTHONPATH")))),
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        listed = subprocess.run([*command, "--names", ""], env=variables, capture_output=True, text=True, check=True)
        jobs = [f"{name}:{size}" for size in sorted(sizes) for name in json.loads(listed.stdout.splitlines()[-1])]
        shares = [",".join(jobs[i :: options.workers]) for i in range(options.workers)]
        workers = [
            subprocess.Popen([*command, "--names", share], env=variables, stdout=subprocess.PIPE, text=True)
            for share in shares
        ]
        answers = [worker.communicate()[0].splitlines() for worker in workers]
    rows = [json.loads(line) for lines in answers for line in lines if line.startswith("{")]
    return {"rows": sorted(rows, key=lambda row: (row["env"], row["num_envs"]))}


def measure_environments(options: argparse.Namespace) -> None:
    """In a worker process: measure environments, and print a line for each. Without names, list one of each class."""
    import jax

    from shoal.core.registry import ENVS
    from shoal.studies.throughput import make_fleet, measurable

    if not options.names:
        print(json.dumps(list({ENVS[name].cls: name for name in reversed(measurable())}.values())[::-1]))
        return
    for job in options.names.split(","):
        name, _, size = job.rpartition(":")
        row: dict[str, Any] = {"env": name, "num_envs": int(size)}
        try:
            begin = time.perf_counter()
            fleet = make_fleet(ENVS[name].build(), int(size))
            row["compile_s"] = time.perf_counter() - begin
            with options.lock.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                fleet.advance()
                durations: list[float] = []
                while len(durations) < 3 or sum(durations) < options.seconds:
                    begin = time.perf_counter()
                    fleet.advance()
                    durations.append(time.perf_counter() - begin)
            row |= {"steps_per_second": fleet.steps / statistics.median(durations), "reused": fleet.resets_reused}
        except jax.errors.JaxRuntimeError as error:
            row["error"] = str(error).splitlines()[0][:200]
        print(json.dumps(row), flush=True)
        del fleet
        jax.clear_caches()


def kernels(options: argparse.Namespace) -> dict[str, Any]:
    """The kernels in which the updates of PPO on CartPole spend their time, by name."""
    sys.path.insert(0, str(HERE.parent / "src"))
    import jax
    import jax.numpy as jnp

    from shoal.core.keys import make_key
    from shoal.core.registry import AGENTS, make
    from shoal.core.struct import to_arrays
    from shoal.training.program import begin, train_chunk

    env = make("CartPole-v1")
    agent = to_arrays(AGENTS["ppo"].build(horizon=500_000).bind(env))
    rows = []
    for seeds in options.sizes or (1, 2048):
        members = jax.vmap(lambda seed: begin(agent, env, seed, make_key(0)))(jnp.arange(seeds))
        update = jax.jit(
            jax.vmap(lambda member, updates: train_chunk(member, agent, env, jnp.int32(0), updates), in_axes=(0, None))
        )
        jax.block_until_ready(update(members, jnp.int32(2)))
        started = time.perf_counter()
        jax.block_until_ready(update(members, jnp.int32(10)))
        seconds = (time.perf_counter() - started) / 10
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                jax.block_until_ready(update(members, jnp.int32(2)))
            (file,) = Path(folder).rglob("*.xplane.pb")
            data = jax.profiler.ProfileData.from_file(str(file))
            spent: dict[str, list[float]] = defaultdict(list)
            for plane in data.planes:
                for line in plane.lines if plane.name.startswith("/device:GPU") else ():
                    for event in line.events if line.name.startswith("Stream") else ():
                        spent[event.name].append(event.duration_ns / 1e3)
        table = sorted(((sum(us) / 2, len(us) / 2, name) for name, us in spent.items()), reverse=True)
        row = {
            "agents": seeds,
            "seconds_per_update": seconds,
            "busy_s_per_update": sum(of[0] for of in table) / 1e6,
            "launches_per_update": sum(of[1] for of in table),
            "kernels": [{"name": name[:120], "us": us, "launches": count} for us, count, name in table[:40]],
        }
        rows.append(row)
        print({k: v for k, v in row.items() if k != "kernels"})
        for us, count, name in table[:25]:
            print(f"  {us:10.1f} us {count:8.1f} x  {name[:100]}", flush=True)
    return {"rows": rows}


if __name__ == "__main__":
    main()
