"""Compare BabyAI's levels in shoal with MiniGrid's and with EnvPool's, and measure what their programs take to compile.

    python benchmarks/babyai.py speed --minigrid PYTHON --envpool PYTHON [--rounds 3]
    python benchmarks/babyai.py compile [ID ...]

`speed` steps each id with random actions and resets: 2,048 environments in shoal and in EnvPool, one in MiniGrid. The
sides alternate, each in a fresh process on one core; rates are per second of processor time, the median over rounds.
`compile` compiles `reset` and `step` of 2,048 environments of every id, without a cache. Both write their results to
benchmarks/results/babyai-speed.json and babyai-compile.json. PYTHON is an interpreter that has the package.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from run import machine

HERE = Path(__file__).parent
RESULTS = HERE / "results"
IDS = ("BabyAI-GoToLocal-v0", "BabyAI-PutNextLocal-v0", "BabyAI-GoTo-v0", "BabyAI-SynthLoc-v0", "BabyAI-BossLevel-v0")

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("what", choices=("speed", "compile"))
parser.add_argument("ids", nargs="*", help="by default five for `speed`, and all for `compile`")
parser.add_argument("--minigrid", default=sys.executable)
parser.add_argument("--envpool", default=sys.executable)
parser.add_argument("--rounds", type=int, default=3)
args = parser.parse_args()


def speed() -> None:
    """Measure all sides of each id, and write and print the rates."""
    found: dict = {"machine": machine(), "unit": "steps per second of processor time, one core", "ids": {}}
    for name in args.ids or IDS:
        sides = {
            "minigrid": (args.minigrid, "step_called.py", "--mode", "alone", "--env", name, "--steps", "10000"),
            "envpool": (args.envpool, "step_called.py", "--threads", "1", "--env", name),
            "shoal": (sys.executable, "step_shoal.py", "--env", name, "--steps", "200", "--repeats", "3"),
        }
        answers: dict = {side: [] for side in sides}
        for _ in range(args.rounds):
            for side, command in sides.items():
                answers[side].append(answer(command))
        rates = {side: [rate(output) for output in rounds] for side, rounds in answers.items()}
        medians = {side: statistics.median(rounds) for side, rounds in rates.items()}
        found["ids"][name] = {
            **{side: {"median": round(medians[side]), "rounds": [round(x) for x in rates[side]]} for side in sides},
            "times_minigrid": round(medians["shoal"] / medians["minigrid"], 1),
            "times_envpool": round(medians["shoal"] / medians["envpool"], 2),
            "resets_reused": answers["shoal"][0]["resets_reused"],
            "versions": {side: rounds[0]["versions"] for side, rounds in answers.items()},
        }
        print(name, {key: found["ids"][name][key] for key in ("times_minigrid", "times_envpool")}, medians, flush=True)
    (RESULTS / "babyai-speed.json").write_text(json.dumps(found, indent=1) + "\n")


def answer(command: tuple[str, ...]) -> dict:
    """The last line that a worker prints, as JSON; it runs on one core."""
    python, script, *rest = command
    whole = ["taskset", "-c", "0", python, str(HERE / "workers" / script), *rest]
    done = subprocess.run(whole, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def rate(found: dict) -> float:
    """Steps per second of processor time, of the fastest repeat."""
    return found["steps"] / min(found["cpu_s"])


def compile_all() -> None:
    """Compile `reset` and `step` of each id, and write and print the seconds."""
    import jax
    import jax.numpy as jnp
    from workers.measure import compile_phases

    from shoal.core.keys import make_key
    from shoal.core.registry import ENVS, make
    from shoal.core.struct import to_arrays

    path = RESULTS / "babyai-compile.json"
    seconds = json.loads(path.read_text())["seconds"] if path.exists() and args.ids else {}
    for name in args.ids or sorted(name for name in ENVS if name.startswith("BabyAI-")):
        env, keys = to_arrays(make(name)), jax.random.split(make_key(0), 2048)
        _, state = jax.eval_shape(jax.vmap(env.reset), keys)
        programs = {
            "reset": (env.reset, keys),
            "step": (env.step, keys, state, jax.ShapeDtypeStruct((2048,), jnp.int32)),
        }
        seconds[name] = {
            part: {key: round(value, 3) for key, value in compile_phases(jax.vmap(function), *arguments)[1].items()}
            for part, (function, *arguments) in programs.items()
        }
        print(name, seconds[name], flush=True)
        jax.clear_caches()
    found = {"machine": machine(), "jax": jax.__version__, "seconds": dict(sorted(seconds.items()))}
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    {"speed": speed, "compile": compile_all}[args.what]()
