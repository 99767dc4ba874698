"""Compare the speed of shoal with that of other libraries (the peers).

    python benchmarks/run.py classic|worlds|minigrid|minigrid-every|ppo|dqn|tabular|es|peers

Every number is measured by a worker script in a fresh process of the peers' Python (`make peers`), so that both sides
use the same JAX and the same interpreter. The sides alternate for several rounds; the result of a side is the median
over rounds. The report is a JSON file, which includes the machine, the versions and the commit, and a Markdown table.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
WORKERS = HERE / "workers"  # which `python -m reproductions` runs too
MANY = 8  # with more seeds, the time of a whole process is almost only training
# The MiniGrid ids that are measured, and the number of steps for NAVIX, which is slower.
MINIGRID = {
    "MiniGrid-Empty-8x8-v0": 200,
    "MiniGrid-DoorKey-8x8-v0": 100,
    "MiniGrid-KeyCorridorS3R3-v0": 100,
    "MiniGrid-Dynamic-Obstacles-8x8-v0": 50,
    "MiniGrid-LavaCrossingS9N1-v0": 50,
    "MiniGrid-GoToDoor-8x8-v0": 50,
    "MiniGrid-FourRooms-v0": 20,
    "MiniGrid-MultiRoom-N6-v0": 1,
}
# Environments by gymnax's names, and the number of steps for gymnax, which is slower.
WORLDS = {
    "Breakout-MinAtar": 500,
    "SpaceInvaders-MinAtar": 200,
    "Asterix-MinAtar": 200,
    "Freeway-MinAtar": 100,
    "Seaquest-MinAtar": 20,
    "Catch-bsuite": 1000,
    "DeepSea-bsuite": 1000,
    "FourRooms-misc": 500,
    "MetaMaze-misc": 500,
}
BANKS = {  # larger reset banks for short episodes: no first state may be reused in a comparison
    "Breakout-MinAtar": 30,
    "Seaquest-MinAtar": 20,
    "SpaceInvaders-MinAtar": 12,
    "Asterix-MinAtar": 10,
}
GYMNAX_SETTINGS = {"DeepSea-bsuite": {"size": 8}}  # where shoal's default is bsuite's and not gymnax's
CLASSIC = ("CartPole-v1", "MountainCar-v0", "Pendulum-v1", "Acrobot-v1")


# One XLA thread: with two, small kernels are split over both and gymnax's CartPole is a third slower (9.7 M steps/s
# instead of 15.2 on the machine in results/). shoal disables that itself and gives each core a part of the work.
ONE_THREAD = (("NPROC", "1"),)


class Side(NamedTuple):
    """One side of a comparison: a worker script, its arguments and environment variables."""

    name: str
    worker: str
    arguments: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()  # environment variables of the process


class Contest(NamedTuple):
    """The same work done by several sides. `score` maps a worker's answer to a number (a rate, or seconds)."""

    name: str
    sides: tuple[Side, ...]
    score: Callable[[dict[str, Any]], float]
    unit: str
    cache: str = "none"  # of compiled programs: "none", "empty" or "filled"


def classic_contests(options: argparse.Namespace) -> list[Contest]:
    """Environment steps per second with random actions: observations are summed, or written as a trajectory."""
    contests = []
    for env in options.envs or CLASSIC:
        for mode, extra in (("checksum", ()), ("trajectory", ("--trajectory",))):
            size = ("--env", env, "--envs", str(options.num_envs), *extra)
            sides = (Side("gymnax", "step_gymnax", size, ONE_THREAD), Side("shoal", "step_shoal", size))
            contests.append(Contest(f"{env}, {options.num_envs} envs, {mode}", sides, stepping_rate, "M steps/s"))
    return contests


