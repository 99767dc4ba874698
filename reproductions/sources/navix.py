"""NAVIX: MiniGrid's environments in JAX, many of them at once, and populations of PPO agents in them.

Published numbers: the data of the figures of NAVIX's paper, in the branch `neurips` of epignatelli/navix (commit
250d46e, folder experiments/), as means of 5 repeats; and its README. The files do not name the GPU.
"""

import statistics
from collections.abc import Sequence

import numpy as np

from reproductions.beside import Peer, bench, measure_peer, train
from reproductions.reproduction import PEERS, Chart, Measured, Need, Part, Points, Reproduction, Row, Source, register
from reproductions.workspace import Workspace

NAVIX = Peer("NAVIX", "step_navix", (Need("navix", PEERS),), ("jax",))
ENVPOOL = Peer("EnvPool", "step_called", (Need("envpool", PEERS),))
MINIGRID = Peer("MiniGrid", "step_called", (Need("minigrid", PEERS),))
NAVIX_PPO = Peer("NAVIX's PPO", "ppo_navix", (Need("navix", PEERS),), ("jax",))
BATCH_ENV, PPO_ENV = "MiniGrid-Empty-8x8-v0", "MiniGrid-Empty-Random-5x5-v0"
LEAST_STEPS, MOST_STEPS = 20, 1000  # of one call of a peer, in each environment
WORK = 400_000  # environment steps of one call of a peer, at most, as far as `LEAST_STEPS` allow
RATE = "steps/s"
NAMES = {"shoal": "shoal", "navix": "NAVIX", "envpool": "EnvPool (C++)", "minigrid": "MiniGrid"}


def batches(
    work: Workspace, *, shoal: Sequence[int], navix: Sequence[int], envpool: Sequence[int], minigrid: Sequence[int]
) -> Measured:
    """Steps per second of Empty-8x8 with these numbers of environments in one call, random actions and resets."""
    notes: list[str] = []
    of_library = {
        "shoal": bench(work, [BATCH_ENV], shoal)[BATCH_ENV],
        "navix": {n: _theirs(work, NAVIX, notes, BATCH_ENV, n) for n in navix},
        "envpool": {n: _theirs(work, ENVPOOL, notes, BATCH_ENV, n) for n in envpool},
        "minigrid": {n: _theirs(work, MINIGRID, notes, BATCH_ENV, n) for n in minigrid},
    }
    numbers, lines = {}, {}
    for library, rates in of_library.items():
        measured = {n: rate for n, rate in rates.items() if rate}
        numbers |= {f"{library}.{n}": rate for n, rate in measured.items()}
        if measured:
            numbers[f"{library}.best"] = max(measured.values())
            lines[NAMES[library]] = list(measured), list(measured.values())
    return Measured(numbers, {"rate": lines}, notes)


def environments(work: Workspace, *, envs: Sequence[str], num_envs: int) -> Measured:
    """Steps per second of one environment, and of many in one call, beside one environment of MiniGrid."""
    notes: list[str] = []
    ours, numbers = bench(work, envs, [1, num_envs]), {}
    for env in envs:
        numbers |= {f"{env}.shoal": ours[env][1], f"{env}.many": ours[env][num_envs]}
        slow = _theirs(work, MINIGRID, notes, env, 1)
        fast = _theirs(work, NAVIX, notes, env, 1)
        numbers |= {f"{env}.minigrid": slow, f"{env}.navix": fast}
        if slow:
            numbers[f"{env}.shoal.times"] = ours[env][1] / slow
            numbers[f"{env}.many.times"] = ours[env][num_envs] / slow
            numbers[f"{env}.navix.times"] = fast / slow if fast else None
    notes.append(f"Many environments: {num_envs:,} in one call.")
    return Measured(numbers, notes=notes)


def populations(work: Workspace, *, steps: int, agents: Sequence[int], navix: Sequence[int]) -> Measured:
    """Seconds to train populations of PPO agents on Empty-Random-5x5, with NAVIX's hyperparameters."""
    notes: list[str] = []
    numbers, commands = {}, {}
    rates: dict[str, dict[int, float]] = {"shoal": {}, "NAVIX": {}}
    size = ("--num-envs", 16, "--num-steps", 128, "--num-minibatches", 8, "--num-epochs", 1, "--torso", "mlp")
    for count in agents:
        words = ("--steps", steps, "--seeds", count, "--records", 10, *size)
        run = train(work, f"agents-{count}", "ppo", PPO_ENV, *words)
        rates["shoal"][count] = run.result.summary["steps_per_second"]
        numbers["ppo.return"] = float(np.nanmean(run.result.curves["train_return"][-1]))
        commands[f"{count} agents"] = run.command
    for count in navix:
        words = ("--env", PPO_ENV.replace("MiniGrid", "Navix"), "--total-steps", steps, "--seeds", count)
        if found := measure_peer(work, NAVIX_PPO, notes, *words):
            rates["NAVIX"][count] = found["steps"] / found["run_s"]
    for name, of_library in rates.items():
        numbers |= {f"ppo.{name.lower()}.{count}": rate for count, rate in of_library.items()}
    lines = {name: (list(some), list(some.values())) for name, some in rates.items() if some}
    return Measured(numbers, {"rate": lines}, notes, commands=commands)