def ppo_contests(options: argparse.Namespace) -> list[Contest]:
    """PPO on CartPole for 500k steps: the whole process with empty and with filled cache, and training only."""
    contests = []
    for seeds in options.seeds:
        size = ("--seeds", str(seeds))
        peer = Side("PureJaxRL's recipe", "ppo_gymnax", size)
        alone = (peer, Side("shoal", "ppo_shoal", (*size, "--evaluations", "0", "--records", "1")))
        contests.append(Contest(f"PPO, {seeds} seeds, running alone", alone, training_rate, "k steps/s"))
        if seeds > MANY:
            continue
        whole = (peer, Side("shoal", "ppo_shoal", size))
        for cache in ("empty", "filled"):
            name = f"PPO, {seeds} seeds, whole process, {cache} cache"
            contests.append(Contest(name, whole, process_seconds, "s", cache))
        drawing = (peer, Side("shoal", "ppo_shoal", (*size, "--pictures")))
        name = f"PPO, {seeds} seeds, whole process with figures and GIFs, empty cache"
        contests.append(Contest(name, drawing, process_seconds, "s", "empty"))
    many = ("--seeds", str(max(options.seeds)))
    whole = Side("shoal", "ppo_shoal", (*many, "--evaluations", "0", "--records", "1"))
    contests.append(peak_contest(f"PPO, {max(options.seeds)} seeds", whole, operations_per_step("ppo")))
    game = ("--minatar", "--seeds", "8", "--total-steps", "163840")
    sides = (
        Side("PureJaxRL's recipe", "ppo_gymnax", ("--env", "Breakout-MinAtar", *game)),
        Side("shoal", "ppo_shoal", ("--env", "MinAtar/Breakout-v1", *game, "--evaluations", "0", "--records", "1")),
    )
    name = "PPO on Breakout of MinAtar, 8 seeds"
    contests.append(Contest(f"{name}, running alone", sides, training_rate, "k steps/s"))
    contests.append(peak_contest(name, sides[1], operations_per_step("minatar")))
    return contests


def peer_contests(options: argparse.Namespace) -> list[Contest]:
    """Peers whose loop runs in Python: Gymnasium's vectorized CartPole, and CleanRL's PPO on torch."""
    del options
    size = ("--env", "CartPole-v1", "--envs", "2048")
    called = ("--mode", "numpy", *size, "--steps", "1000", "--repeats", "5")
    stepping = (Side("gymnasium (NumPy)", "step_called", called), Side("shoal", "step_shoal", size))
    training = (
        Side("CleanRL's recipe (torch)", "ppo_torch"),
        Side("shoal", "ppo_shoal", ("--total-steps", "50000", "--evaluations", "0", "--records", "1")),
    )
    return [
        Contest("CartPole-v1, 2048 envs, called from Python", stepping, stepping_rate, "M steps/s"),
        Contest("PPO, 1 seed, 50k steps, running alone", training, training_rate, "k steps/s"),
    ]


def environment_contests(options: argparse.Namespace) -> list[Contest]:
    """Steps of environments that gymnax has too. gymnax is measured in several configurations; the best counts."""
    contests = []
    for env in options.envs or WORLDS:
        size = ("--env", env, "--envs", str(options.num_envs))
        steps = (*size, "--steps", str(WORLDS.get(env, 200)))
        sides = [
            Side(
                "gymnax" + ", envs last" * bool(axes) + ", 1 thread" * bool(threads),
                "step_gymnax",
                (*steps, *axes),
                threads,
            )
            for axes in ((), ("--envs-last",))
            for threads in ((), ONE_THREAD)
        ]
        fields = json.dumps(GYMNAX_SETTINGS.get(env, {}))
        ours = ("--fields", fields, "--bank", str(BANKS.get(env, 0)), "--envs-last", "--compile-phases")
        contests.append(
            Contest(
                f"{env}, {options.num_envs} envs",
                (*sides, Side("shoal", "step_shoal", (*size, *ours))),
                stepping_rate,
                "M steps/s",
            )
        )
    return contests


def minigrid_contests(options: argparse.Namespace) -> list[Contest]:
    """Steps with the partial view and random actions, compared with NAVIX, EnvPool's C++, and MiniGrid itself."""
    contests = []
    size = ("--envs", str(options.num_envs))
    for env, steps in MINIGRID.items():
        if options.envs and env not in options.envs:
            continue
        ours = Side("shoal", "step_shoal", (*size, "--env", env, "--envs-last"))
        # NAVIX is measured with both orders of the checksum's axes; the better one counts.
        theirs = ("--env", env.replace("MiniGrid", "Navix"), *size, "--steps", str(steps))
        navix = Side("NAVIX", "step_navix", theirs), Side("NAVIX, envs last", "step_navix", (*theirs, "--envs-last"))
        contests.append(Contest(f"{env}, {options.num_envs} envs", (*navix, ours), stepping_rate, "M steps/s"))
        pool = Side("EnvPool (C++, 2 threads)", "step_called", (*size, "--env", env))
        contests.append(Contest(f"{env}, {options.num_envs} envs", (pool, ours), stepping_rate, "M steps/s"))
        if env == "MiniGrid-DoorKey-8x8-v0":
            one = Side("MiniGrid", "step_called", ("--mode", "alone", "--env", env, "--steps", "5000"))
            contests.append(Contest(f"{env}, against one process", (one, ours), stepping_rate, "M steps/s"))
    return contests


def every_minigrid_contests(options: argparse.Namespace) -> list[Contest]:
    """Every MiniGrid id, compared with EnvPool's C++ version; shoal's worker also reports compile times."""
    from shoal.core.registry import ENVS

    contests = []
    for env in options.envs or [name for name in ENVS if name.startswith("MiniGrid-")]:
        size = ("--env", env, "--envs", str(options.num_envs))
        pool = Side("EnvPool (C++, 2 threads)", "step_called", (*size, "--steps", "30"))
        ours = Side("shoal", "step_shoal", (*size, "--envs-last", "--steps", "300", "--compile-phases"))
        contests.append(Contest(env, (pool, ours), stepping_rate, "M steps/s"))
    return contests


def tabular_contests(options: argparse.Namespace) -> list[Contest]:
    """Tabular Q-learning on GridWorld, training only. Pegoud's code is measured in two forms."""
    del options
    contests = []
    for agents, ours, theirs in ((1, 10_000_000, 1_000_000), (30, 1_000_000, 50_000), (4096, 100_000, 50_000)):
        few = min(agents, 30)  # 4,096 of Pegoud's would keep 600 GB of tables
        size = ("--agents", str(few), "--steps", str(theirs))
        name = "Pegoud's code" + f", {few} agents" * (few < agents)
        sides = (
            Side(name, "q_learning", size),
            Side(f"{name}, last table only", "q_learning", (*size, "--last-only")),
            Side("shoal", "tabular_shoal", ("--agents", str(agents), "--steps", str(ours))),
        )
        contests.append(Contest(f"Q-learning on GridWorld, {agents} agents", sides, stepping_rate, "M steps/s"))
    return contests


def es_contests(options: argparse.Namespace) -> list[Contest]:
    """Generations of an evolution strategy, two searches at a time. evosax is measured in three configurations."""
    del options
    contests = []
    for name, size in {
        "CartPole-v1, 32-32 network": ("--env", "CartPole-v1", "--hidden", "32", "32"),
        "Pendulum-v1, GRU of 16 units": ("--env", "Pendulum-v1", "--hidden", "16", "--memory", "16"),
    }.items():
        sides = (
            Side("evosax", "es_evosax", size),
            Side("evosax, 1 thread", "es_evosax", size, ONE_THREAD),
            Side("evosax, a search on each core", "es_evosax", (*size, "--threads")),
            Side("shoal", "es_shoal", size),
        )
        contests.append(Contest(f"ES on {name}, 256 candidates x 4 episodes", sides, training_rate, "k steps/s"))
    return contests


def dqn_contests(options: argparse.Namespace) -> list[Contest]:
    """DQN on CartPole, 32 seeds, training only: CleanRL's recipe, PureJaxRL's recipe, and a large replay buffer."""
    del options
    seeds = ("--seeds", "32")
    torch = Side("CleanRL's recipe (torch), 1 seed", "dqn_torch")
    ours = Side("shoal", "dqn_shoal", seeds)
    jaxs = (
        Side("PureJaxRL's recipe", "dqn_gymnax", seeds),
        Side("PureJaxRL's recipe, 1 thread", "dqn_gymnax", seeds, ONE_THREAD),
        Side(
            "PureJaxRL's recipe, half the seeds on each core",
            "dqn_gymnax",
            (*seeds, "--threads", "2"),
            ONE_THREAD,
        ),
        Side("shoal", "dqn_shoal", (*seeds, "--num-envs", "10")),
    )
    rejax, size = Side("rejax", "dqn_rejax", seeds), (*seeds, "--recipe", "rejax", "--buffer", "1000000")
    large = Side("shoal", "dqn_shoal", (*size, "--total-steps", "20000"))
    prioritized = Side("shoal, prioritised", "dqn_shoal", (*size, "--total-steps", "20000", "--prioritized"))
    return [
        Contest("DQN, 32 seeds, 1 environment each", (torch, ours), training_rate, "k steps/s"),
        Contest("DQN, 32 seeds, 10 environments each", jaxs, training_rate, "k steps/s"),
        peak_contest("DQN, 32 seeds", jaxs[-1], operations_per_step("dqn")),
        Contest("DQN, 32 seeds, replay of 1M steps", (rejax, large), training_rate, "k steps/s"),
        Contest("DQN, 32 seeds, prioritised replay of 1M steps", (rejax, prioritized), training_rate, "k steps/s"),
    ]