def _theirs(work: Workspace, peer: Peer, notes: list[str], env: str, num_envs: int) -> float | None:
    """Steps per second of a peer; None if it cannot be measured here."""
    steps = min(MOST_STEPS, max(LEAST_STEPS, WORK // num_envs))
    words = {
        "NAVIX": ("--env", env.replace("MiniGrid", "Navix")),
        "EnvPool": ("--env", env, "--mode", "envpool"),
        "MiniGrid": ("--env", env, "--mode", "alone" if num_envs == 1 else "async"),
    }[peer.name]
    found = measure_peer(work, peer, notes, *words, "--envs", num_envs, "--steps", steps)
    return found["steps"] / statistics.median(found["wall_s"]) if found else None


def _rates(seconds: dict[int, float], steps: int) -> Points:
    """Steps per second from the seconds of N environments or agents with `steps` steps each."""
    return list(seconds), [n * steps / s for n, s in seconds.items()]


# Seconds for 1,000 steps of N environments of Empty-8x8: cpu_vs_gpu/throughput_envs_cpu_vs_gpu.json. A100:
# benchmarks/throughput_envs.json, in the commit before. Processes: throughput/throughput_envs.json.
CPU = {2: 0.00108, 16: 0.00481, 128: 0.0339, 1024: 0.194, 2048: 0.273, 16384: 1.29, 131072: 15.8, 1048576: 150}
A100 = {1024: 0.009, 16384: 0.0128, 65536: 0.0252, 262144: 0.107, 1048576: 0.4, 2097152: 1.80}
PROCESSES = {2: 0.252, 4: 0.254, 8: 0.404, 16: 0.605}  # MiniGrid, each environment in a process
# Seconds to train N agents for 1M steps each: throughput/throughput_ppo.json; A100: README.
PPO_GPU = {1: 12.2, 4: 12.5, 16: 13.1, 64: 17.6, 256: 32.2, 512: 58.2}
# Seconds for 1,000 steps of one environment, of NAVIX on the GPU and of MiniGrid: speedup/speedup_env.json.
SECONDS = {
    "MiniGrid-Empty-8x8-v0": (0.0078, 0.1287),
    "MiniGrid-DoorKey-8x8-v0": (0.0301, 0.1370),
    "MiniGrid-FourRooms-v0": (0.0317, 0.1487),
    "MiniGrid-KeyCorridorS3R3-v0": (0.0507, 0.1382),
    "MiniGrid-LavaGapS7-v0": (0.0184, 0.1419),
    "MiniGrid-SimpleCrossingS9N1-v0": (0.1906, 0.1417),
    "MiniGrid-Dynamic-Obstacles-8x8-v0": (0.0238, 0.1805),
    "MiniGrid-DistShift1-v0": (0.0137, 0.1302),
}


def _batch_rows() -> list[Row]:
    one, some = "one environment", "{:,} environments in one call"
    # The number of environments, its group, and what was published of NAVIX and of MiniGrid, with the hardware.
    groups = (
        (1, one, (1000 / SECONDS[BATCH_ENV][0], "GPU"), (1000 / SECONDS[BATCH_ENV][1], "")),
        (16, some.format(16), (16_000 / CPU[16], "CPU; GPU: 2.6 M"), (16_000 / PROCESSES[16], "16 processes")),
        (2048, some.format(2048), (2_048_000 / CPU[2048], "CPU; GPU: 289 M"), None),
        (16384, some.format(16384), (16_384_000 / CPU[16384], "CPU; GPU: 773 M"), None),
    )
    rows = []
    for n, group, navix, minigrid in groups:
        rows.append(Row(f"shoal.{n}", "shoal", None, RATE, group))
        rows.append(Row(f"navix.{n}", "NAVIX", navix[0], RATE, group, navix[1]))
        rows.append(Row(f"envpool.{n}", "EnvPool (C++)", None, RATE, group))
        if minigrid:
            rows.append(Row(f"minigrid.{n}", "MiniGrid", minigrid[0], RATE, group, minigrid[1]))
    best = "the fastest of the measured batches"
    largest = 1_048_576_000 / A100[1_048_576]
    return [
        *rows,
        Row("shoal.best", "shoal", None, RATE, best, main=True),
        Row("navix.best", "NAVIX", largest, RATE, best, "A100, 1,048,576 environments", main=True),
        Row("envpool.best", "EnvPool (C++)", None, RATE, best, main=True),
    ]


def _environment_rows() -> list[Row]:
    rows = []
    for env, (navix, minigrid) in SECONDS.items():
        rows += [
            Row(f"{env}.minigrid", "MiniGrid, one environment", 1000 / minigrid, RATE, env),
            Row(f"{env}.navix.times", "NAVIX, one environment", minigrid / navix, "times as fast", env, "GPU"),
            Row(f"{env}.shoal.times", "shoal, one environment", None, "times as fast", env),
            Row(f"{env}.many.times", "shoal, many environments", None, "times as fast", env),
        ]
    return rows


def _population_rows() -> list[Row]:
    rows = []
    for count in (1, 16, 512, 2048):
        group = f"{count:,} agent{'s' * (count > 1)}"
        seconds, where = (49, "A100: 49 s") if count == 2048 else (PPO_GPU[count], f"GPU: {PPO_GPU[count]} s")
        rows.append(Row(f"ppo.shoal.{count}", "shoal", None, RATE, group))
        rows.append(Row(f"ppo.navix.{count}", "NAVIX", count * 1e6 / seconds, RATE, group, where))
    minigrid = Row("ppo.minigrid", "PPO on MiniGrid", 1e6 / 240, RATE, "1 agent", "240 s for 1M steps")
    return [*rows[:2], minigrid, *rows[2:], Row("ppo.return", "shoal", None, "", "mean return at the end, largest 1")]


PARTS = (
    Part(
        name="batches",
        title="Steps per second by number of environments",
        about="Steps of `MiniGrid-Empty-8x8-v0` with random actions, automatic resets and an observation in every "
        "step. The paper times 1,000 steps with NAVIX's symbolic view of the whole grid, without compilation. Here "
        "NAVIX has the view that is most similar to MiniGrid's (7 x 7 cells in front of the agent; its walls hide "
        "nothing), and all observations are added up, so that none can be left out. shoal computes MiniGrid's own "
        "view. EnvPool uses two threads.",
        measure=batches,
        here={
            "shoal": [1, 16, 256, 2048, 16384],
            "navix": [1, 16, 256, 2048, 16384],
            "envpool": [1, 16, 256, 2048],
            "minigrid": [1, 16],
        },
        full={
            "shoal": [4**k for k in range(11)],
            "navix": [4**k for k in range(11)],
            "envpool": [1, 16, 256, 2048, 16384],
            "minigrid": [1, 2, 4, 8, 16],
        },
        rows=_batch_rows(),
        charts=(
            Chart(
                "rate",
                "Steps per second by number of environments",
                "environments in one call",
                "steps per second",
                log_x=True,
                log_y=True,
                published={
                    "NAVIX, A100": _rates(A100, 1000),
                    "NAVIX, CPU": _rates(CPU, 1000),
                    "MiniGrid, a process each": _rates(PROCESSES, 1000),
                },
            ),
        ),
    ),
    Part(
        name="environments",
        title="How many times as fast as MiniGrid",
        about="The paper divides MiniGrid's seconds for 1,000 steps of one environment by NAVIX's, for 30 "
        "environments; here is one of each kind. In the simple crossings NAVIX is slower than MiniGrid there, because "
        "under `vmap` it computes a reset in every step. The times of the paper are those of a GPU; one environment "
        "is faster on a CPU.",
        measure=environments,
        here={"envs": list(SECONDS), "num_envs": 2048},
        full={"num_envs": 65536},
        rows=_environment_rows(),
    ),
    Part(
        name="populations",
        title="Populations of PPO agents",
        about="PPO with NAVIX's hyperparameters (16 environments, 128 steps, 8 minibatches, 1 epoch, two layers of 64 "
        "units) on `MiniGrid-Empty-Random-5x5-v0`, 1 million steps for each agent. Compilation is left out. The "
        "README computes 670 million steps per second from 2,048 agents x 16 environments x 1M steps in 49 seconds, "
        "but the code divides the million by the 16 environments: an agent takes 1M steps in all of them together. So "
        "the rate is 2,048 x 1M / 49 s = 41.8 million steps per second.",
        measure=populations,
        here={"steps": 204_800, "agents": [1, 4, 16, 64], "navix": [1, 4, 16]},
        full={"steps": 1_000_000, "agents": [1, 16, 512, 2048], "navix": [1, 16, 512, 2048]},
        rows=_population_rows(),
        charts=(
            Chart(
                "rate",
                "Steps per second of all agents together",
                "agents",
                "steps per second",
                log_x=True,
                log_y=True,
                published={"NAVIX, GPU": _rates(PPO_GPU, 1_000_000), "NAVIX, A100": ([2048], [41.8e6])},
            ),
        ),
    ),
)

register(
    Reproduction(
        name="navix",
        title="NAVIX: MiniGrid in JAX",
        source=Source(
            "NAVIX: Scaling MiniGrid Environments with JAX",
            "Pignatelli et al., 2024",
            "https://arxiv.org/abs/2407.19396",
        ),
        about="NAVIX rewrites MiniGrid's environments in JAX, so that many are stepped in one call, and trains "
        "populations of PPO agents in them. Here the same work is done by shoal, NAVIX, EnvPool's C++ version and "
        "MiniGrid.",
        parts=PARTS,
    )
)