SUITES = {
    "dqn": dqn_contests,
    "es": es_contests,
    "minigrid": minigrid_contests,
    "minigrid-every": every_minigrid_contests,
    "classic": classic_contests,
    "worlds": environment_contests,
    "ppo": ppo_contests,
    "tabular": tabular_contests,
    "peers": peer_contests,
}


def peak_contest(name: str, side: Side, operations: float) -> Contest:
    """Compare the operations per second in a side's matrix products with the peak of the cores."""

    def score(answer: dict[str, Any]) -> float:
        return answer["gflops"] if "gflops" in answer else answer["steps"] * operations / answer["run_s"] / 1e9

    sides = (Side("large matrix products on all cores", "peak"), side)
    return Contest(f"{name}, operations of its networks", sides, score, "GFLOP/s")


def operations_per_step(recipe: str) -> float:
    """Floating-point operations for one environment step in the matrix products of a recipe's networks.

    A product of [B, I] and [I, O] takes 2 B I O operations. A gradient step computes one product per layer forward, one
    for the gradient of the weights, and, except in the first layer, one for the gradient of the inputs. Activations,
    losses, optimizer and environment are not counted, because they are not matrix products.
    """

    def forward(*sizes: int) -> int:
        return sum(2 * inputs * outputs for inputs, outputs in pairwise(sizes))

    def gradient(*sizes: int) -> int:
        return 3 * forward(*sizes) - 2 * sizes[0] * sizes[1]

    if recipe == "dqn":  # one action per step; every 10 steps 128 samples and target values
        network = (4, 120, 84, 2)
        return forward(*network) + 128 / 10 * (gradient(*network) + forward(*network))
    actor, critic = {"ppo": ((4, 64, 64, 2), (4, 64, 64, 1)), "minatar": ((400, 64, 64, 3), (400, 64, 64, 1))}[recipe]
    epochs = 4  # of each sample, after one forward pass of the actor and one of the critic
    return forward(*actor) + forward(*critic) + epochs * (gradient(*actor) + gradient(*critic))


def stepping_rate(answer: dict[str, Any]) -> float:
    """Million environment steps per second, the median of the worker's own repeats."""
    return answer["steps"] / statistics.median(answer["wall_s"]) / 1e6


def training_rate(answer: dict[str, Any]) -> float:
    """Thousand environment steps per second of all members together, without compilation."""
    return answer["steps"] / answer["run_s"] / 1e3


def process_seconds(answer: dict[str, Any]) -> float:
    """Seconds of the whole process."""
    return answer["outer_s"]


def run_contest(contest: Contest, python: str, rounds: int) -> dict[str, Any]:
    """Run the sides of a contest alternately and collect their answers."""
    answers: dict[str, list[dict[str, Any]]] = {side.name: [] for side in contest.sides}
    with tempfile.TemporaryDirectory() as directory:
        caches = {side.name: Path(directory, str(i)) for i, side in enumerate(contest.sides)}
        if contest.cache == "filled":
            for side in contest.sides:
                ask(side, python, caches[side.name])
        for turn in range(rounds):
            for side in contest.sides:
                folders = {"none": None, "empty": Path(directory, f"{side.name}-{turn}"), "filled": caches[side.name]}
                answers[side.name].append(ask(side, python, folders[contest.cache]))
                print(f"  {contest.name} | {side.name} | {contest.score(answers[side.name][-1]):.3g} {contest.unit}")
    scores = {name: [contest.score(a) for a in of_side] for name, of_side in answers.items()}
    medians = {name: statistics.median(values) for name, values in scores.items()}
    return {"contest": contest.name, "unit": contest.unit, "median": medians, "scores": scores, "answers": answers}


def ask(side: Side, python: str, cache: Path | None) -> dict[str, Any]:
    """Run one side in a fresh process. Returns its line of JSON, with the seconds of the process as `outer_s`.

    Raises RuntimeError if the process fails.
    """
    command = [python, str(WORKERS / f"{side.worker}.py"), *side.arguments]
    begin = time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(cache) | dict(side.variables), check=False
    )
    outer_s = time.perf_counter() - begin
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with code {done.returncode}:\n{done.stderr[-2000:]}")
    return {**json.loads(done.stdout.splitlines()[-1]), "outer_s": outer_s}


def environment(cache: Path | None) -> dict[str, str]:
    """Environment variables for a worker: this process's, with this checkout's shoal, and the cache set or disabled."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    variables["JAX_PLATFORMS"] = os.environ.get("JAX_PLATFORMS", "cpu")
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE.parent / "src"), os.environ.get("PYTHONPATH"))))
    if cache is None:
        return {**variables, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    at_once = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0"}
    return {**variables, **at_once, "JAX_COMPILATION_CACHE_DIR": str(cache)}


def machine() -> dict[str, Any]:
    """A description of the machine and the checkout: processor, memory, commit, time, and load."""
    cpu = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "commit": git("rev-parse", "--short", "HEAD") + ("+changes" if git("status", "--porcelain", "-uno") else ""),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "load_average": os.getloadavg(),
        "argv": sys.argv,
    }


def machine_without_command() -> dict[str, Any]:
    """The description of the machine without the command line of this process, which may hold paths."""
    return {name: value for name, value in machine().items() if name != "argv"}


def git(*arguments: str) -> str:
    """The output of a git command in this checkout; empty if it is not a git repository."""
    done = subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def table(report: dict[str, Any]) -> str:
    """The report as Markdown: a row per contest with the medians of the best peer and of shoal, and their ratio."""
    m, rows = report["machine"], []
    for result in report["results"]:
        sides, unit = list(result["median"].items()), result["unit"]
        (peer, theirs), (us, ours) = max(sides[:-1], key=lambda side: side[1]), sides[-1]
        rows.append(
            f"| {result['contest']} | {peer} {theirs:.3g} {unit} | {us} {ours:.3g} {unit} | {ours / theirs:.2f} |"
        )
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    rounds = "One round" if report["rounds"] == 1 else f"Medians of {report['rounds']} rounds"
    return "\n".join(
        [
            f"{m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB; load {m['load_average'][0]:.1f} at the start and "
            f"{report['load_average_after'][0]:.1f} at the end; commit {m['commit']}; {m['time']}.",
            f"{versions}. {rounds}, sides taking turns.",
            "",
            "| what | peer | shoal | shoal / peer |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def main(argv: list[str] | None = None) -> None:
    """Run a suite and write its report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("--out", type=Path, help="JSON file; default: benchmarks/results/SUITE.json")
    parser.add_argument("--python", default=str(HERE.parent / ".venv-peers/bin/python"), help="made by `make peers`")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--envs", nargs="*", help="which environments (classic, worlds, minigrid)")
    parser.add_argument("--num-envs", type=int, default=2048, help="parallel environments (classic, worlds, minigrid)")
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 128], help="sizes of the population (ppo)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only contests whose name contains TEXT")
    options = parser.parse_args(argv)
    if not Path(options.python).exists():
        parser.error(f"{options.python} does not exist. Run `make peers` first, or name another with --python.")
    out = options.out or HERE / "results" / f"{options.suite}.json"
    stamp, results, report = machine(), [], {}
    contests = [contest for contest in SUITES[options.suite](options) if options.only in contest.name]
    for contest in contests:  # write the report after each, so that a later failure loses nothing
        results.append(run_contest(contest, options.python, options.rounds))
        report = write(out, stamp, results, options.rounds)
    print(table(report))


def write(out: Path, stamp: dict[str, Any], results: list[dict[str, Any]], rounds: int) -> dict[str, Any]:
    """Write the report as JSON and its table as Markdown; return the report."""
    answers = [a for result in results for of_side in result["answers"].values() for a in of_side]
    versions = {name: version for answer in answers for name, version in answer["versions"].items()}
    report = {
        "machine": stamp,
        "versions": versions,
        "rounds": rounds,
        "results": results,
        "load_average_after": os.getloadavg(),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n")
    out.with_suffix(".md").write_text(table(report))
    return report


if __name__ == "__main__":
    main()
